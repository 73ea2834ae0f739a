"""The identity of this machine: it distinguishes two machines that report under the same name."""

from hashlib import blake2b

from agent.sources.files import read_file

_KEY = b"wattpack machine"
_DIGEST_BYTES = 16


def read_machine(sys: str, etc: str = "/etc") -> str | None:
    """A hash of the machine's id, or of its serial number; None if neither can be read.

    The id itself is confidential: see machine-id(5).
    """
    for path in (f"{etc}/machine-id", f"{sys}/class/dmi/id/product_uuid"):
        text = (read_file(path) or b"").strip()
        if text and text != b"uninitialized":
            return blake2b(text, key=_KEY, digest_size=_DIGEST_BYTES).hexdigest()
    return None

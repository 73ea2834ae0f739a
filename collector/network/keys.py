"""Keys of pairs, derived from one secret that never leaves the collector. Pure.

Only the two nodes of a pair get its key, so a node cannot forge a probe between two others. A key is valid
until one of the agents restarts or the next epoch begins.
"""

import hmac
import struct

from collector.network.members import Member

_ENTRY = struct.Struct(">QH")


def pair_key(secret: bytes, epoch: int, one: Member, other: Member) -> bytes:
    """The key of two members, in either order."""
    parts = [struct.pack(">Q", epoch)]
    for member in sorted((one, other)):
        name = member.node.encode()
        parts += [_ENTRY.pack(member.session, len(name)), name]
    return hmac.digest(secret, b"".join(parts), "sha256")

"""What a policy learned, as bytes: a version and the state of the policy.

Bytes that are damaged, or of another policy or version, are ignored.
"""

from typing import TypeVar

import msgspec

_State = TypeVar("_State", bound=msgspec.Struct)


def encode_learned(version: str, state: msgspec.Struct) -> bytes:
    """Encode a state; `version` names the policy and the layout of its state."""
    return msgspec.msgpack.encode((version, state))


def decode_learned(learned: bytes, version: str, kind: type[_State]) -> _State:
    """Decode a state; returns an empty one if the bytes do not contain one of this version."""
    if not learned:
        return kind()
    try:
        found: tuple[str, _State] = msgspec.msgpack.decode(learned, type=tuple[str, kind])  # type: ignore[valid-type]
    except (msgspec.DecodeError, ValueError, OverflowError):
        return kind()
    return found[1] if found[0] == version else kind()

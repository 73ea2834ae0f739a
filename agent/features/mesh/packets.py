"""The datagrams of the mesh. Pure.

A request and its reply have the same size and the same fields:

| bytes | field |
|---|---|
| 0 | version and kind |
| 1-3 | in a reply: microseconds between the receipt of the request and the reply |
| 4-11 | session of the receiver |
| 12-19 | session of the sender |
| 20-23 | sequence number of the request |
| 24-39 | HMAC-SHA256 over bytes 0-23 with the key of the pair, truncated |

The session of the receiver is a random number that only its peers know: the kernel drops a datagram without
it before the agent wakes up.
"""

import hmac
import struct
from dataclasses import dataclass

PACKET_BYTES = 40
REQUEST, REPLY = 0x11, 0x12
"""Version 1 in the upper four bits."""
MAX_HELD_MICROSECONDS = (1 << 24) - 1
MAX_SEQUENCE = (1 << 32) - 1

_BODY = struct.Struct(">IQQI")
_TAG_BYTES = PACKET_BYTES - _BODY.size


@dataclass(frozen=True, slots=True)
class Packet:
    """The fields of a datagram whose tag is not checked yet."""

    kind: int
    held_microseconds: int
    receiver: int
    sender: int
    sequence: int


def encode_packet(packet: Packet, key: bytes) -> bytes:
    """Encode a datagram with its tag."""
    body = _BODY.pack(
        packet.kind << 24 | packet.held_microseconds, packet.receiver, packet.sender, packet.sequence
    )
    return body + hmac.digest(key, body, "sha256")[:_TAG_BYTES]


def parse_packet(datagram: bytes) -> Packet | None:
    """Parse a datagram; None if it has another size or kind."""
    if len(datagram) != PACKET_BYTES:
        return None
    first, receiver, sender, sequence = _BODY.unpack_from(datagram)
    kind = first >> 24
    if kind not in {REQUEST, REPLY}:
        return None
    return Packet(kind, first & MAX_HELD_MICROSECONDS, receiver, sender, sequence)


def has_valid_tag(datagram: bytes, key: bytes) -> bool:
    """Whether the tag of a parsed datagram is that of this key."""
    tag = hmac.digest(key, datagram[: _BODY.size], "sha256")[:_TAG_BYTES]
    return hmac.compare_digest(tag, datagram[_BODY.size :])

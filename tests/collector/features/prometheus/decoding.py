"""Remote write read back, field by field, as a store would: what the tests hold the encoder against."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Written:
    """One series of a request."""

    labels: tuple[tuple[str, str], ...]
    """In the order in which they came."""
    samples: tuple[tuple[int, float], ...]
    """Milliseconds and values."""

    @property
    def name(self) -> str:
        return dict(self.labels)["__name__"]


def decode(request: bytes) -> list[Written]:
    return [_series(body) for number, body in _fields(request) if number == 1]


def _series(body: bytes) -> Written:
    labels, samples = [], []
    for number, part in _fields(body):
        inner = dict(_fields(part))
        if number == 1:
            labels.append((inner[1].decode(), inner[2].decode()))
        else:
            (value,) = struct.unpack("<d", inner[1])
            samples.append((int.from_bytes(inner[2], "little"), value))
    return Written(tuple(labels), tuple(samples))


def _fields(body: bytes) -> Iterator[tuple[int, bytes]]:
    place = 0
    while place < len(body):
        tag, place = _varint(body, place)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value, place = _varint(body, place)
            yield number, value.to_bytes(8, "little")
        elif kind == 1:
            yield number, body[place : place + 8]
            place += 8
        else:
            assert kind == 2
            size, place = _varint(body, place)
            assert place + size <= len(body)
            yield number, body[place : place + size]
            place += size


def _varint(body: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = body[place]
        value |= (byte & 0x7F) << shift
        place += 1
        if byte < 0x80:
            return value, place
        shift += 7

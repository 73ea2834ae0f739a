"""Smaller screenshots: PNG files with a palette of the most frequent colours."""

import struct
import zlib
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {2: 3, 6: 4}
"""Bytes of a pixel, by the colour type of the file: RGB, and RGB with alpha."""
_SUB, _UP, _AVERAGE, _PAETH = 1, 2, 3, 4


def with_palette(png: bytes, colours: int = 256) -> bytes:
    """Reduce a picture to this many colours; other colours become the nearest of these."""
    pixels = decode(png)
    height, width, _ = pixels.shape
    packed = pixels.reshape(-1, 3).astype(np.int64) @ np.array([1 << 16, 1 << 8, 1])
    found, place, count = np.unique(packed, return_inverse=True, return_counts=True)
    levels = np.stack([found >> 16 & 255, found >> 8 & 255, found & 255], axis=1)
    kept = _palette(levels, count, colours)
    palette = levels[kept]
    nearest = np.concatenate(
        [
            ((part[:, None, :] - palette[None, :, :]) ** 2).sum(axis=2).argmin(axis=1)
            for part in np.array_split(levels, max(1, len(levels) // 1024))
        ]
    )
    rows = nearest[place].astype(np.uint8).reshape(height, width)
    data = np.concatenate((np.zeros((height, 1), np.uint8), rows), axis=1).tobytes()
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", palette.astype(np.uint8).tobytes()),
        (b"IDAT", zlib.compress(data, 9)),
        (b"IEND", b""),
    )
    return _SIGNATURE + b"".join(_chunk(name, body) for name, body in parts)


def _palette(levels: NDArray[np.int64], count: NDArray[np.int64], colours: int) -> NDArray[np.int64]:
    """Choose the most frequent colours, then the most distant ones, so that icons keep their colours."""
    kept = np.argsort(-count, kind="stable")[: max(1, colours - colours // 4)].tolist()
    distance = np.full(len(levels), np.iinfo(np.int64).max)
    for place in kept:
        distance = np.minimum(distance, ((levels - levels[place]) ** 2).sum(axis=1))
    while len(kept) < colours and distance.max() > 0:
        kept.append(int(distance.argmax()))
        distance = np.minimum(distance, ((levels - levels[kept[-1]]) ** 2).sum(axis=1))
    return np.sort(np.array(kept))


def decode(png: bytes) -> Bytes:
    """Decode a file as browsers write it: 8 bits, RGB or RGBA, not interlaced."""
    chunks = list(_chunks(png))
    width, height, depth, kind, _, _, interlaced = struct.unpack(">IIBBBBB", chunks[0][1])
    if depth != 8 or kind not in _CHANNELS or interlaced:  # noqa: PLR2004 - bits of a byte
        raise ValueError("not a PNG file with 8 bits of RGB or RGBA")
    size = _CHANNELS[kind]
    body = zlib.decompress(b"".join(data for name, data in chunks if name == b"IDAT"))
    lines = np.frombuffer(body, np.uint8).reshape(height, 1 + width * size)
    pixels = np.zeros((height, width * size), np.uint8)
    above = np.zeros(width * size, np.uint8)
    for row in range(height):
        above = pixels[row] = _unfilter(int(lines[row, 0]), lines[row, 1:], above, size)
    return pixels.reshape(height, width, size)[:, :, :3]


def _unfilter(kind: int, line: Bytes, above: Bytes, size: int) -> Bytes:
    if kind == _SUB:
        return np.cumsum(line.reshape(-1, size), axis=0, dtype=np.uint8).reshape(-1)
    if kind == _UP:
        return line + above
    if kind not in {_AVERAGE, _PAETH}:
        return line
    done = [0] * (size + len(line))
    up = [0] * size + above.tolist()
    for place, value in enumerate(line.tolist(), start=size):
        left, over, corner = done[place - size], up[place], up[place - size]
        guess = (left + over) // 2 if kind == _AVERAGE else _paeth(left, over, corner)
        done[place] = (value + guess) & 255
    return np.array(done[size:], np.uint8)


def _paeth(left: int, over: int, corner: int) -> int:
    guess = left + over - corner
    return min((left, over, corner), key=lambda each: abs(guess - each))


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    place = len(_SIGNATURE)
    while place < len(png):
        (length,) = struct.unpack_from(">I", png, place)
        yield png[place + 4 : place + 8], png[place + 8 : place + 8 + length]
        place += 12 + length


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

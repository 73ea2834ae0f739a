import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.page.png import decode, with_palette

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def encode(pixels: np.ndarray, filters: list[int]) -> bytes:
    """A picture as a browser writes it, with a filter for each row."""
    height, width, size = pixels.shape
    kind = {3: 2, 4: 6}[size]
    plain = pixels.reshape(height, -1).astype(int)
    lines = b""
    for row, chosen in enumerate(filters):
        above = plain[row - 1] if row else np.zeros(width * size, int)
        left = np.concatenate((np.zeros(size, int), plain[row][:-size]))
        corner = np.concatenate((np.zeros(size, int), above[:-size]))
        guess = left + above - corner
        options = np.stack((left, above, corner))
        paeth = options[np.abs(guess - options).argmin(axis=0), np.arange(width * size)]
        taken = [np.zeros_like(left), left, above, (left + above) // 2, paeth][chosen]
        lines += bytes([chosen]) + ((plain[row] - taken) % 256).astype(np.uint8).tobytes()
    head = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    return SIGNATURE + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


@given(
    size=st.sampled_from([3, 4]),
    width=st.integers(1, 9),
    filters=st.lists(st.integers(0, 4), min_size=1, max_size=9),
    seed=st.integers(0, 999),
)
def test_every_filter_is_undone(size: int, width: int, filters: list[int], seed: int) -> None:
    pixels = np.random.default_rng(seed).integers(0, 256, (len(filters), width, size), dtype=np.uint8)
    assert np.array_equal(decode(encode(pixels, filters)), pixels[:, :, :3])


def test_few_colours_are_kept_and_rare_ones_become_the_nearest() -> None:
    pixels = np.zeros((10, 10, 3), np.uint8)
    pixels[:5] = 200
    pixels[0, 0] = 190
    small = with_palette(encode(pixels, [0] * 10), colours=2)
    palette = small[small.index(b"PLTE") + 4 :][:6]
    assert palette == bytes([0, 0, 0, 200, 200, 200])
    data = small[small.index(b"IDAT") + 4 :]
    rows = np.frombuffer(zlib.decompressobj().decompress(data), np.uint8).reshape(10, 11)[:, 1:]
    assert rows[:5].all()
    assert not rows[5:].any()


def test_a_rare_colour_that_is_unlike_all_others_is_kept() -> None:
    pixels = np.repeat(np.arange(100, 120, dtype=np.uint8)[:, None, None], 30, axis=1).repeat(3, axis=2)
    pixels[3, 3] = (255, 120, 0)
    small = with_palette(encode(pixels, [0] * 20), colours=8)
    assert bytes([255, 120, 0]) in small[small.index(b"PLTE") + 4 :][:24]


def test_another_kind_of_picture_is_an_error() -> None:
    head = struct.pack(">IIBBBBB", 1, 1, 16, 2, 0, 0, 0)
    with pytest.raises(ValueError, match="8 bits"):
        decode(SIGNATURE + chunk(b"IHDR", head))

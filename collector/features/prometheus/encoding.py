"""Encoding of remote write 1.0: a `WriteRequest` of protocol buffers, compressed with snappy.

Only four messages are needed, and each is a tag, a length and bytes:

    WriteRequest { repeated TimeSeries timeseries = 1; }
    TimeSeries   { repeated Label labels = 1; repeated Sample samples = 2; }
    Label        { string name = 1; string value = 2; }
    Sample       { double value = 1; int64 timestamp = 2; }

Two properties make it fast. Messages are merged by concatenation, so requests can be joined without parsing
them. And a sample always takes 18 bytes, as the milliseconds of any time from 1972 to 2109 take six bytes; so
many samples are written at once into an array of records.
"""

import struct
from collections.abc import Mapping

import cramjam
import numpy as np

from collector.common.arrays import Floats

STALE: float = struct.unpack("<d", struct.pack("<Q", 0x7FF0000000000002))[0]
"""Prometheus' staleness marker: a special NaN that ends a series."""

_TIMESERIES = _LABELS = _NAME = b"\x0a"
_VALUE = b"\x12"
_SAMPLE = np.dtype(
    [("head", "V3"), ("value", "<f8"), ("tag", "u1"), ("time", "u1", (6,))],
)
_SAMPLE_HEAD = b"\x12\x10\x09"
"""Header of a sample: its tag, its length, and the tag of its value."""
_TIME_TAG = 0x10
_SHIFTS = np.arange(6, dtype=np.int64) * 7
_MORE = np.array([0x80] * 5 + [0], dtype=np.uint8)


def labels(pairs: Mapping[str, str]) -> bytes:
    """Labels, sorted as the format requires, without empty ones.

    The name of a series is the label `__name__`. Parts that are sorted can be concatenated.
    """
    return b"".join(_label(key, value) for key, value in sorted(pairs.items()) if value)


def _label(key: str, value: str) -> bytes:
    name, text = key.encode(), value.encode(errors="replace")
    return _field(_LABELS, _field(_NAME, name) + _field(_VALUE, text))


def _field(tag: bytes, body: bytes) -> bytes:
    return tag + _varint(len(body)) + body


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:  # noqa: PLR2004 - seven bits at a time
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def series(labels: bytes, at: Floats, values: Floats) -> bytes:
    """A request with one series; times are Unix times, in order."""
    records = np.empty(len(values), _SAMPLE)
    records["head"] = np.void(_SAMPLE_HEAD)
    records["value"] = values
    records["tag"] = _TIME_TAG
    milliseconds = np.rint(at * 1000).astype(np.int64)
    records["time"] = (milliseconds[:, None] >> _SHIFTS & 0x7F).astype(np.uint8) | _MORE
    return _field(_TIMESERIES, labels + records.tobytes())


def sample(labels: bytes, time: bytes, value: float) -> bytes:
    """A request with one sample, at a time encoded by `time_bytes`: the most common case."""
    return _field(_TIMESERIES, b"".join((labels, _SAMPLE_HEAD, struct.pack("<d", value), time)))


def time_bytes(at: float) -> bytes:
    """The time of a sample, with its tag."""
    return bytes((_TIME_TAG,)) + _varint(round(at * 1000))


def compress(request: bytes) -> bytes:
    """Compress a request."""
    return bytes(cramjam.snappy.compress_raw(request))


def decompress(compressed: bytes) -> bytes:
    """Decompress a request."""
    return bytes(cramjam.snappy.decompress_raw(compressed))

"""Remote write's one message, written by hand: a `WriteRequest` of protocol buffers, packed with snappy.

Of the format (remote write 1.0) four shapes are needed, and every one is a tag, a length and bytes:

    WriteRequest { repeated TimeSeries timeseries = 1; }
    TimeSeries   { repeated Label labels = 1; repeated Sample samples = 2; }
    Label        { string name = 1; string value = 2; }
    Sample       { double value = 1; int64 timestamp = 2; }

Two properties make it quick. Messages add up by being written one after the other, so requests can be joined
without being read. And a sample always takes 18 bytes, as the milliseconds of any time from 2004 to 2109 take
six bytes; so samples are filled into an array of records at once.
"""

import struct
from collections.abc import Mapping

import cramjam
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

STALE: float = struct.unpack("<d", struct.pack("<Q", 0x7FF0000000000002))[0]
"""The value by which a series says that it has ended: a NaN of its own, as Prometheus defines it."""

EARLIEST, LATEST = 2**35 / 1000, 2**42 / 1000
"""Unix times between which a timestamp takes six bytes."""

_TIMESERIES = _LABELS = _NAME = b"\x0a"
_VALUE = b"\x12"
_SAMPLE = np.dtype(
    [("head", "V3"), ("value", "<f8"), ("tag", "u1"), ("time", "u1", (6,))],
)
_SAMPLE_HEAD = b"\x12\x10\x09"
"""A sample of sixteen bytes, which begins with a double."""
_TIME_TAG = 0x10
_SHIFTS = np.arange(6, dtype=np.int64) * 7
_MORE = np.array([0x80] * 5 + [0], dtype=np.uint8)


def labels(pairs: Mapping[str, str]) -> bytes:
    """Labels, sorted as the format asks; empty ones are left out, as they mean nothing.

    A series' name is the label `__name__`. What is sorted in parts can be joined.
    """
    return b"".join(_label(key, value) for key, value in sorted(pairs.items()) if value)


def _label(key: str, value: str) -> bytes:
    name, said = key.encode(), value.encode(errors="replace")
    return _field(_LABELS, _field(_NAME, name) + _field(_VALUE, said))


def _field(tag: bytes, body: bytes) -> bytes:
    return tag + _varint(len(body)) + body


def _varint(number: int) -> bytes:
    written = bytearray()
    while number > 0x7F:  # noqa: PLR2004 - seven bits at a time
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


def series(labels: bytes, at: Floats, values: Floats) -> bytes:
    """A request of one series; times are Unix times between `EARLIEST` and `LATEST`, in order."""
    records = np.empty(len(values), _SAMPLE)
    records["head"] = np.void(_SAMPLE_HEAD)
    records["value"] = values
    records["tag"] = _TIME_TAG
    milliseconds = np.rint(at * 1000).astype(np.int64)
    records["time"] = (milliseconds[:, None] >> _SHIFTS & 0x7F).astype(np.uint8) | _MORE
    return _field(_TIMESERIES, labels + records.tobytes())


def sample(labels: bytes, time: bytes, value: float) -> bytes:
    """A request of one series with one sample, at a time written by `time_bytes`: the commonest case."""
    return _field(_TIMESERIES, b"".join((labels, _SAMPLE_HEAD, struct.pack("<d", value), time)))


def time_bytes(at: float) -> bytes:
    """A sample's time, tag and all."""
    return bytes((_TIME_TAG,)) + _varint(round(at * 1000))


def pack(request: bytes) -> bytes:
    """A request as it is kept and sent."""
    return bytes(cramjam.snappy.compress_raw(request))


def unpack(packed: bytes) -> bytes:
    """What was packed."""
    return bytes(cramjam.snappy.decompress_raw(packed))

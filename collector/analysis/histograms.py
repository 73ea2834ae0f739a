"""Histograms of all four resources in one array: small to store, and fast to add up and to weight.

An agent reports one `wire.Sketch` per resource. Here one number, the *key*, stands for a bin: the
resource in the upper bits, the bin in the lower ones, zero samples below all bins. One sorted array holds a
container. With a row number above the key, one array holds many containers, and a few array operations add
them up and find their percentiles. Most histograms are needed only when the next heartbeat arrives, so they
are kept packed, at three bytes per bin.
"""

from collections.abc import Sequence
from itertools import chain, compress, pairwise
from struct import pack as pack_numbers
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from collector.common.arrays import Floats, Numbers, Rows
from wire.messages import ContainerUsage
from wire.resources import RESOURCES
from wire.sketch import FLOORS, HIGHEST_BIN, LOWEST_BIN, RELATIVE_ERROR, middle_of

Keys = NDArray[np.int64]
"""Sorted and unique: a row, a resource and a bin in one number."""

Amount = TypeVar("Amount", np.int64, np.float64)

Packed = bytes
"""The width of a count, the counts, and the keys of two bytes each."""

BIN_BITS = 13
ROW_BITS = BIN_BITS + 2
_BINS = 1 << BIN_BITS
_BIN_MASK = _BINS - 1
_KEY_MASK = (1 << ROW_BITS) - 1
_MIDDLE = _BINS // 2
_ZERO_BIN = _MIDDLE + LOWEST_BIN - 1
"""The bin of zero samples."""
MAX_COUNT = 2**32 - 1
"""Counts in reports may be absurd; no container has more samples than this."""

VALUES: Floats = np.zeros(_BINS)
"""The middle value of each bin."""
VALUES[_ZERO_BIN + 1 : _MIDDLE + HIGHEST_BIN + 1] = [
    middle_of(index) for index in range(LOWEST_BIN, HIGHEST_BIN + 1)
]

_HEAD_BYTES = 4
"""One byte is used; four keep the counts aligned."""
_KEY_TYPE = np.dtype("<u2")
_KEY_BYTES = _KEY_TYPE.itemsize
_COUNT_TYPES: dict[int, np.dtype[np.unsignedinteger[Any]]] = {
    1: np.dtype("<u1"),
    2: np.dtype("<u2"),
    4: np.dtype("<u4"),
}
_HEADS = {width: bytes((width, 0, 0, 0)) for width in _COUNT_TYPES}
_LOG_GAMMA = float(np.log((1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)))
_BASES = tuple(place * _BINS + _MIDDLE for place in range(len(RESOURCES)))


def stack(packed: Sequence[Packed], rows: Sequence[int]) -> tuple[Keys, Numbers, list[int]]:
    """Keys and counts of many histograms, each under its row number, and the size of each histogram.

    Several may have the same row; `sum_by_key` then merges them.
    """
    widths = [each[0] for each in packed]
    sizes = [
        (len(each) - _HEAD_BYTES) // (width + _KEY_BYTES) for each, width in zip(packed, widths, strict=True)
    ]
    if not sizes:
        return np.empty(0, np.int64), np.empty(0, np.int64), sizes
    # One array of all bytes is faster than one per histogram.
    cuts = [_HEAD_BYTES + width * size for width, size in zip(widths, sizes, strict=True)]
    short = b"".join([each[cut:] for each, cut in zip(packed, cuts, strict=True)])
    keys = np.frombuffer(short, _KEY_TYPE).astype(np.int64)
    tallies = [each[_HEAD_BYTES:cut] for each, cut in zip(packed, cuts, strict=True)]
    if len(set(widths)) == 1:
        counts = np.frombuffer(b"".join(tallies), _COUNT_TYPES[widths[0]]).astype(np.int64)
    else:
        counts = np.empty(sum(sizes), np.int64)
        for width in set(widths):
            has_width = [own == width for own in widths]
            some = b"".join(compress(tallies, has_width))
            counts[np.repeat(has_width, sizes)] = np.frombuffer(some, _COUNT_TYPES[width])
    bases = np.repeat(np.array(rows, np.int64) << ROW_BITS, sizes)
    return bases + keys, counts, sizes


def stack_usage(
    usages: Sequence[ContainerUsage], rows: Sequence[int], stored: Sequence[tuple[Packed, int]] = ()
) -> tuple[Keys, Numbers]:
    """Keys and counts of the usage in heartbeats, and of stored histograms, by row; in any order."""
    found = [
        ((row << ROW_BITS) + base, sketch)
        for row, usage in zip(rows, usages, strict=True)
        for base, sketch in zip(_BASES, (usage.cpu, usage.memory, usage.disk, usage.network), strict=True)
        if sketch is not None
    ]
    bins = list(chain.from_iterable(sketch.bins for _, sketch in found))
    counts = list(chain.from_iterable(sketch.bins.values() for _, sketch in found))
    counts += [sketch.zeros for _, sketch in found]
    starts = _numbers([start for start, _ in found])
    sizes = [len(sketch.bins) for _, sketch in found]
    keys = np.concatenate((_numbers(bins) + np.repeat(starts, sizes), starts + (LOWEST_BIN - 1)))
    tallies = np.minimum(_numbers(counts), MAX_COUNT)
    there = tallies > 0
    stored_keys, stored_counts, _ = stack([packed for packed, _ in stored], [row for _, row in stored])
    return np.concatenate((stored_keys, keys[there])), np.concatenate((stored_counts, tallies[there]))


def sample_keys(values: Floats, place: int) -> Keys:
    """The key of each sample of one resource, by its place in `RESOURCES`; in the bins of a sketch."""
    floor = FLOORS[place]
    bins = np.ceil(np.log(np.maximum(values, floor)) / _LOG_GAMMA)
    bins = np.where(values > floor, np.clip(bins, LOWEST_BIN, HIGHEST_BIN), LOWEST_BIN - 1)
    return _BASES[place] + bins.astype(np.int64)


def _numbers(values: Sequence[int]) -> Numbers:
    # The struct module converts a list in less than half of the time that numpy takes.
    return np.frombuffer(pack_numbers(f"{len(values)}q", *values), np.int64)


def sum_by_key(keys: Keys, amounts: NDArray[Amount]) -> tuple[Keys, NDArray[Amount]]:
    """Sort by key, and add up the amounts of equal keys."""
    if not keys.size:
        return keys, amounts
    # Stacked keys consist of sorted runs, which a stable sort handles fast.
    order = np.argsort(keys, kind="stable")
    keys, amounts = keys[order], amounts[order]
    starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    return keys[starts], np.add.reduceat(amounts, starts)


def add_usage(
    stored: Sequence[Packed | None], usages: Sequence[ContainerUsage], rows: Sequence[int]
) -> tuple[Keys, Numbers]:
    """Add the samples of a heartbeat to stored histograms; `rows` has the row of each usage."""
    known = [(packed, row) for row, packed in enumerate(stored) if packed is not None]
    return sum_by_key(*stack_usage(usages, rows, known))


def add(stored: Sequence[tuple[Packed, int]], keys: Keys, counts: Numbers) -> tuple[Keys, Numbers]:
    """Add up stored histograms, each with its row, and keys in any order."""
    stored_keys, stored_counts, _ = stack([packed for packed, _ in stored], [row for _, row in stored])
    return sum_by_key(np.concatenate((stored_keys, keys)), np.concatenate((stored_counts, counts)))


def merge(first: Sequence[Packed], second: Sequence[Packed]) -> list[Packed]:
    """Add up each histogram of `first` and its counterpart in `second`."""
    keys, counts, _ = stack([*first, *second], [*range(len(first)), *range(len(second))])
    return pack(*sum_by_key(keys, counts), len(first))


def pack(keys: Keys, counts: Numbers, rows: int) -> list[Packed]:
    """One packed histogram per row, from the result of `sum_by_key`."""
    counts = np.minimum(counts, MAX_COUNT)
    ends = np.searchsorted(keys, np.arange(rows + 1, dtype=np.int64) << ROW_BITS)
    # Converting all at once and cutting then is faster than one array each.
    short = (keys & _KEY_MASK).astype(_KEY_TYPE).tobytes()
    widths = _widths(counts, ends)
    wide = {width: counts.astype(_COUNT_TYPES[width]).tobytes() for width in set(widths)}
    return [
        _HEADS[width]
        + wide[width][width * begin : width * end]
        + short[_KEY_BYTES * begin : _KEY_BYTES * end]
        for width, (begin, end) in zip(widths, pairwise(ends.tolist()), strict=True)
    ]


def _widths(counts: Numbers, ends: Rows) -> list[int]:
    """The bytes that the largest count of each row needs."""
    largest = np.zeros(ends.size - 1, np.int64)
    there = np.flatnonzero(ends[1:] > ends[:-1])
    if there.size:
        largest[there] = np.maximum.reduceat(counts, ends[there])
    return [1 if each < 1 << 8 else 2 if each < 1 << 16 else 4 for each in largest.tolist()]

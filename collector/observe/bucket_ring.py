"""The closed buckets of all rows: one array per bucket, which snapshots share until it changes."""

from collections import deque

import numpy as np
from numpy.typing import NDArray

from collector.common.arrays import Rows
from collector.snapshot.windows import Amounts, TaskWindows
from wire.resources import RESOURCES

BUCKETS = 36
_WIDTH = len(RESOURCES)
_UNKNOWN_BUCKET: Amounts = np.full(_WIDTH, np.nan, np.float32)
_UNKNOWN_ROW: Amounts = np.full((BUCKETS, _WIDTH), np.nan, np.float32)
_UNKNOWN_ROW.flags.writeable = False


class BucketRing:
    """The last buckets, the oldest first. A negative place counts from the newest bucket."""

    def __init__(self) -> None:
        self._buckets: deque[Amounts | None] = deque([None] * BUCKETS, maxlen=BUCKETS)
        """None is a bucket without known values. Rows that an array does not have are unknown."""
        self._is_shared: deque[bool] = deque([False] * BUCKETS, maxlen=BUCKETS)
        self._replaced: dict[int, Amounts] = {}
        """All buckets of rows that are written before the next use: many rows cost little more than one."""

    def append(self, bucket: Amounts) -> None:
        """Add a bucket, and drop the oldest."""
        self._flush()
        self._buckets.append(None if np.isnan(bucket).all() else bucket)
        self._is_shared.append(False)

    def get(self, place: int, rows: Rows) -> Amounts:
        """The values of these rows in a bucket."""
        self._flush()
        return TaskWindows([self._buckets[place]], rows).amounts[:, 0]

    def put(self, place: int, rows: Rows, values: Amounts) -> None:
        """Replace the values of these rows in a bucket."""
        self._flush()
        self._writable(place, int(rows.max(initial=0)))[rows] = values

    def row(self, row: int) -> Amounts:
        """All buckets of a row, which do not change any more."""
        replaced = self._replaced.get(row)
        if replaced is not None:
            return replaced
        # One row of each bucket: `TaskWindows` takes ten times as long for a single row.
        buckets = [
            bucket[row] if bucket is not None and row < len(bucket) else _UNKNOWN_BUCKET
            for bucket in self._buckets
        ]
        return np.concatenate(buckets).reshape(BUCKETS, _WIDTH)

    def put_row(self, row: int, values: Amounts) -> None:
        """Replace all buckets of a row. The values must not change afterwards."""
        self._replaced[row] = values

    def clear(self, row: int) -> None:
        """Clear a row: its buckets are unknown."""
        self._replaced[row] = _UNKNOWN_ROW

    def share(self, rows: Rows) -> TaskWindows:
        """All buckets of these rows, as they are now."""
        self._flush()
        for place, bucket in enumerate(self._buckets):
            self._is_shared[place] = bucket is not None
        return TaskWindows(tuple(self._buckets), rows)

    @property
    def size_bytes(self) -> int:
        """Memory that the buckets take."""
        self._flush()
        return sum(bucket.nbytes for bucket in self._buckets if bucket is not None)

    def _flush(self) -> None:
        """Write the rows that were replaced. A bucket that snapshots share is copied only if it changes."""
        if not self._replaced:
            return
        rows = np.fromiter(self._replaced, np.intp, len(self._replaced))
        after = np.stack(list(self._replaced.values()))
        self._replaced = {}
        before = TaskWindows(self._buckets, rows).amounts
        highest = int(rows.max())
        for place in np.flatnonzero(_differs(before, after)).tolist():
            self._writable(place, highest)[rows] = after[:, place]

    def _writable(self, place: int, row: int) -> Amounts:
        bucket = self._buckets[place]
        if bucket is None or len(bucket) <= row or self._is_shared[place]:
            have = 0 if bucket is None else len(bucket)
            new = np.full((max(have, row + 1), _WIDTH), np.nan, np.float32)
            if bucket is not None:
                new[:have] = bucket
            bucket = self._buckets[place] = new
            self._is_shared[place] = False
        return bucket


def _differs(before: Amounts, after: Amounts) -> NDArray[np.bool_]:
    """Which buckets differ in any of these rows."""
    is_equal = (before == after) | (np.isnan(before) & np.isnan(after))
    differs: NDArray[np.bool_] = ~is_equal.all(axis=(0, 2))
    return differs

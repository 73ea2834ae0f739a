"""The closed buckets of all rows: one array per bucket, which snapshots share until it changes."""

from collections import deque

import numpy as np

from collector.common.arrays import Rows
from collector.snapshot.windows import Amounts, TaskWindows
from wire.resources import RESOURCES

BUCKETS = 36
_WIDTH = len(RESOURCES)
_UNKNOWN_BUCKET: Amounts = np.full(_WIDTH, np.nan, np.float32)
_UNKNOWN_ROW: Amounts = np.full((BUCKETS, _WIDTH), np.nan, np.float32)


class BucketRing:
    """The last buckets, the oldest first. A negative place counts from the newest bucket."""

    def __init__(self) -> None:
        self._buckets: deque[Amounts | None] = deque([None] * BUCKETS, maxlen=BUCKETS)
        """None is a bucket without known values. Rows that an array does not have are unknown."""
        self._is_shared: deque[bool] = deque([False] * BUCKETS, maxlen=BUCKETS)

    def append(self, bucket: Amounts) -> None:
        """Add a bucket, and drop the oldest."""
        self._buckets.append(None if np.isnan(bucket).all() else bucket)
        self._is_shared.append(False)

    def get(self, place: int, rows: Rows) -> Amounts:
        """The values of these rows in a bucket."""
        return TaskWindows([self._buckets[place]], rows).amounts[:, 0]

    def put(self, place: int, rows: Rows, values: Amounts) -> None:
        """Replace the values of these rows in a bucket."""
        self._writable(place, int(rows.max(initial=0)))[rows] = values

    def row(self, row: int) -> Amounts:
        """All buckets of a row, as a copy."""
        # One row of each bucket: `TaskWindows` takes ten times as long for a single row.
        buckets = [
            bucket[row] if bucket is not None and row < len(bucket) else _UNKNOWN_BUCKET
            for bucket in self._buckets
        ]
        return np.concatenate(buckets).reshape(BUCKETS, _WIDTH)

    def put_row(self, row: int, values: Amounts) -> None:
        """Replace all buckets of a row. A bucket that snapshots share is copied only if it changes."""
        before = self.row(row)
        is_equal = (before == values) | (np.isnan(before) & np.isnan(values))
        for place in np.flatnonzero(~is_equal.all(axis=1)).tolist():
            self._writable(place, row)[row] = values[place]

    def clear(self, row: int) -> None:
        """Clear a row: its buckets are unknown."""
        self.put_row(row, _UNKNOWN_ROW)

    def share(self, rows: Rows) -> TaskWindows:
        """All buckets of these rows, as they are now."""
        for place, bucket in enumerate(self._buckets):
            self._is_shared[place] = bucket is not None
        return TaskWindows(tuple(self._buckets), rows)

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

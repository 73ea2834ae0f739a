"""Usage over the last hours, in buckets of five minutes: one row per node or container.

A report describes its own window, and its values hold until the window of the next report begins, or until
the node falls silent: the rule of the history (`collector.history.timeline`), so that a collector that
restarts finds the same windows there. A bucket holds the mean of what was known in it, weighted by time. All
rows have the same buckets, so that closing one is a single operation of numpy. The first report after a
bucket has closed usually describes some of its end: that bucket is then corrected.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collector.common.arrays import Floats, Rows
from collector.history.timeline import change_times
from collector.snapshot.windows import Amounts, TaskWindows
from wire.resources import RESOURCES

BUCKET_SECONDS = 300.0
_WIDTH = len(RESOURCES)
BUCKETS = 36
_UNKNOWN_BUCKET: Amounts = np.full(_WIDTH, np.nan, np.float32)
_UNKNOWN_ROW: Amounts = np.full((BUCKETS, _WIDTH), np.nan, np.float32)
_NOT_YET = -1
_BLOCK = 1024
"""Rows that are added at once: doubling would take up to twice the memory."""
_Columns = dict[str, NDArray[Any]]
_SUMS = ("weighed", "seconds", "last_weighed", "last_seconds")


def _blank(rows: int) -> _Columns:
    sums = (rows, _WIDTH)
    return {
        "value": np.full(sums, np.nan, np.float32),
        "at": np.full(rows, -np.inf),
        "weighed": np.zeros(sums, np.float32),
        "seconds": np.zeros(sums, np.float32),
        "last_weighed": np.zeros(sums, np.float32),
        "last_seconds": np.zeros(sums, np.float32),
    }


_BLANK_ROW = {name: column[0] for name, column in _blank(1).items()}


class BucketRing:
    """The last closed buckets of all rows, the oldest first: one array each, which snapshots share.

    A negative place counts from the newest bucket.
    """

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


@dataclass(frozen=True, slots=True)
class KeptRow:
    """The windows of a row that is given back, in case its container appears elsewhere."""

    closed: int
    """Buckets that had closed by then."""
    values: dict[str, NDArray[Any]]
    buckets: Amounts
    """Buckets from the oldest to the newest."""


class UsageWindows:
    """The last buckets of each row, the oldest first. The caller decides what a row stands for."""

    def __init__(self) -> None:
        self._columns = _blank(1)
        self._ring = BucketRing()
        self._bucket = _NOT_YET
        self.closed = BUCKETS
        """How many buckets have closed, counting those before the first report."""
        self._version = 0
        self._waiting: list[tuple[Sequence[int], Floats, float, Sequence[float]]] = []
        self._waiting_rows: set[int] = set()

    @property
    def version(self) -> int:
        """Grows whenever a closed bucket changes."""
        self._flush()
        return self._version

    # --- Writing ------------------------------------------------------------------------------------

    def put(self, rows: Sequence[int], values: Floats, at: float, window_seconds: Sequence[float]) -> None:
        """Add reports of these rows: the mean usage over windows that end `at`; NaN is unknown.

        Close the buckets that are over first: see `advance`.
        """
        if not self._waiting_rows.isdisjoint(rows):
            self._flush()
        self._waiting_rows.update(rows)
        self._waiting.append((rows, values, at, window_seconds))

    def _flush(self) -> None:
        """Write pending reports. Many reports cost little more than one."""
        if not self._waiting:
            return
        rows, values, at, window_seconds = zip(*self._waiting, strict=True)
        self._waiting, self._waiting_rows = [], set()
        self._write(
            np.array([row for each in rows for row in each], dtype=np.intp),
            np.concatenate(values),
            np.repeat(at, [len(each) for each in rows]),
            np.array([seconds for each in window_seconds for seconds in each]),
        )

    def _settle(self, row: int) -> None:
        """Write what waits for a row."""
        if row in self._waiting_rows:
            self._flush()
        self._make_room(row)

    def _write(self, rows: Rows, values: Floats, at: Floats, window_seconds: Floats) -> None:
        self._make_room(int(rows.max(initial=0)))
        columns = self._columns
        new = values.astype(np.float32)
        old, last = columns["value"][rows], columns["at"][rows]
        begins_at = np.minimum(change_times(at, window_seconds, last), at)
        if self._bucket != _NOT_YET:
            opened_at = self._bucket * BUCKET_SECONDS
            since = np.minimum(np.maximum(last, opened_at), at)
            changes_at = np.maximum(begins_at, since)
            weighed, seconds = _sums(old, changes_at - since)
            more_weighed, more_seconds = _sums(new, at - changes_at)
            columns["weighed"][rows] += weighed + more_weighed
            columns["seconds"][rows] += seconds + more_seconds
            early = np.flatnonzero(begins_at < opened_at)
            if early.size:
                self._correct(rows[early], old[early], new[early], last[early], begins_at[early])
        columns["value"][rows] = new
        columns["at"][rows] = at

    def is_over(self, now: float) -> bool:
        """Whether there is a bucket to close."""
        return now // BUCKET_SECONDS > self._bucket

    def advance(self, now: float, known_until: Floats) -> None:
        """Close the buckets that are over. The last value of a row holds until its `known_until`."""
        self._flush()
        bucket = int(now // BUCKET_SECONDS)
        # After a long pause all earlier buckets are unknown.
        first = bucket if self._bucket == _NOT_YET else max(self._bucket, bucket - BUCKETS)
        for ending in range(first, bucket):
            self._close(ending, known_until)
        self._bucket = max(bucket, self._bucket)

    def _close(self, bucket: int, known_until: Floats) -> None:
        self._make_room(known_until.size - 1)
        columns = self._columns
        begin, end = bucket * BUCKET_SECONDS, (bucket + 1) * BUCKET_SECONDS
        until = np.full(columns["at"].size, end)
        until[: known_until.size] = np.minimum(end, known_until)
        held = np.maximum(0.0, until - np.maximum(columns["at"], begin))
        weighed, seconds = _sums(columns["value"], held)
        weighed += columns["weighed"]
        seconds += columns["seconds"]
        self._ring.append(_means(weighed, seconds))
        # Without the held value: the next report may differ.
        columns["last_weighed"], columns["weighed"] = columns["weighed"], columns["last_weighed"]
        columns["last_seconds"], columns["seconds"] = columns["seconds"], columns["last_seconds"]
        columns["weighed"][:] = columns["seconds"][:] = 0.0
        self.closed += 1
        self._version += 1

    def _correct(self, rows: Rows, old: Amounts, new: Amounts, last: Floats, begins_at: Floats) -> None:
        """Apply windows that began in buckets that have closed."""
        columns = self._columns
        first = max(int(begins_at.min() // BUCKET_SECONDS), self._bucket - BUCKETS)
        for bucket in range(first, self._bucket):
            begin, end = bucket * BUCKET_SECONDS, (bucket + 1) * BUCKET_SECONDS
            some = np.flatnonzero(begins_at < end)
            place = bucket - self._bucket
            within = end - np.maximum(begins_at[some], begin)
            if bucket == self._bucket - 1:
                since = np.maximum(last[some], begin)
                weighed, seconds = _sums(old[some], np.maximum(0.0, end - within - since))
                more_weighed, more_seconds = _sums(new[some], within)
                weighed += columns["last_weighed"][rows[some]] + more_weighed
                seconds += columns["last_seconds"][rows[some]] + more_seconds
                means = _means(weighed, seconds)
            else:
                share = (within / BUCKET_SECONDS).astype(np.float32)[:, None]
                before = self._ring.get(place, rows[some])
                mixed = np.where(share < 1, before * (1 - share) + new[some] * share, new[some])
                means = np.where(np.isnan(before), new[some], mixed)
            self._ring.put(place, rows[some], means)
        self._version += 1

    # --- Rows that come, go and move ----------------------------------------------------------------

    def clear(self, row: int) -> None:
        """Clear a row, which something else may get next."""
        self._settle(row)
        for name, column in self._columns.items():
            column[row] = _BLANK_ROW[name]
        self._ring.clear(row)

    def keep(self, row: int, until: float = -np.inf) -> KeptRow:
        """A copy of a row, to be put elsewhere; what it reported last holds `until` a time."""
        self._settle(row)
        values = {name: column[row].copy() for name, column in self._columns.items()}
        since = max(float(values["at"]), self._bucket * BUCKET_SECONDS)
        if self._bucket != _NOT_YET and since < until:
            weighed, seconds = _sums(values["value"][None], np.array([until - since]))
            values["weighed"] += weighed[0]
            values["seconds"] += seconds[0]
            values["at"] = np.float64(until)
        return KeptRow(self.closed, values, self._ring.row(row))

    def put_back(self, row: int, kept: KeptRow) -> None:
        """Let a row continue from the kept copy of another."""
        self._settle(row)
        present = self._present(kept)
        for name, column in self._columns.items():
            column[row] = present.values[name]
        self._ring.put_row(row, present.buckets)
        self._version += 1

    def inherit(self, row: int, kept: KeptRow) -> None:
        """Let a row continue its predecessor: in buckets that closed while that one ran, its mean counts."""
        self._settle(row)
        present, own = self._present(kept), self._ring.row(row)
        is_closed_since = np.arange(BUCKETS) >= BUCKETS - (self.closed - kept.closed)
        is_own = np.where(is_closed_since[:, None], ~np.isnan(own), np.isnan(present.buckets))
        self._ring.put_row(row, np.where(is_own, own, present.buckets))
        for name in _SUMS:
            self._columns[name][row] += present.values[name]
        self._version += 1

    def _present(self, kept: KeptRow) -> KeptRow:
        """A kept row as of now: buckets that have closed since are unknown."""
        missed = self.closed - kept.closed
        if not missed:
            return kept
        values = dict(_BLANK_ROW)
        buckets = np.full_like(kept.buckets, np.nan)
        if missed < BUCKETS:
            buckets[: BUCKETS - missed] = kept.buckets[missed:]
        if missed <= BUCKETS:
            buckets[BUCKETS - missed] = _means(kept.values["weighed"], kept.values["seconds"])
        if missed == 1:
            values["last_weighed"], values["last_seconds"] = kept.values["weighed"], kept.values["seconds"]
        return KeptRow(self.closed, values, buckets)

    def restore(self, rows: Rows, bucket: int, weighed: Floats, seconds: Floats) -> None:
        """Fill in a bucket of these rows from stored sums, up to their last reports. No seconds: unknown."""
        self._flush()
        if self._bucket == _NOT_YET or not self._bucket - BUCKETS <= bucket <= self._bucket:
            return
        self._make_room(int(rows.max(initial=0)))
        columns, known = self._columns, seconds > 0
        names = {0: ("weighed", "seconds"), 1: ("last_weighed", "last_seconds")}.get(self._bucket - bucket)
        if names is not None:
            for name, stored in zip(names, (weighed, seconds), strict=True):
                columns[name][rows] = np.where(known, stored, columns[name][rows])
        if bucket == self._bucket:
            return
        begin, end = bucket * BUCKET_SECONDS, (bucket + 1) * BUCKET_SECONDS
        at = columns["at"][rows]
        held_weighed, held_seconds = _sums(
            columns["value"][rows], np.where(at >= begin, np.maximum(0.0, end - at), 0.0)
        )
        means = _means(weighed + held_weighed, seconds + held_seconds)
        place = bucket - self._bucket
        self._ring.put(place, rows, np.where(known, means, self._ring.get(place, rows)))
        self._version += 1

    # --- Reading ------------------------------------------------------------------------------------

    def windows(self, rows: Rows) -> TaskWindows:
        self._flush()
        return self._ring.share(rows)

    def _make_room(self, row: int) -> None:
        have = self._columns["at"].size
        if row >= have:
            more = _blank(max(row + 1 - have, min(have, _BLOCK)))
            self._columns = {
                name: np.concatenate([column, more[name]]) for name, column in self._columns.items()
            }


def _sums(values: NDArray[Any], seconds: Floats) -> tuple[NDArray[Any], NDArray[Any]]:
    """Values times the seconds for which they held, and those seconds where they are known."""
    held = seconds.astype(np.float32)[:, None]
    known = ~np.isnan(values)
    return np.where(known, values * held, np.float32(0)), np.where(known, held, np.float32(0))


def _means(weighed: NDArray[Any], seconds: NDArray[Any]) -> NDArray[Any]:
    means = np.full(weighed.shape, np.nan, np.float32)
    np.divide(weighed, seconds, out=means, where=seconds > 0, casting="unsafe")
    return means

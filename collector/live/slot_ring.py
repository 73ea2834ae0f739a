"""The closed slots of all rows: one array per slot, which snapshots share until it changes."""

from collections import deque

import numpy as np
from numpy.typing import NDArray

from collector.common.arrays import Rows
from collector.snapshot.windows import Amounts, TaskWindows
from wire.resources import RESOURCES

SLOTS = 36
_WIDTH = len(RESOURCES)
_UNKNOWN_SLOT: Amounts = np.full(_WIDTH, np.nan, np.float32)
_UNKNOWN_ROW: Amounts = np.full((SLOTS, _WIDTH), np.nan, np.float32)
_UNKNOWN_ROW.flags.writeable = False


class SlotRing:
    """The last slots, the oldest first. A negative place counts from the newest slot."""

    def __init__(self) -> None:
        self._slots: deque[Amounts | None] = deque([None] * SLOTS, maxlen=SLOTS)
        """None is a slot without known values. Rows that an array does not have are unknown."""
        self._is_shared: deque[bool] = deque([False] * SLOTS, maxlen=SLOTS)
        self._replaced: dict[int, Amounts] = {}
        """All slots of rows that are written before the next use: many rows cost little more than one."""

    def append(self, slot: Amounts) -> None:
        """Add a slot, and drop the oldest."""
        self._flush()
        self._slots.append(None if np.isnan(slot).all() else slot)
        self._is_shared.append(False)

    def get(self, place: int, rows: Rows) -> Amounts:
        """The values of these rows in a slot."""
        self._flush()
        return TaskWindows([self._slots[place]], rows).amounts[:, 0]

    def put(self, place: int, rows: Rows, values: Amounts) -> None:
        """Replace the values of these rows in a slot."""
        self._flush()
        self._writable(place, int(rows.max(initial=0)))[rows] = values

    def row(self, row: int) -> Amounts:
        """All slots of a row, which do not change any more."""
        replaced = self._replaced.get(row)
        if replaced is not None:
            return replaced
        # One row of each slot: `TaskWindows` takes ten times as long for a single row.
        slots = [slot[row] if slot is not None and row < len(slot) else _UNKNOWN_SLOT for slot in self._slots]
        return np.concatenate(slots).reshape(SLOTS, _WIDTH)

    def put_row(self, row: int, values: Amounts) -> None:
        """Replace all slots of a row. The values must not change afterwards."""
        self._replaced[row] = values

    def clear(self, row: int) -> None:
        """Clear a row: its slots are unknown."""
        self._replaced[row] = _UNKNOWN_ROW

    def share(self, rows: Rows) -> TaskWindows:
        """All slots of these rows, as they are now."""
        self._flush()
        for place, slot in enumerate(self._slots):
            self._is_shared[place] = slot is not None
        return TaskWindows(tuple(self._slots), rows)

    @property
    def size_bytes(self) -> int:
        """Memory that the slots take."""
        self._flush()
        return sum(slot.nbytes for slot in self._slots if slot is not None)

    def _flush(self) -> None:
        """Write the rows that were replaced. A slot that snapshots share is copied only if it changes."""
        if not self._replaced:
            return
        rows = np.fromiter(self._replaced, np.intp, len(self._replaced))
        after = np.stack(list(self._replaced.values()))
        self._replaced = {}
        before = TaskWindows(self._slots, rows).amounts
        highest = int(rows.max())
        for place in np.flatnonzero(_differs(before, after)).tolist():
            self._writable(place, highest)[rows] = after[:, place]

    def _writable(self, place: int, row: int) -> Amounts:
        slot = self._slots[place]
        if slot is None or len(slot) <= row or self._is_shared[place]:
            have = 0 if slot is None else len(slot)
            new = np.full((max(have, row + 1), _WIDTH), np.nan, np.float32)
            if slot is not None:
                new[:have] = slot
            slot = self._slots[place] = new
            self._is_shared[place] = False
        return slot


def _differs(before: Amounts, after: Amounts) -> NDArray[np.bool_]:
    """Which slots differ in any of these rows."""
    is_equal = (before == after) | (np.isnan(before) & np.isnan(after))
    differs: NDArray[np.bool_] = ~is_equal.all(axis=(0, 2))
    return differs

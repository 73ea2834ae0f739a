"""The closed slots of all rows: one array per slot, which snapshots share until it changes."""

from collections import deque

import numpy as np

from collector.snapshot.power_curves import Rows
from collector.snapshot.windows import Amounts, TaskWindows
from wire.resources import RESOURCES

SLOTS = 36
_WIDTH = len(RESOURCES)


class SlotRing:
    """The last slots, the oldest first; a place counts from there, or from the newest if it is negative."""

    def __init__(self) -> None:
        self._slots: deque[Amounts | None] = deque([None] * SLOTS, maxlen=SLOTS)
        """None is a slot in which nothing is known; neither are rows that an array does not have."""
        self._is_shared: deque[bool] = deque([False] * SLOTS, maxlen=SLOTS)

    def append(self, slot: Amounts) -> None:
        """Add a slot, and drop the oldest."""
        self._slots.append(None if np.isnan(slot).all() else slot)
        self._is_shared.append(False)

    def get(self, place: int, rows: Rows) -> Amounts:
        """Some rows of a slot."""
        return TaskWindows([self._slots[place]], rows).amounts[:, 0]

    def put(self, place: int, rows: Rows, values: Amounts) -> None:
        """Replace some rows of a slot."""
        self._writable(place, int(rows.max(initial=0)))[rows] = values

    def row(self, row: int) -> Amounts:
        """A copy of all slots of a row."""
        slots: Amounts = TaskWindows(tuple(self._slots), np.array([row])).amounts[0]
        return slots

    def put_row(self, row: int, values: Amounts) -> None:
        """Replace all slots of a row."""
        for place in np.flatnonzero(~_is_equal(self.row(row), values)).tolist():
            self._writable(place, row)[row] = values[place]

    def clear(self, row: int) -> None:
        """Nothing is known of a row any more."""
        self.put_row(row, np.full((SLOTS, _WIDTH), np.nan, np.float32))

    def share(self, rows: Rows) -> TaskWindows:
        """All slots of some rows, as they are now."""
        for place, slot in enumerate(self._slots):
            self._is_shared[place] = slot is not None
        return TaskWindows(tuple(self._slots), rows)

    @property
    def size_bytes(self) -> int:
        """Memory that the slots take."""
        return sum(slot.nbytes for slot in self._slots if slot is not None)

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


def _is_equal(left: Amounts, right: Amounts) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which slots of two rows are equal."""
    same: np.ndarray[tuple[int], np.dtype[np.bool_]]
    same = ((left == right) | (np.isnan(left) & np.isnan(right))).all(axis=1)
    return same

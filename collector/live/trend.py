"""How much the nodes used over the last hours: for thresholds that adapt to what is usual.

A node says only what moved, so what it last said holds until it says something else, or falls silent. Over
each slot that makes a mean, weighted by time; the slots are the same for all nodes, so that closing one is a
single operation of numpy.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from collector.live.table import grown
from collector.snapshot.power_curves import Floats, Rows
from wire.resources import RESOURCES

SLOT_SECONDS = 300.0
SLOTS = 36
_WIDTH = len(RESOURCES)
_NOT_YET = -1


@dataclass(slots=True)
class _Columns:
    """One row per node."""

    ratio: Floats
    """What holds now; 0 where it is not known."""
    is_known: Floats
    """1 where it is, else 0."""
    since: Floats
    """Up to when `weighed` and `seconds` are counted."""
    weighed: Floats
    """In the slot that lasts, ratios times the seconds for which they held."""
    seconds: Floats
    ring: Floats


def _blank() -> _Columns:
    nothing = np.zeros((1, _WIDTH))
    return _Columns(nothing, nothing, np.zeros(1), nothing, nothing, np.full((1, SLOTS, _WIDTH), np.nan))


class Trend:
    """One ring of slots per node, by the node's row."""

    def __init__(self) -> None:
        self._columns = grown(_blank(), _blank(), 0, 1)
        self._slot = _NOT_YET
        self.closed = 0
        """Grows with every slot that ends."""

    def put(self, row: int, ratios: Sequence[float | None], at: float) -> None:
        """From now on, a node uses these shares of its capacities; None is not known."""
        self._make_room(row)
        columns = self._columns
        held = at - columns.since[row]
        if held > 0:
            columns.weighed[row] += columns.ratio[row] * held
            columns.seconds[row] += columns.is_known[row] * held
            columns.since[row] = at
        columns.is_known[row] = [ratio is not None for ratio in ratios]
        columns.ratio[row] = [ratio or 0.0 for ratio in ratios]

    def forget(self, row: int) -> None:
        """The row is someone else's from now on."""
        self._make_room(row)
        columns = self._columns
        columns.ratio[row] = columns.is_known[row] = columns.weighed[row] = columns.seconds[row] = 0.0
        columns.ring[row] = np.nan

    def is_over(self, now: float) -> bool:
        """Whether there is a slot to close."""
        return now // SLOT_SECONDS > self._slot

    def advance(self, now: float, heard_until: Floats) -> None:
        """Close the slots that are over; what a node said is not held beyond `heard_until`, per row."""
        slot = int(now // SLOT_SECONDS)
        # After a long sleep nothing but the last slots is left of the ring.
        first = slot if self._slot == _NOT_YET else max(self._slot, slot - SLOTS)
        for ending in range(first, slot):
            self._close((ending + 1) * SLOT_SECONDS, heard_until)
        self._slot = max(slot, self._slot)

    def ratios(self, rows: Rows) -> Floats:
        """One plane per row, from the oldest slot to the newest."""
        self._make_room(int(rows.max(initial=0)))
        turned = (np.arange(SLOTS) + self.closed) % SLOTS
        return self._columns.ring[np.ix_(rows, turned)]

    def _close(self, end: float, heard_until: Floats) -> None:
        self._make_room(heard_until.size - 1)
        columns = self._columns
        until = np.full(columns.since.size, end)
        until[: heard_until.size] = np.minimum(end, heard_until)
        held = np.maximum(0.0, until - columns.since)[:, np.newaxis]
        columns.weighed += columns.ratio * held
        columns.seconds += columns.is_known * held
        means = np.full(columns.weighed.shape, np.nan)
        np.divide(columns.weighed, columns.seconds, out=means, where=columns.seconds > 0)
        columns.ring[:, self.closed % SLOTS] = means
        columns.weighed[:] = columns.seconds[:] = 0.0
        columns.since = np.maximum(columns.since, end)
        self.closed += 1

    def _make_room(self, row: int) -> None:
        have = self._columns.since.size
        if row >= have:
            self._columns = grown(self._columns, _blank(), have, max(row + 1, 2 * have))

"""Use of the nodes over the last hours, for thresholds that adapt to the usual load.

A node reports changes only, so a state holds until the next one, or until the node is down. Each slot gets
the mean over time. All nodes have the same slots, so that numpy closes one for all of them at once.
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
    """The present ratio of use; 0 where unknown."""
    is_known: Floats
    """1 where `ratio` is known, else 0."""
    since: Floats
    """The time up to which `weighed` and `seconds` are counted."""
    weighed: Floats
    """In the present slot: ratios times the seconds for which they held."""
    seconds: Floats
    """In the present slot: seconds with a known ratio."""
    ring: Floats


def _blank() -> _Columns:
    nothing = np.zeros((1, _WIDTH))
    return _Columns(nothing, nothing, np.zeros(1), nothing, nothing, np.full((1, SLOTS, _WIDTH), np.nan))


class Trend:
    """One ring of slots per node, by the row of the node."""

    def __init__(self) -> None:
        self._columns = grown(_blank(), _blank(), 0, 1)
        self._slot = _NOT_YET
        self.closed = 0
        """Number of slots that ended."""

    def put(self, row: int, ratios: Sequence[float | None], at: float) -> None:
        """Set the ratios that a node uses from now on; None is unknown."""
        self._make_room(row)
        columns = self._columns
        held = at - columns.since[row]
        if held > 0:
            columns.weighed[row] += columns.ratio[row] * held
            columns.seconds[row] += columns.is_known[row] * held
            columns.since[row] = at
        columns.is_known[row] = [ratio is not None for ratio in ratios]
        columns.ratio[row] = [ratio or 0.0 for ratio in ratios]

    def clear(self, row: int) -> None:
        """Clear a row, which another node may get next."""
        self._make_room(row)
        columns = self._columns
        columns.ratio[row] = columns.is_known[row] = columns.weighed[row] = columns.seconds[row] = 0.0
        columns.ring[row] = np.nan

    def is_over(self, now: float) -> bool:
        """Whether the present slot ended."""
        return now // SLOT_SECONDS > self._slot

    def advance(self, now: float, valid_until: Floats) -> None:
        """Close the slots that ended; the state of each row holds until `valid_until`."""
        slot = int(now // SLOT_SECONDS)
        # After a long pause, only the last slots fit into the ring.
        first = slot if self._slot == _NOT_YET else max(self._slot, slot - SLOTS)
        for ending in range(first, slot):
            self._close((ending + 1) * SLOT_SECONDS, valid_until)
        self._slot = max(slot, self._slot)

    def ratios(self, rows: Rows) -> Floats:
        """The ring of each row, from the oldest slot to the newest."""
        self._make_room(int(rows.max(initial=0)))
        slots = (np.arange(SLOTS) + self.closed) % SLOTS
        return self._columns.ring[np.ix_(rows, slots)]

    def _close(self, end: float, valid_until: Floats) -> None:
        self._make_room(valid_until.size - 1)
        columns = self._columns
        until = np.full(columns.since.size, end)
        until[: valid_until.size] = np.minimum(end, valid_until)
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

"""Round-trip times between the nodes of a snapshot, without a table of all pairs in a large cluster."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from collector.common.arrays import Floats, Rows
from collector.snapshot.parts import SnapshotPart

DelayKind = Literal["measured", "estimated", "unknown"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Delays(SnapshotPart):
    """Median round-trip times in seconds. Rows are those of `Snapshot.nodes`; NaN is unknown."""

    coordinates: Floats
    """One row per node: the distance of two is part of the time between them. NaN is unknown."""
    heights: Floats
    """The rest of the time is the sum of two heights: one per node, its time to the network."""
    pairs: Rows
    """Pairs of nodes that are measured, two columns: they override the estimates of coordinates. Each is
    there in both directions, sorted by the first node."""
    pair_seconds: Floats

    @staticmethod
    def of_matrix(seconds: Floats) -> "Delays":
        """Delays that are measured between all pairs, NaN left out."""
        count = len(seconds)
        pairs = np.indices(seconds.shape).reshape(2, -1).T
        return Delays.of_pairs(pairs, seconds.ravel(), np.empty((count, 0)), np.full(count, np.nan))

    @staticmethod
    def of_pairs(pairs: Rows, seconds: Floats, coordinates: Floats, heights: Floats) -> "Delays":
        """Delays of measured pairs, two columns of rows, and those estimated from coordinates and heights.

        A pair may be there in one direction, or in both: then the larger value counts.
        """
        known = ~np.isnan(seconds) & (pairs[:, 0] != pairs[:, 1])
        both = np.concatenate((pairs[known], pairs[known][:, ::-1]))
        values = np.concatenate((seconds[known], seconds[known]))
        # By pair, the largest value first: only the first of each is kept.
        order = np.lexsort((-values, both[:, 1], both[:, 0]))
        both, values = both[order], values[order]
        first = np.ones(len(both), dtype=np.bool_)
        first[1:] = (both[1:] != both[:-1]).any(axis=1)
        return Delays(coordinates=coordinates, heights=heights, pairs=both[first], pair_seconds=values[first])

    @property
    def count(self) -> int:
        """Number of nodes."""
        return len(self.heights)

    def from_node(self, row: int) -> Floats:
        """Round-trip times from a node to each: 0 to itself, NaN where unknown."""
        distance = np.sqrt(np.square(self.coordinates - self.coordinates[row]).sum(axis=1))
        seconds: Floats = distance + (self.heights + self.heights[row])
        measured = self._measured_from(row)
        seconds[self.pairs[measured, 1]] = self.pair_seconds[measured]
        seconds[row] = 0.0
        return seconds

    def kinds_from(self, row: int) -> list[DelayKind]:
        """Where each value of `from_node` comes from."""
        kinds = np.where(np.isnan(self.from_node(row)), "unknown", "estimated")
        kinds[self.pairs[self._measured_from(row), 1]] = "measured"
        kinds[row] = "measured"
        found: list[DelayKind] = kinds.tolist()
        return found

    def among(self, rows: Rows) -> Floats:
        """Round-trip times between some nodes: one row and one column for each."""
        rows = np.asarray(rows, dtype=np.intp)
        place = np.full(self.count, -1, dtype=np.intp)
        place[rows] = np.arange(len(rows))
        at, heights = self.coordinates[rows], self.heights[rows]
        # One dimension at a time: a table of all differences would be as many times as large.
        squares = np.zeros((len(rows), len(rows)))
        for axis in at.T:
            squares += np.square(axis[:, np.newaxis] - axis)
        seconds: Floats = np.sqrt(squares) + (heights[:, np.newaxis] + heights)
        near, far = place[self.pairs[:, 0]], place[self.pairs[:, 1]]
        inside = (near >= 0) & (far >= 0)
        seconds[near[inside], far[inside]] = self.pair_seconds[inside]
        seconds[np.diag_indices(len(rows))] = 0.0
        return seconds

    @cached_property
    def _starts(self) -> Rows:
        return np.searchsorted(self.pairs[:, 0], np.arange(self.count + 1))

    def _measured_from(self, row: int) -> slice:
        """The pairs of a node."""
        return slice(self._starts[row], self._starts[row + 1])

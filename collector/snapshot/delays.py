"""Round-trip times between the nodes of a snapshot, without a table of all pairs in a large cluster."""

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np

from collector.common.arrays import Codes, Flags, Floats, Rows


class DelayKind(IntEnum):
    """Where a round-trip time comes from."""

    UNKNOWN = 0
    ESTIMATED = 1
    MEASURED = 2


@dataclass(frozen=True, eq=False, kw_only=True)
class Delays:
    """Median round-trip times in seconds. Rows are those of `Snapshot.nodes`; NaN is unknown.

    The times are symmetric: of both directions, the measured one counts, or the larger one of two.
    """

    seconds: Floats
    """One row and one column per node; without any if `coordinates` are used."""
    kinds: Codes
    """The `DelayKind` of each; the same shape."""
    coordinates: Floats
    """One row per node: the distance of two is part of the time between them. NaN is unknown."""
    heights: Floats
    """The rest of the time is the sum of two heights: one per node, its time to the network."""
    pairs: Rows
    """Pairs of nodes that are measured, two columns: they override the estimates of coordinates. Each is
    there in both directions, sorted by the first node."""
    pair_seconds: Floats

    @staticmethod
    def of_matrix(seconds: Floats, kinds: Codes) -> "Delays":
        """Delays of all pairs: for small clusters and for replay."""
        count = len(seconds)
        known = ~np.isnan(seconds) & (kinds != DelayKind.UNKNOWN)
        kinds = np.where(known, kinds, DelayKind.UNKNOWN).astype(np.int8)
        seconds = np.where(known, seconds, np.nan)
        other, other_kinds = seconds.T, kinds.T
        both = np.where(kinds == other_kinds, np.fmax(seconds, other), seconds)
        seconds, kinds = np.where(kinds < other_kinds, other, both), np.maximum(kinds, other_kinds)
        seconds[np.diag_indices(count)] = 0.0
        kinds[np.diag_indices(count)] = DelayKind.MEASURED
        return Delays(
            seconds=seconds,
            kinds=kinds,
            coordinates=np.empty((count, 0)),
            heights=np.empty(count),
            pairs=np.empty((0, 2), dtype=np.intp),
            pair_seconds=np.empty(0),
        )

    @staticmethod
    def of_coordinates(coordinates: Floats, heights: Floats, pairs: Rows, pair_seconds: Floats) -> "Delays":
        """Delays estimated from coordinates and heights, in seconds; those of measured pairs override them.

        `pairs` has two columns of rows. A pair may be there in one direction, or in both.
        """
        pairs = pairs.reshape(-1, 2)
        known = ~np.isnan(pair_seconds) & (pairs[:, 0] != pairs[:, 1])
        both = np.concatenate((pairs[known], pairs[known][:, ::-1]))
        values = np.concatenate((pair_seconds[known], pair_seconds[known]))
        # By pair, the largest value first: only the first of each is kept.
        order = np.lexsort((-values, both[:, 1], both[:, 0]))
        both, values = both[order], values[order]
        first = np.ones(len(both), dtype=np.bool_)
        first[1:] = (both[1:] != both[:-1]).any(axis=1)
        return Delays(
            seconds=np.empty((0, 0)),
            kinds=np.empty((0, 0), dtype=np.int8),
            coordinates=coordinates,
            heights=heights,
            pairs=both[first],
            pair_seconds=values[first],
        )

    @property
    def count(self) -> int:
        """Number of nodes."""
        return len(self.heights)

    def from_node(self, row: int) -> Floats:
        """Round-trip times from a node to each: 0 to itself, NaN where unknown."""
        if len(self.seconds):
            return np.asarray(self.seconds[row])
        distance = np.sqrt(np.square(self.coordinates - self.coordinates[row]).sum(axis=1))
        seconds: Floats = distance + (self.heights + self.heights[row])
        peers, values = self._measured_from(row)
        seconds[peers] = values
        seconds[row] = 0.0
        return seconds

    def kinds_from(self, row: int) -> Codes:
        """The `DelayKind` of each value of `from_node`."""
        if len(self.seconds):
            return np.asarray(self.kinds[row])
        estimated = self._is_located & self._is_located[row]
        kinds = np.where(estimated, DelayKind.ESTIMATED, DelayKind.UNKNOWN).astype(np.int8)
        kinds[self._measured_from(row)[0]] = DelayKind.MEASURED
        kinds[row] = DelayKind.MEASURED
        return kinds

    def among(self, rows: Rows) -> Floats:
        """Round-trip times between some nodes: one row and one column for each."""
        rows = np.asarray(rows, dtype=np.intp)
        if len(self.seconds):
            return self.seconds[np.ix_(rows, rows)]
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
    def _is_located(self) -> Flags:
        """Whether the coordinates of each node are known."""
        located: Flags = ~np.isnan(self.coordinates.sum(axis=1) + self.heights)
        return located

    @cached_property
    def _starts(self) -> Rows:
        return np.searchsorted(self.pairs[:, 0], np.arange(self.count + 1))

    def _measured_from(self, row: int) -> tuple[Rows, Floats]:
        one = slice(self._starts[row], self._starts[row + 1])
        return self.pairs[one, 1], self.pair_seconds[one]

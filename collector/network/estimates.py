"""Round-trip times at one moment: measured pairs, and coordinates that estimate all others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from collector.common.arrays import Floats, Rows
from collector.network.coordinates import DIMENSIONS, Coordinates
from collector.network.measurements import Pair, PairTimes
from collector.snapshot.delays import DelayKind, Delays

_MAX_MATRIX_NODES = 256
"""Number of nodes up to which a table of all pairs is small."""


@dataclass(frozen=True, slots=True)
class Estimates:
    """Round-trip times by the names of nodes."""

    names: tuple[str, ...] = ()
    """The nodes of the coordinates, one per row."""
    times: Mapping[Pair, PairTimes] | None = None
    coordinates: Coordinates | None = None
    """None in a cluster that is small enough to measure all pairs."""

    @property
    def error_ratio(self) -> float | None:
        """90th percentile of the relative error of estimates; None without estimates."""
        return None if self.coordinates is None else self.coordinates.error_ratio

    def delays(self, names: Sequence[str]) -> Delays:
        """The round-trip times between these nodes, in this order."""
        row = {name: place for place, name in enumerate(names)}
        found = [
            (row[one], row[other], times.p50_seconds)
            for (one, other), times in (self.times or {}).items()
            if one in row and other in row
        ]
        pairs = np.array([each[:2] for each in found], dtype=np.intp).reshape(-1, 2)
        seconds = np.array([each[2] for each in found], dtype=np.float64)
        if self.coordinates is None and len(names) <= _MAX_MATRIX_NODES:
            return _matrix_delays(len(names), pairs, seconds)
        positions, heights = np.full((len(names), DIMENSIONS), np.nan), np.full(len(names), np.nan)
        if self.coordinates is not None:
            known = [(row[name], place) for place, name in enumerate(self.names) if name in row]
            places = np.array(known, dtype=np.intp).reshape(-1, 2)
            positions[places[:, 0]] = self.coordinates.positions[places[:, 1]]
            heights[places[:, 0]] = self.coordinates.heights[places[:, 1]]
        return Delays.of_coordinates(positions, heights, pairs, seconds)


def _matrix_delays(count: int, pairs: Rows, seconds: Floats) -> Delays:
    table = np.full((count, count), np.nan)
    table[pairs[:, 0], pairs[:, 1]] = seconds
    return Delays.of_matrix(table, np.where(np.isnan(table), DelayKind.UNKNOWN, DelayKind.MEASURED))

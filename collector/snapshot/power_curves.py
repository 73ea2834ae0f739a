"""The power curves of all nodes on one grid: one array operation estimates the power of every node."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from collector.common.arrays import Floats, Rows
from wire.messages import PowerCurve

_CPU, _FIRST_OTHER = 0, 1
GRID: Floats = np.unique(
    np.concatenate([[0.0, 0.0002, 0.001, 0.003, 0.007, 0.015, 0.03, 0.06], np.arange(21) / 20])
)
"""CPU ratios at which curves are stored: those that agents report, and steps of at most a twentieth."""
_CELLS = 5000
"""Every point of the grid is a whole number of these."""
_BELOW: Rows = np.clip(
    np.searchsorted(GRID, (np.arange(_CELLS + 1) + 0.5) / _CELLS, side="right") - 1, 0, GRID.size - 2
)
"""The grid point below each cell: a lookup costs a tenth of a search."""
_STEPS: Floats = np.diff(GRID)


def picked(columns: Floats, rows: Rows) -> Floats:
    """Some rows of a column-major array, column-major as well.

    A plain index would make numpy jump from row to row, which takes four times as long.
    """
    return columns.T.take(rows, axis=1).T


CURVE_WIDTH = GRID.size + 5
_CPU_WATTS, _FULL_WATTS = slice(1, GRID.size + 1), slice(GRID.size + 1, GRID.size + 4)


def curve_row(curve: PowerCurve | None) -> list[float]:
    """A curve that a node reported, as a row of `PowerCurves`."""
    if curve is None:
        return [np.nan] * CURVE_WIDTH
    points = min(len(curve.cpu_ratios), len(curve.cpu_watts))
    cpu_watts = np.interp(GRID, curve.cpu_ratios[:points], curve.cpu_watts[:points]).tolist()
    full_watts = (curve.memory_watts, curve.disk_watts, curve.network_watts)
    return [curve.idle_watts, *cpu_watts, *full_watts, curve.error_ratio]


@dataclass(frozen=True, eq=False)
class PowerCurves:
    """One curve per node."""

    rows: Floats
    """Per node: watts when idle; watts that CPU load adds at each point of `GRID`; watts that full use of
    memory, disk and network adds; and the error ratio. NaN for a node without a curve."""

    @classmethod
    def of(cls, curves: Sequence[PowerCurve | None]) -> "PowerCurves":
        """From the curves that nodes reported; None for a node without one."""
        return cls(np.array([curve_row(each) for each in curves]).reshape(-1, CURVE_WIDTH))

    @cached_property
    def idle_watts(self) -> Floats:
        """NaN for a node without a curve: its power is unknown."""
        return np.ascontiguousarray(self.rows[:, 0])

    @property
    def error_ratio(self) -> Floats:
        return self.rows[:, -1]

    @cached_property
    def _full_watts(self) -> Floats:
        # Column-major, like the columns of nodes that it is multiplied with.
        return np.asfortranarray(self.rows[:, _FULL_WATTS])

    @cached_property
    def _flat(self) -> Floats:
        return np.ascontiguousarray(self.rows[:, _CPU_WATTS]).reshape(-1)

    @cached_property
    def _starts(self) -> Rows:
        """Where each curve begins in `_flat`."""
        return np.arange(len(self.rows), dtype=np.intp) * GRID.size

    def watts(self, ratios: Floats, rows: Rows | None = None) -> Floats:
        """Power of nodes that use these ratios of their capacities; NaN without a curve.

        `rows` names the node of each row of `ratios`; without it, there is one row per node. An unknown ratio
        counts as 0, and one above 1 as 1.
        """
        # `fmax` and `fmin` ignore NaN, at a third of the cost of replacing it first.
        shares = np.fmax(ratios, 0.0)
        np.fmin(shares, 1.0, out=shares)
        cpu = shares[:, _CPU]
        below = _BELOW[(cpu * _CELLS).astype(np.intp)]
        from_low = (cpu - GRID[below]) / _STEPS[below]
        starts, full_watts, idle_watts = self._starts, self._full_watts, self.idle_watts
        if rows is not None:
            starts, full_watts, idle_watts = starts[rows], picked(full_watts, rows), idle_watts[rows]
        first = starts + below
        low, high = self._flat.take(first), self._flat.take(first + 1)
        # Added in the same order whatever the number of rows, so that equal nodes have exactly equal power.
        memory, disk, network = (shares[:, _FIRST_OTHER:] * full_watts).T
        total: Floats = idle_watts + low + (high - low) * from_low + (memory + disk + network)
        return total

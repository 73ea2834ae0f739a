"""Corrects a curve by recent readings of the meter: an offset and a small table over load.

A curve fitted to all workloads of a machine is off by a few percent for the current one: its offset changes
with fans and temperature, its shape with the workload. Both are learned from the newest readings with a few
sums, without a fit. At loads without recent readings, only the offset applies.
"""

from collections.abc import Callable, Sequence
from math import exp

import msgspec

# Over the root of CPU usage, since curves bend at low usage.
NODES = 11
_STEP = 1 / (NODES - 1)

# Time constants of the offset and of the table.
_LEVEL_SECONDS = 60.0
_LOCAL_SECONDS = 600.0
# Weight of the uncorrected curve, in readings.
_READINGS_OF_DOUBT = 3.0
# A node with less than this share of the readings is not applied in full.
_SHARE_OF_DOUBT = 0.1


class Correction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Watts to add to a curve: an offset, and one value per node over the root of CPU usage."""

    level_watts: float = 0.0
    nodes_watts: tuple[float, ...] = (0.0,) * NODES

    def __post_init__(self) -> None:
        if len(self.nodes_watts) != NODES:
            raise ValueError(f"a correction has {NODES} nodes")

    def local_watts(self, root: float) -> float:
        """Watts of the table at a root of CPU usage, with straight lines between the nodes."""
        index, part = _place(root)
        return self.nodes_watts[index] + part * (self.nodes_watts[index + 1] - self.nodes_watts[index])

    def rising(self, slope_at: Callable[[float], float]) -> "Correction":
        """The nearest correction that keeps the curve increasing; `slope_at` is the slope of the curve.

        One sweep raises nodes, one lowers them, and both keep it increasing; so does their mean, without
        bias.
        """
        falls = [slope_at(index * _STEP) * _STEP for index in range(NODES - 1)]
        lifted, lowered = list(self.nodes_watts), list(self.nodes_watts)
        for index, fall in enumerate(falls):
            lifted[index + 1] = max(lifted[index + 1], lifted[index] - fall)
        for index, fall in reversed(list(enumerate(falls))):
            lowered[index] = min(lowered[index], lowered[index + 1] + fall)
        means = tuple((up + down) / 2 for up, down in zip(lifted, lowered, strict=True))
        return Correction(self.level_watts, means)


class CorrectionSums:
    """The sums of a correction; old readings decay."""

    def __init__(self) -> None:
        self._seconds: float | None = None
        self._level = [0.0, 0.0]
        self._time = 0.0
        self._weights = [0.0] * NODES
        self._residuals = [0.0] * NODES

    def add(self, seconds: float, root: float, residual_watts: float) -> None:
        """Add one reading: its difference from the curve, and its load."""
        elapsed_seconds = 0.0 if self._seconds is None else max(0.0, seconds - self._seconds)
        self._seconds = seconds
        self._level = _faded(self._level, elapsed_seconds / _LEVEL_SECONDS)
        self._level[0] += 1.0
        self._level[1] += residual_watts
        fading = elapsed_seconds / _LOCAL_SECONDS
        self._weights = _faded(self._weights, fading)
        self._residuals = _faded(self._residuals, fading)
        self._time = self._time * exp(-fading) + 1.0
        index, part = _place(root)
        local_watts = residual_watts - self._level_watts
        for node, weight in ((index, 1 - part), (index + 1, part)):
            self._weights[node] += weight
            self._residuals[node] += weight * local_watts

    @property
    def correction(self) -> Correction:
        """The correction from the sums."""
        doubt = _SHARE_OF_DOUBT * self._time
        if doubt <= 0:
            return Correction()
        pairs = zip(self._residuals, self._weights, strict=True)
        return Correction(self._level_watts, tuple(residual / (weight + doubt) for residual, weight in pairs))

    @property
    def _level_watts(self) -> float:
        weight, residual = self._level
        return residual / (weight + _READINGS_OF_DOUBT)


def _faded(sums: Sequence[float], ages: float) -> list[float]:
    factor = exp(-ages)
    return [value * factor for value in sums]


def _place(root: float) -> tuple[int, float]:
    """The node at or below, and the position between it and the next."""
    position = min(1.0, max(0.0, root)) * (NODES - 1)
    index = min(NODES - 2, int(position))
    return index, position - index

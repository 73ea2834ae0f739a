"""What the meter said lately, on top of a curve: a level and a small table over load.

A curve fitted to all that a machine does is off by some per cent for what it does now: its level moves with
fans and temperature, its shape with the kind of work. Both are learned from the newest readings in a few
sums, without a fit. Where nothing was seen lately the curve stands as it is, moved by the level.
"""

from collections.abc import Callable, Sequence
from math import exp

import msgspec

# On the root of CPU use, since that is where curves bend.
NODES = 11
_STEP = 1 / (NODES - 1)

# A level is news within a minute; what a load draws is learned, and forgotten, in ten.
_LEVEL_SECONDS = 60.0
_LOCAL_SECONDS = 600.0
# So many readings of the past, in weight, stand against the first ones.
_READINGS_OF_DOUBT = 3.0
# A node with less than this share of the time seen is not believed in full.
_SHARE_OF_DOUBT = 0.1


class Correction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Watts to add to a curve: a level, and one number per node of the root of CPU use."""

    level_watts: float = 0.0
    nodes_watts: tuple[float, ...] = (0.0,) * NODES

    def __post_init__(self) -> None:
        if len(self.nodes_watts) != NODES:
            raise ValueError(f"a correction has {NODES} nodes")

    def local_watts(self, root: float) -> float:
        """The table's watts at a root of CPU use, on straight lines between the nodes."""
        index, part = _place(root)
        return self.nodes_watts[index] + part * (self.nodes_watts[index + 1] - self.nodes_watts[index])

    def rising(self, slope_at: Callable[[float], float]) -> "Correction":
        """The nearest correction that leaves the curve rising; `slope_at` is the curve's slope, which grows.

        Two sweeps each make it so, one by lifting, one by lowering; so does their mean, without their bias.
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
    """The running sums behind a correction; they fade with time."""

    def __init__(self) -> None:
        self._seconds: float | None = None
        self._level = [0.0, 0.0]
        self._time = 0.0
        self._weights = [0.0] * NODES
        self._residuals = [0.0] * NODES

    def add(self, seconds: float, root: float, residual_watts: float) -> None:
        """Count one reading: how far it was above the curve, and at which load."""
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
        """What the sums come to."""
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
    """The node at or below, and how far on towards the next."""
    position = min(1.0, max(0.0, root)) * (NODES - 1)
    index = min(NODES - 2, int(position))
    return index, position - index

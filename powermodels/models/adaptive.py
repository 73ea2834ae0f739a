"""The adaptive model: a curve, corrected by recent readings of the meter.

The correction is an offset, a gain, and a small table over load.

A curve fitted to all workloads of a machine is off by a few percent for the current one. Fans and temperature
change its offset, the workload and the frequency change the watts per CPU usage, and the shape differs a
little. All three are learned from the newest readings with a few sums, without a fit. Offset and gain apply
at every load: after a change, readings at a few loads correct the others too.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from math import exp, log

import msgspec

from powermodels.common.interface import Load, Terms
from powermodels.models.fitted import FittedModel, Training
from powermodels.models.regression import CurveModel

# Over the root of CPU usage, since curves bend at low usage.
NODES = 11
_STEP = 1 / (NODES - 1)

# Time constants of the correction, and of the drift of its offset.
_SECONDS = 600.0
_DRIFT_SECONDS = 60.0
# Weight of the assumption that there is no drift, in readings.
_DRIFT_PRIOR_READINGS = 3.0
# Readings close in time are alike: a node with this share of all readings is applied by half.
_PRIOR_SHARE = 0.1
# Variance of the local part as a share of that of offset and gain, from a ninth to nine times: which of them
# a machine changes more is not known in advance, so the values are symmetric, and the readings decide.
_LOCAL_SHARES = (1 / 9, 1 / 3, 1.0, 3.0, 9.0)
_LEAST_LEFT = 1e-6
# CPU watts stay positive, whatever the meter reads.
_LEAST_GAIN = -0.9


class Correction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Watts to add to a curve."""

    level_watts: float = 0.0
    gain: float = 0.0
    """Change of the CPU watts: 0.1 adds a tenth."""
    nodes_watts: tuple[float, ...] = (0.0,) * NODES
    """One value per node over the root of CPU usage."""

    def __post_init__(self) -> None:
        if len(self.nodes_watts) != NODES:
            raise ValueError(f"a correction has {NODES} nodes")
        if self.gain < _LEAST_GAIN:
            raise ValueError(f"a gain is at least {_LEAST_GAIN:g}")

    def even_watts(self, cpu_watts: float) -> float:
        """Offset and gain, at a load with these CPU watts on the curve."""
        return self.level_watts + self.gain * cpu_watts

    def local_watts(self, root: float) -> float:
        """Watts of the table at a root of CPU usage, with straight lines between the nodes."""
        index, part = _place(root)
        return self.nodes_watts[index] + part * (self.nodes_watts[index + 1] - self.nodes_watts[index])

    def rising(self, rise_watts: Callable[[float, float], float]) -> "Correction":
        """The nearest correction that keeps the curve increasing; `rise_watts` is its least rise.

        One sweep raises nodes, one lowers them, and both keep it increasing; so does their mean, without
        bias.
        """
        falls = [
            (1 + self.gain) * rise_watts(index * _STEP, (index + 1) * _STEP) for index in range(NODES - 1)
        ]
        lifted, lowered = list(self.nodes_watts), list(self.nodes_watts)
        for index, fall in enumerate(falls):
            lifted[index + 1] = max(lifted[index + 1], lifted[index] - fall)
        for index, fall in reversed(list(enumerate(falls))):
            lowered[index] = min(lowered[index], lowered[index + 1] + fall)
        means = tuple((up + down) / 2 for up, down in zip(lifted, lowered, strict=True))
        return Correction(self.level_watts, self.gain, means)


class CorrectionSums:
    """The sums of a correction; old readings decay.

    A residual is `offset + gain * cpu + local`, and the local part differs from node to node. In units of the
    variance of the local part, the mean of a node with W readings has the variance 1 + D / W, so its weight
    is W / (W + D): many readings at one load weigh no more than one load. Offset and gain are the ridge
    estimates with these weights, where the ridge is the variance of the local part as a share of theirs. It
    is unknown: the estimates are averaged over `_LOCAL_SHARES`, each weighed by how likely it makes the
    readings. The rest of a node's mean, times W / (W + D), is its local part.
    """

    def __init__(self, full_cpu_watts: float) -> None:
        self._full_cpu_watts = max(1.0, full_cpu_watts)
        self._seconds: float | None = None
        self._weights = [0.0] * NODES
        self._shares = [0.0] * NODES
        self._residuals = [0.0] * NODES
        self._drift = [0.0] * 2

    def add(self, seconds: float, root: float, cpu_watts: float, residual_watts: float) -> None:
        """Add one reading: its difference from the curve, and its load."""
        elapsed_seconds = 0.0 if self._seconds is None else max(0.0, seconds - self._seconds)
        self._seconds = seconds
        fading = elapsed_seconds / _SECONDS
        share = cpu_watts / self._full_cpu_watts
        self._weights = _faded(self._weights, fading)
        self._shares = _faded(self._shares, fading)
        self._residuals = _faded(self._residuals, fading)
        index, part = _place(root)
        for node, weight in ((index, 1 - part), (index + 1, part)):
            self._weights[node] += weight
            self._shares[node] += weight * share
            self._residuals[node] += weight * residual_watts
        stable = self._without_drift()
        left_watts = residual_watts - stable.even_watts(cpu_watts) - stable.local_watts(root)
        self._drift = _faded(self._drift, elapsed_seconds / _DRIFT_SECONDS)
        self._drift[0] += 1.0
        self._drift[1] += left_watts

    @property
    def correction(self) -> Correction:
        stable = self._without_drift()
        weight, residual = self._drift
        drift_watts = residual / (weight + _DRIFT_PRIOR_READINGS)
        return Correction(stable.level_watts + drift_watts, stable.gain, stable.nodes_watts)

    def _without_drift(self) -> Correction:
        prior_weight = _PRIOR_SHARE * sum(self._weights)
        if prior_weight <= 0:
            return Correction()
        node_weights = [weight / (weight + prior_weight) for weight in self._weights]
        sums = zip(self._weights, self._shares, self._residuals, strict=True)
        means = [(s / w, r / w) if w > 0 else (0.0, 0.0) for w, s, r in sums]
        level_watts, gain_watts = _even_part(node_weights, means)
        gain_watts = max(_LEAST_GAIN * self._full_cpu_watts, gain_watts)
        nodes_watts = tuple(
            node_weight * (residual - level_watts - gain_watts * share)
            for node_weight, (share, residual) in zip(node_weights, means, strict=True)
        )
        return Correction(level_watts, gain_watts / self._full_cpu_watts, nodes_watts)


def _even_part(node_weights: Sequence[float], means: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Offset and gain in watts, from the weight, share and residual of each node."""
    count = shares = squares = residuals = products = power = 0.0
    for node_weight, (share, residual) in zip(node_weights, means, strict=True):
        count += node_weight
        shares += node_weight * share
        squares += node_weight * share * share
        residuals += node_weight * residual
        products += node_weight * share * residual
        power += node_weight * residual * residual
    if power <= 0:
        return 0.0, 0.0
    candidates: list[tuple[float, float, float]] = []
    for ridge in _LOCAL_SHARES:
        determinant = (count + ridge) * (squares + ridge) - shares * shares
        level_watts = ((squares + ridge) * residuals - shares * products) / determinant
        gain_watts = ((count + ridge) * products - shares * residuals) / determinant
        # The unexplained share of the squared residuals; never 0, since no meter is exact.
        left = max(_LEAST_LEFT, 1 - (level_watts * residuals + gain_watts * products) / power)
        # The likelihood, with the offset, the gain and the scale of all variances integrated out.
        likelihood = log(ridge) - log(determinant) / 2 - count * log(left) / 2
        candidates.append((likelihood, level_watts, gain_watts))
    highest = max(likelihood for likelihood, _, _ in candidates)
    weights = [exp(likelihood - highest) for likelihood, _, _ in candidates]
    whole = sum(weights)
    return (
        sum(weight * level for weight, (_, level, _) in zip(weights, candidates, strict=True)) / whole,
        sum(weight * gain for weight, (_, _, gain) in zip(weights, candidates, strict=True)) / whole,
    )


def _faded(sums: Sequence[float], ages: float) -> list[float]:
    factor = exp(-ages)
    return [value * factor for value in sums]


def _place(root: float) -> tuple[int, float]:
    """The node at or below, and the position between it and the next."""
    position = min(1.0, max(0.0, root)) * (NODES - 1)
    index = min(NODES - 2, int(position))
    return index, position - index


def corrected_terms(curve: CurveModel, correction: Correction, training: Training, load: Load) -> Terms:
    """The terms of the curve, corrected and limited to the range of the training.

    The offset and the correction at no load belong to idle power, the rest to the CPU. It is not negative if
    the correction keeps the curve increasing.
    """
    free = curve.free_terms(load)
    at_idle_watts = correction.nodes_watts[0]
    local_watts = correction.local_watts(curve.root(load)) - at_idle_watts
    terms = Terms(
        max(0.0, free.idle_watts + correction.level_watts + at_idle_watts),
        max(0.0, (1 + correction.gain) * free.cpu_watts + local_watts),
        *free.dynamic[1:],
    )
    return training.bounded(terms)


class LearnedWeights(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The state of `powermodels.learning.service_weights`."""

    services: dict[str, tuple[float, float]] = {}
    """The weight of each service, and its usual watts."""
    common_weight: float = 1.0
    held_out: tuple[float, float, float, float, float] = (0.0,) * 5
    """The sums of the test that decides whether the weights are used."""


class AdaptiveModel(FittedModel, frozen=True, kw_only=True, tag="adaptive"):
    """The state of a tracker (`powermodels.learning.tracker`), to save and evaluate."""

    curve: CurveModel
    correction: Correction
    """Keeps the curve increasing."""
    read: datetime
    """Time of the last meter reading."""
    weights: LearnedWeights = LearnedWeights()
    """How the power of the CPU time of services differs."""

    def terms(self, load: Load) -> Terms:
        return corrected_terms(self.curve, self.correction, self.origin.training, load)

    def describe(self) -> str:
        return f"{super().describe()}, by a meter last read on {self.read:%Y-%m-%d %H:%M}"

"""Learning from a meter: updates the adaptive model, refits it on request, and stores it on disk.

A meter's value covers some time (`Meter.period_seconds`); load is averaged over that time before both are
combined. A learned model covers the scope of its meter, and nothing else.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import sqrt
from pathlib import Path
from typing import cast

import msgspec

from powermodels.common.interface import ASSUMED, HostFacts, Load, Model, Scope
from powermodels.learning.refit import Refit
from powermodels.learning.service_weights import ServiceWeights
from powermodels.learning.tracker import Tracker
from powermodels.models.basis import cpu, row, weighted_terms
from powermodels.models.fitted import Origin, Range, ScopeName, Training, fingerprint
from powermodels.models.regression import CurveModel
from powermodels.models.samples import FitRequest
from powermodels.models.stored import save
from wire.errors import UserError
from wire.messages import Gap

# A curve fitted to one load only is not valid for others. In roots of CPU usage, as curves are concave.
_MIN_SPREAD = 0.3
_SAVE_INTERVAL_SECONDS = 600.0


@dataclass(slots=True)
class _MeanLoad:
    """Loads since the last reading that was used, each weighted by its duration."""

    seconds: float = 0.0
    sums: dict[str, float] = field(default_factory=dict)
    known: dict[str, float] = field(default_factory=dict)
    """Seconds in which each ratio was known."""

    def add(self, load: Load, seconds: float) -> None:
        self.seconds += seconds
        for name in Load.__slots__:
            ratio = getattr(load, name)
            if ratio is not None:
                self.sums[name] = self.sums.get(name, 0.0) + ratio * seconds
                self.known[name] = self.known.get(name, 0.0) + seconds

    def take(self) -> Load:
        mean = Load(**{"cpu_ratio": 0.0, **{name: self.sums[name] / self.known[name] for name in self.sums}})
        self.seconds = 0.0
        self.sums.clear()
        self.known.clear()
        return mean


class Learner:
    """A tracker with its meter, fits and file."""

    def __init__(
        self,
        curve: CurveModel,
        path: Path | None = None,
        refit: Refit | None = None,
        weights: ServiceWeights | None = None,
    ) -> None:
        """`weights` are learned elsewhere, and stored with the model."""
        self._now_seconds = 0.0
        self.tracker = Tracker(curve, lambda: self._now_seconds)
        self.scaling = curve.origin.scaling
        self.gap: Gap | None = None
        """Why the last fit failed, or the model cannot be stored."""
        self._path = path
        self._weights = weights or ServiceWeights()
        self._refit = refit or Refit()
        self._load = _MeanLoad()
        self._saved_seconds: float | None = None
        self._learned = False

    def pass_time(self, monotonic_seconds: float, load: Load, interval_seconds: float) -> None:
        """Add an interval with this load."""
        self._now_seconds = monotonic_seconds
        if interval_seconds > 0:
            self._load.add(load, interval_seconds)
        self._update()

    def learn(self, watts: float, period_seconds: float) -> None:
        """Add the meter's value for the time until now; a repeated value is ignored."""
        if self._load.seconds <= 0 or self._load.seconds < period_seconds:
            return
        self.tracker.observe(self._load.take(), watts)
        self._learned = True

    def close(self) -> None:
        """End a running fit, and store the model."""
        self._refit.close()
        self._save()

    def _update(self) -> None:
        """Use the result of a fit, start another fit, and store the model, each if it is due."""
        fitted = self._refit.poll(self._now_seconds)
        if fitted is None and self.tracker.refit_due and not self._refit.is_running:
            request = self.tracker.request()
            if _spread(request) >= _MIN_SPREAD:
                fitted = self._refit.start(request, self._now_seconds)
        if fitted is not None:
            self.gap = fitted if isinstance(fitted, Gap) else None
            if isinstance(fitted, CurveModel) and self.tracker.offer(fitted):
                self._save()
        if self._saved_seconds is None:
            self._saved_seconds = self._now_seconds
        elif self._now_seconds - self._saved_seconds >= _SAVE_INTERVAL_SECONDS:
            self._save()

    def _save(self) -> None:
        if self._path is None or not self._learned:
            return
        self._learned, self._saved_seconds = False, self._now_seconds
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            model = self.tracker.snapshot(datetime.now(UTC))
            save(msgspec.structs.replace(model, weights=self._weights.learned()), self._path)
        except (UserError, OSError) as error:
            self.gap = Gap(
                "power model", f"the learned model cannot be stored, and is lost at the next restart: {error}"
            )


def _spread(request: FitRequest) -> float:
    roots = [sqrt(cpu(sample.load)) for sample in request.samples]
    return max(roots, default=0.0) - min(roots, default=0.0)


def first_curve(model: Model, facts: HostFacts, scope: Scope, load: Load, metered_watts: float) -> CurveModel:
    """A curve with the shape of an unmetered model and the level of a first reading."""
    quarter, full = (model.terms(Load(cpu_ratio)) for cpu_ratio in (0.25, 1.0))
    busy = model.terms(Load(0.0, 1.0, 1.0, 1.0))
    # a*u + b*sqrt(u) through both points.
    root_watts = max(0.0, min(full.cpu_watts, 4 * quarter.cpu_watts - full.cpu_watts))
    shape = {"cpu": full.cpu_watts - root_watts, "cpu_sqrt": root_watts}
    if scope is not Scope.CPU:
        shape["memory"] = busy.memory_watts
    if scope is Scope.NODE:
        shape |= {"disk": busy.disk_watts, "network": busy.network_watts}
    model_watts = weighted_terms(full.idle_watts, shape, load).watts
    scale = metered_watts / model_watts if model_watts > 0 else 1.0
    idle_watts = scale * full.idle_watts
    coefficients = {name: scale * watts for name, watts in shape.items()}
    origin = Origin(
        features=tuple(coefficients),
        scaling=ASSUMED,
        training=Training(
            samples=1,
            watts=Range(idle_watts, idle_watts + sum(coefficients.values())),
            features={name: Range(value, value) for name, value in zip(shape, row(shape, load), strict=True)},
        ),
        error_ratio=min(1.0, model.error_ratio),
        made=datetime.now(UTC),
        host=fingerprint(facts),
        metered=cast("ScopeName", scope.name),
    )
    return CurveModel(origin=origin, idle_watts=idle_watts, coefficients_watts=coefficients)

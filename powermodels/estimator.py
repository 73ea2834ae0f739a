"""The estimator: one host's watts, from the best that it has.

What `watts` means depends on the source, and the source is always said:

- a meter: what that meter sees, no more. RAPL sees the CPU packages and, where counted, the memory; board,
  disks, fans and the power supply are missing (78 % more at the wall, in the median, on the one server with
  both meters that the project has data of, from 14 % to 151 % by load). A measurement stays a measurement:
  its error is that of what it sees, and a gap says what it does not see.
- model: what was learned from a meter of this host, of what that meter saw.
- prior: what the whole machine draws at the wall; inside a virtual machine, the guest's share.

A meter that is silent for an interval leaves it to the model, with the model's source and error. A model that
was learned from that meter goes on where it stopped; a prior may differ in scope, so that a change of
source can be a step in watts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from powermodels.attribution.idle import IdlePolicy, share_idle
from powermodels.attribution.split import container_error_ratio, fit_to_meter, split
from powermodels.common.host_facts import read_host_facts
from powermodels.common.interface import (
    Estimate,
    HostFacts,
    Load,
    Meter,
    MeterState,
    Model,
    ModelState,
    Scope,
    Share,
)
from powermodels.common.scaling import ASSUMED, rescaled
from powermodels.learning.learner import Learner, first_curve
from powermodels.learning.refit import Refit
from powermodels.meters import find_meters
from powermodels.models import choose_model
from powermodels.models.adaptive import AdaptiveModel
from powermodels.models.fitted import FittedModel, fingerprint
from powermodels.models.regression import CurveModel
from powermodels.models.stored import Stored
from powermodels.models.stored import load as load_model
from wire.errors import UserError
from wire.messages import Gap
from wire.resources import Quantities


@dataclass(frozen=True, slots=True)
class Options:
    """What may be chosen about a host's watts."""

    idle_policy: IdlePolicy = IdlePolicy.NONE
    model_path: Path | None = None
    """Where the host's own model is kept, as it was calibrated or learned; None keeps none."""
    refit: Refit = field(default_factory=Refit)


class Estimator:
    """Watts of a host and its containers, sample by sample."""

    def __init__(
        self,
        facts: HostFacts,
        model: Model,
        meters: Sequence[Meter],
        gaps: Sequence[Gap],
        options: Options | None = None,
    ) -> None:
        self.facts = facts
        self._model = model
        self._meters = tuple(meters)
        self._gaps = tuple(gaps)
        self._options = options or Options()
        self._learner: Learner | None = None
        self._last_seconds: float | None = None
        self._readings: tuple[float | None, ...] = (None,) * len(self._meters)
        self._used: Meter | None = None

    @classmethod
    def for_host(
        cls,
        proc: Path,
        sys: Path,
        *,
        model_path: Path | None = None,
        idle_policy: IdlePolicy = IdlePolicy.NONE,
    ) -> Self:
        """The best that can be had for the host under these roots.

        At `model_path` lies the model of this host, as it was calibrated or learned; what is learned further
        is kept there.
        """
        facts = read_host_facts(proc, sys)
        meters, gaps = find_meters(sys, facts.hypervisor)
        # A host with any meter is not bothered with all those that it might have as well.
        missing = [] if meters else gaps[:1]
        model: Model = choose_model(facts)
        if model_path is not None and model_path.exists():
            try:
                model = _of_this_host(load_model(model_path), facts, model_path)
            except UserError as complaint:
                missing.append(Gap("power model", str(complaint)))
        return cls(facts, model, meters, missing, Options(idle_policy, model_path))

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """What cannot be measured at present, and why."""
        silent = [meter.gap for meter in self._meters if meter.gap is not None]
        best = next((meter for meter in self._meters if _measures(meter) and meter.gap is None), None)
        unseen: list[Gap] = []
        if best is not None and best.scope is not Scope.NODE:
            unseen.append(
                Gap("power of the whole machine", f"{best.name} sees {best.scope.value}, not the rest of it")
            )
        if self._learner is not None and self._learner.gap is not None:
            unseen.append(self._learner.gap)
        return (*self._gaps, *silent, *unseen)

    def describe(self) -> list[str]:
        """What the watts stand on, in sentences for people."""
        working = [meter.describe() for meter in self._meters if meter.gap is None]
        return [f"power: {sentence}" for sentence in (*working, self.model.describe())]

    @property
    def model(self) -> Model:
        """What stands in for a meter now."""
        return self._model if self._learner is None else self._learner.tracker

    def model_state(self) -> ModelState:
        """The same, as it stands now."""
        model = self.model
        tracker = None if self._learner is None else self._learner.tracker
        fitted = self._model if tracker is None else tracker.snapshot(datetime.now(UTC))
        return ModelState(
            source=model.source,
            scope=model.scope,
            error_ratio=model.error_ratio,
            description=model.describe(),
            made=fitted.origin.made if isinstance(fitted, FittedModel) else None,
            stale_seconds=None if tracker is None else tracker.stale_seconds,
        )

    def meters(self) -> tuple[MeterState, ...]:
        """Every meter of the host as of the last estimate, the best first."""
        return tuple(
            MeterState(
                name=meter.name,
                source=meter.source,
                scope=meter.scope,
                error_ratio=meter.error_ratio,
                watts=watts,
                used=meter is self._used,
                gap=meter.gap,
                parts=meter.parts,
            )
            for meter, watts in zip(self._meters, self._readings, strict=True)
        )

    def begin(self, monotonic_seconds: float) -> None:
        """Start the meters' first interval, so that the first estimate can be a measured one."""
        for meter in self._meters:
            meter.watts(monotonic_seconds)
        self._last_seconds = monotonic_seconds

    def estimate(
        self,
        monotonic_seconds: float,
        load: Load,
        containers: Mapping[str, Load],
        *,
        reserved: Mapping[str, Load] | None = None,
        capacity: Quantities | None = None,
    ) -> Estimate:
        """The node's draw since the last call (or `begin`), and who drew it.

        `reserved` says what each container was promised of the host, for a policy that goes by it; `capacity`
        what the loads are ratios of, so that a model can take them by what it was fitted with.
        """
        # All are read, since each measures from one call to the next; the first that answers is the best.
        self._readings = tuple(meter.watts(monotonic_seconds) for meter in self._meters)
        answers = zip(self._meters, self._readings, strict=True)
        self._used, metered_watts = next(
            ((meter, watts) for meter, watts in answers if watts is not None and _measures(meter)),
            (None, None),
        )
        model = self.model
        capacity = capacity or Quantities()
        terms = model.terms(rescaled(load, capacity, self._scaling))
        source, error_ratio, scope = model.source, model.error_ratio, model.scope
        if self._used is not None and metered_watts is not None:
            terms = fit_to_meter(terms, metered_watts, self._used.scope, model.scope)
            source, error_ratio, scope = self._used.source, self._used.error_ratio, self._used.scope
        self._learn(monotonic_seconds, load, capacity, metered_watts)
        parts = split(terms, load, containers)
        idle_watts = share_idle(self._options.idle_policy, parts, reserved or {})
        share_error_ratio = container_error_ratio(terms, error_ratio)
        return Estimate(
            watts=terms.watts,
            idle_watts=parts.idle_watts,
            system_watts=parts.system_watts,
            source=source,
            error_ratio=error_ratio,
            containers={
                name: Share(watts, share_error_ratio, idle_watts[name])
                for name, watts in parts.containers.items()
            },
            scope=scope,
        )

    @property
    def _scaling(self) -> Quantities:
        if self._learner is not None:
            return self._learner.scaling
        return self._model.origin.scaling if isinstance(self._model, FittedModel) else Quantities()

    def close(self) -> None:
        """Keep what was learned, and leave no child behind."""
        if self._learner is not None:
            self._learner.close()

    def _learn(
        self, monotonic_seconds: float, load: Load, capacity: Quantities, metered_watts: float | None
    ) -> None:
        interval_seconds = 0.0 if self._last_seconds is None else monotonic_seconds - self._last_seconds
        self._last_seconds = monotonic_seconds
        meter = self._used
        if meter is not None and metered_watts is not None:
            self._begin_to_learn(meter.scope, rescaled(load, capacity, ASSUMED), metered_watts)
        if self._learner is None:
            return
        model_load = rescaled(load, capacity, self._learner.scaling)
        self._learner.pass_time(monotonic_seconds, model_load, interval_seconds)
        if meter is not None and metered_watts is not None and meter.scope is self._learner.tracker.scope:
            self._learner.learn(metered_watts, meter.period_seconds)

    def _begin_to_learn(self, scope: Scope, load: Load, metered_watts: float) -> None:
        """Make a learner for what a meter sees, unless there is one for that, or for more."""
        if self._learner is not None and not _sees_more(scope, self._learner.tracker.scope):
            return
        known = self._model.curve if isinstance(self._model, AdaptiveModel) else self._model
        if isinstance(known, CurveModel) and known.scope is scope:
            curve = known
        elif isinstance(known, FittedModel) and not _sees_more(scope, known.scope):
            return  # a line or a table that was calibrated is used as it is
        else:
            curve = first_curve(self._model, self.facts, scope, load, metered_watts)
        if self._learner is not None:
            self._learner.close()
        self._learner = Learner(curve, self._options.model_path, self._options.refit)


def _measures(meter: Meter) -> bool:
    return meter.scope is not Scope.PART


def _sees_more(scope: Scope, other: Scope) -> bool:
    order = tuple(Scope)
    return order.index(scope) < order.index(other)


def _of_this_host(model: Stored, facts: HostFacts, path: Path) -> Stored:
    if model.origin.host != fingerprint(facts):
        raise UserError(f"{path} was made on another machine: make one here with 'wattpack calibrate'")
    return model

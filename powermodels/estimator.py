"""The estimator: power of one host, from the most direct source that it has.

`watts` is the power of the whole machine at the wall, whatever the source; inside a virtual machine, the
guest's share of it. A meter may cover less: RAPL covers the CPU packages and often the memory, not board,
disks, fans and power supply. The rest is then estimated (`powermodels.models.lifted`), with the error of
that, and a gap names the reason.

If a meter has no value for an interval, the model that was fitted to it replaces it, with its own source and
error.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from powermodels.attribution.idle import IdlePolicy, share_idle
from powermodels.attribution.split import PowerWeights, container_error_ratio, fit_to_meter, split
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
    Terms,
)
from powermodels.common.scaling import ASSUMED, rescaled
from powermodels.learning.learner import Learner, first_curve
from powermodels.learning.refit import Refit
from powermodels.learning.service_weights import SYSTEM, ServiceWeights, shares_by_service
from powermodels.meters import PYRAPL, find_meters
from powermodels.meters.ipmi import IpmiMeter
from powermodels.models import choose_model
from powermodels.models.adaptive import AdaptiveModel
from powermodels.models.fitted import FittedModel, fingerprint
from powermodels.models.lifted import LiftedModel, lift, lifted_error_ratio
from powermodels.models.regression import CurveModel
from powermodels.models.slice import Slice, SliceModel
from powermodels.models.stored import Stored
from powermodels.models.stored import load as load_model
from wire.errors import UserError
from wire.messages import Gap, PowerSource
from wire.resources import Quantities

_SLICE_GAP = Gap(
    "power meter",
    "a meter measures the whole machine, and host.cgroup is a part of it; its power is estimated",
)


@dataclass(frozen=True, slots=True)
class Options:
    """Options of an estimator."""

    idle_policy: IdlePolicy = IdlePolicy.NONE
    model_path: Path | None = None
    """File of the host's own model, calibrated or learned; None stores no model."""
    refit: Refit = field(default_factory=Refit)
    is_slice: bool = False
    """Whether the host is a cgroup on a machine that it shares with others."""


@dataclass(frozen=True, slots=True)
class _NodeEstimate:
    """Power of the whole machine; `source_scope` and `source_watts` as in `Estimate`."""

    terms: Terms
    source: PowerSource
    error_ratio: float
    source_scope: Scope
    source_watts: float


class Estimator:
    """Estimates the power of a host and its containers, sample by sample."""

    def __init__(
        self,
        facts: HostFacts,
        model: Model,
        meters: Sequence[Meter],
        gaps: Sequence[Gap],
        options: Options | None = None,
    ) -> None:
        self.facts = facts
        self._options = options or Options()
        self._slice = Slice(facts) if self._options.is_slice else None
        self._model = model if self._slice is None else SliceModel(model, self._slice)
        prior = model if model.source is PowerSource.PRIOR else choose_model(facts)
        self._prior = prior if self._slice is None else SliceModel(prior, self._slice)
        self._meters = tuple(meters)
        self._gaps = tuple(gaps)
        self._learner: Learner | None = None
        self._weights = ServiceWeights()
        self._last_seconds: float | None = None
        self._interval_seconds = 0.0
        self._readings: tuple[float | None, ...] = (None,) * len(self._meters)
        self._used: Meter | None = None

    @classmethod
    def for_host(  # noqa: PLR0913 - the host, and the agent's settings
        cls,
        proc: Path,
        sys: Path,
        *,
        model_path: Path | None = None,
        idle_policy: IdlePolicy = IdlePolicy.NONE,
        is_slice: bool = False,
        pyrapl: bool = False,
    ) -> Self:
        """Create the estimator of the host below these roots.

        `model_path` is the file of this host's model; what is learned is saved there. A slice of a machine
        has no meter of its own. With `pyrapl`, RAPL is read through pyRAPL.
        """
        facts = read_host_facts(proc, sys)
        meters, gaps = ((), [_SLICE_GAP]) if is_slice else find_meters(sys, facts.hypervisor, pyrapl=pyrapl)
        # With any meter, the reasons why others are missing do not matter, except of one that was chosen.
        missing = [gap for gap in gaps if gap.what == PYRAPL] if meters else gaps[:1]
        model: Model = choose_model(facts)
        if model_path is not None and model_path.exists():
            try:
                model = _of_this_host(load_model(model_path), facts, model_path)
            except UserError as error:
                missing.append(Gap("power model", str(error)))
        return cls(facts, model, meters, missing, Options(idle_policy, model_path, is_slice=is_slice))

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """What cannot be measured now, and why."""
        failed = [meter.gap for meter in self._meters if meter.gap is not None]
        best = next((meter for meter in self._meters if _measures(meter) and meter.gap is None), None)
        others: list[Gap] = []
        if best is not None and best.scope is not Scope.NODE:
            others.append(
                Gap(
                    "power of the whole machine",
                    f"{best.name} measures {best.scope.value}; the rest is estimated",
                )
            )
        if self._learner is not None and self._learner.gap is not None:
            others.append(self._learner.gap)
        return (*self._gaps, *failed, *others)

    def describe(self) -> list[str]:
        """The sources of power values, as text."""
        working = [meter.describe() for meter in self._meters if meter.gap is None]
        return [f"power: {sentence}" for sentence in (*working, self.model.describe())]

    @property
    def model(self) -> Model:
        """The model that is used without a meter, with the scope of the meter that it was fitted to."""
        return self._model if self._learner is None else self._learner.tracker

    @property
    def machine_model(self) -> Model:
        """The model of the whole machine: `model`, lifted if it has a smaller scope."""
        return self.model if self.model.scope is Scope.NODE else LiftedModel(self.model, self._whole_model)

    @property
    def _whole_model(self) -> Model:
        """The best model of the whole machine."""
        return next(model for model in (self.model, self._model, self._prior) if model.scope is Scope.NODE)

    def model_state(self) -> ModelState:
        """The current state of the model."""
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
        """All meters of the host at the last estimate, the preferred one first."""
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
        """Start the first interval of the meters, so that the first estimate can be measured."""
        for meter in self._meters:
            meter.watts(monotonic_seconds)
        self._last_seconds = monotonic_seconds

    def estimate(  # noqa: PLR0913 - the last ones are optional, and given by name
        self,
        monotonic_seconds: float,
        load: Load,
        containers: Mapping[str, Load],
        *,
        reserved: Mapping[str, Load] | None = None,
        capacity: Quantities | None = None,
        services: Mapping[str, str] | None = None,
    ) -> Estimate:
        """Estimate the power since the last call (or `begin`), by container.

        `reserved` is the share of the host that each container reserves, for the idle policy; `capacity` is
        what the loads are ratios of, so that a model can convert them to the capacities that it was fitted
        with; `services` is the service of each container, whose CPU time is weighted alike.
        """
        capacity, services = capacity or Quantities(), services or {}
        if self._slice is not None:
            self._slice.resize(capacity)
        metered_watts = self._read_meters(monotonic_seconds)
        node = self._estimate_node(load, capacity, metered_watts)
        self._learn(monotonic_seconds, load, capacity, metered_watts)
        self._learn_weights(load, capacity, metered_watts, shares_by_service(load, containers, services))
        weights = PowerWeights(
            {name: self._weights.weight(services.get(name, name)) for name in containers},
            self._weights.weight(SYSTEM),
        )
        parts = split(node.terms, load, containers, weights)
        idle_watts = share_idle(self._options.idle_policy, parts, reserved or {})
        share_error_ratio = container_error_ratio(node.terms, node.error_ratio, self._weights.error_share)
        return Estimate(
            watts=node.terms.watts,
            idle_watts=parts.idle_watts,
            system_watts=parts.system_watts,
            source=node.source,
            error_ratio=node.error_ratio,
            containers={
                name: Share(watts, share_error_ratio, idle_watts[name], weights.containers.get(name, 1.0))
                for name, watts in parts.containers.items()
            },
            source_scope=node.source_scope,
            source_watts=node.source_watts,
        )

    def _read_meters(self, monotonic_seconds: float) -> float | None:
        """Read all meters, since each measures from call to call; return the watts of the preferred one."""
        self._readings = tuple(meter.watts(monotonic_seconds) for meter in self._meters)
        for meter, watts in zip(self._meters, self._readings, strict=True):
            if watts is not None and _measures(meter):
                self._used = meter
                return watts
        self._used = None
        return None

    def _estimate_node(
        self, load: Load, capacity: Quantities, metered_watts: float | None
    ) -> "_NodeEstimate":
        """Estimate the power of the whole machine from the meter in use or, without one, from the model."""
        model, whole = self.model, self._whole_model
        terms = model.terms(rescaled(load, capacity, self._scaling_of(model)))
        source, error_ratio, scope = model.source, model.error_ratio, model.scope
        if self._used is not None and metered_watts is not None:
            terms = fit_to_meter(terms, metered_watts, self._used.scope, model.scope)
            source, error_ratio, scope = self._used.source, self._used.error_ratio, self._used.scope
        whole_terms = whole.terms(rescaled(load, capacity, self._scaling_of(whole)))
        error_ratio = lifted_error_ratio(terms, scope, error_ratio, whole_terms, whole.error_ratio)
        if scope is not Scope.NODE and whole is not self._prior and whole.error_ratio < error_ratio:
            # It was fitted to a meter of the whole machine, and is more accurate.
            return _NodeEstimate(whole_terms, whole.source, whole.error_ratio, whole.scope, whole_terms.watts)
        lifted = lift(terms, scope, whole_terms, whole.error_ratio)
        return _NodeEstimate(lifted, source, error_ratio, scope, terms.watts)

    def _scaling_of(self, model: Model) -> Quantities:
        """The capacities that the loads of a model are ratios of; empty if they do not matter."""
        if self._learner is not None and model is self._learner.tracker:
            return self._learner.scaling
        whole = model.whole if isinstance(model, SliceModel) else model
        return whole.origin.scaling if isinstance(whole, FittedModel) else Quantities()

    def close(self) -> None:
        """Save the learned model, and end child processes."""
        if self._learner is not None:
            self._learner.close()
        for meter in self._meters:
            if isinstance(meter, IpmiMeter):
                meter.close()

    def _learn(
        self, monotonic_seconds: float, load: Load, capacity: Quantities, metered_watts: float | None
    ) -> None:
        last_seconds, self._last_seconds = self._last_seconds, monotonic_seconds
        self._interval_seconds = 0.0 if last_seconds is None else monotonic_seconds - last_seconds
        meter = self._used
        if meter is not None and metered_watts is not None:
            self._start_learning(meter.scope, rescaled(load, capacity, ASSUMED), metered_watts)
        if self._learner is None:
            return
        model_load = rescaled(load, capacity, self._learner.scaling)
        self._learner.pass_time(monotonic_seconds, model_load, self._interval_seconds)
        if meter is not None and metered_watts is not None and meter.scope is self._learner.tracker.scope:
            self._learner.learn(metered_watts, meter.period_seconds)

    def _learn_weights(
        self, load: Load, capacity: Quantities, metered_watts: float | None, shares: Mapping[str, float]
    ) -> None:
        """Learn how services differ; `shares` is the share of each in the CPU usage."""
        learner, meter = self._learner, self._used
        if (
            learner is None
            or meter is None
            or metered_watts is None
            or meter.scope is not learner.tracker.scope
        ):
            self._weights.skip()
            return
        terms = learner.tracker.curve.terms(rescaled(load, capacity, learner.scaling))
        self._weights.observe(
            metered_watts - terms.memory_watts - terms.disk_watts - terms.network_watts,
            {service: terms.cpu_watts * share for service, share in shares.items()},
            self._interval_seconds,
        )

    def _start_learning(self, scope: Scope, load: Load, metered_watts: float) -> None:
        """Create a learner for the scope of a meter, unless there is one for that or a larger scope."""
        if self._learner is not None and not _is_larger(scope, self._learner.tracker.scope):
            return
        base = self._model.curve if isinstance(self._model, AdaptiveModel) else self._model
        if isinstance(base, CurveModel) and base.scope is scope:
            curve = base
        elif isinstance(base, FittedModel) and not _is_larger(scope, base.scope):
            return  # a calibrated linear or table model is used unchanged
        else:
            curve = first_curve(self._model, self.facts, scope, load, metered_watts)
        if self._learner is not None:
            self._learner.close()
        self._learner = Learner(curve, self._options.model_path, self._options.refit)


def _measures(meter: Meter) -> bool:
    return meter.scope is not Scope.PART


def _is_larger(scope: Scope, other: Scope) -> bool:
    order = tuple(Scope)
    return order.index(scope) < order.index(other)


def _of_this_host(model: Stored, facts: HostFacts, path: Path) -> Stored:
    if model.origin.host != fingerprint(facts):
        raise UserError(
            f"{path} is the model of another machine: create one here with 'wattpack power calibrate'"
        )
    return model

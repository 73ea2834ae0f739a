"""The estimator: power of one host, from the most direct source that it has.

`watts` is the power of the whole machine at the wall, whatever the source; inside a virtual machine, the
guest's share of it. A meter may cover less: RAPL covers the CPU packages and often the memory, not board,
disks, fans and power supply. The rest is then estimated (`powermodels.models.lifted`), with the error of
that, and a gap names the reason.

If a meter has no value for an interval, the model that was fitted to it replaces it, with its own source and
error.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

from powermodels.attribution.split import (
    IdlePolicy,
    PowerWeights,
    container_error_ratio,
    fit_to_meter,
    share_idle,
    split,
)
from powermodels.common.host_facts import read_host_facts
from powermodels.common.interface import (
    ASSUMED,
    Estimate,
    HostFacts,
    Load,
    Meter,
    MeterState,
    Model,
    Scope,
    Share,
)
from powermodels.learning.learner import Learner, first_curve
from powermodels.learning.refit import Refit
from powermodels.learning.service_weights import SYSTEM, ServiceWeights, shares_by_service
from powermodels.meters import PYRAPL, find_meters
from powermodels.meters.ipmi import IpmiMeter
from powermodels.models.adaptive import AdaptiveModel, LearnedWeights
from powermodels.models.fitted import FittedModel, fingerprint
from powermodels.models.lifted import LiftedModel, lift
from powermodels.models.prior import PriorModel
from powermodels.models.regression import CurveModel
from powermodels.models.slice import Slice, SliceModel
from powermodels.models.stored import Stored
from powermodels.models.stored import load as load_model
from wire.errors import UserError
from wire.messages import Gap
from wire.resources import Quantities

_SLICE_GAP = Gap(
    "power meter",
    "a meter measures the whole machine, and host.cgroup is a part of it; its power is estimated",
)

_Reading = tuple[Meter, float]
"""The meter in use, and its watts."""


class Estimator:
    """Estimates the power of a host and its containers, sample by sample."""

    def __init__(  # noqa: PLR0913 - the host, and options by name
        self,
        facts: HostFacts,
        meters: Sequence[Meter] = (),
        gaps: Sequence[Gap] = (),
        *,
        model: Stored | None = None,
        model_path: Path | None = None,
        idle_policy: IdlePolicy = IdlePolicy.NONE,
        is_slice: bool = False,
        refit: Refit | None = None,
    ) -> None:
        """`model` is the host's own model, calibrated or learned; without `model_path`, none is stored.

        With `is_slice`, the host is a cgroup on a machine that it shares with others.
        """
        self.facts = facts
        self._idle_policy = idle_policy
        self._model_path = model_path
        self._refit = refit or Refit()
        self._prior: Model = PriorModel.for_host(facts)
        self._model: Model = model or self._prior
        self._slice = Slice(facts) if is_slice else None
        if self._slice is not None:
            self._prior = SliceModel(self._prior, self._slice)
            self._model = self._prior if model is None else SliceModel(model, self._slice)
        self._meters = tuple(meters)
        self._gaps = tuple(gaps)
        self._learner: Learner | None = None
        weights = model.weights if isinstance(model, AdaptiveModel) else LearnedWeights()
        self._weights = ServiceWeights.restored(weights)
        self._last_seconds: float | None = None
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
        model = None
        if model_path is not None and model_path.exists():
            try:
                model = _load_of_host(model_path, facts)
            except UserError as error:
                missing.append(Gap("power model", str(error)))
        return cls(
            facts,
            meters,
            missing,
            model=model,
            model_path=model_path,
            idle_policy=idle_policy,
            is_slice=is_slice,
        )

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """What cannot be measured now, and why."""
        failed = [meter.gap for meter in self._meters if meter.gap is not None]
        working = [meter for meter in self._meters if meter.scope is not Scope.PART and meter.gap is None]
        others: list[Gap] = []
        if working and (best := working[0]).scope is not Scope.NODE:
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

    def meters(self) -> tuple[MeterState, ...]:
        """All meters of the host at the last estimate, the preferred one first."""
        return tuple(
            MeterState(
                name=meter.name,
                scope=meter.scope,
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
        reading = self._read_meters(monotonic_seconds)
        node = self._estimate_node(load, capacity, reading)
        self._learn(monotonic_seconds, load, capacity, reading, shares_by_service(load, containers, services))
        weights = PowerWeights(
            {name: self._weights.weight(services.get(name, name)) for name in containers},
            self._weights.weight(SYSTEM),
        )
        parts = split(node.terms, load, containers, weights)
        idle_watts = share_idle(self._idle_policy, parts, reserved or {})
        share_error_ratio = container_error_ratio(node.terms, node.error_ratio, self._weights.error_share)
        return replace(
            node,
            system_watts=parts.system_watts,
            containers={
                name: Share(watts, share_error_ratio, idle_watts[name], weights.containers[name])
                for name, watts in parts.containers.items()
            },
        )

    def _read_meters(self, monotonic_seconds: float) -> _Reading | None:
        """Read all meters, since each measures from call to call; return the preferred one with a value."""
        self._readings = tuple(meter.watts(monotonic_seconds) for meter in self._meters)
        self._used = None
        for meter, watts in zip(self._meters, self._readings, strict=True):
            if watts is not None and meter.scope is not Scope.PART:
                self._used = meter
                return meter, watts
        return None

    def _estimate_node(self, load: Load, capacity: Quantities, reading: _Reading | None) -> Estimate:
        """Estimate the power of the whole machine, without containers, from the meter or from the model."""
        model, whole = self.model, self._whole_model
        terms = model.terms(load.rescaled(capacity, self._scaling_of(model)))
        source: Model | Meter = model
        if reading is not None:
            source, metered_watts = reading
            terms = fit_to_meter(terms, metered_watts, source.scope, model.scope)
        scope = source.scope
        whole_terms = whole.terms(load.rescaled(capacity, self._scaling_of(whole)))
        lifted, error_ratio = lift(terms, scope, source.error_ratio, whole_terms, whole.error_ratio)
        if scope is not Scope.NODE and whole is not self._prior and whole.error_ratio < error_ratio:
            # It was fitted to a meter of the whole machine, and is more accurate.
            source, error_ratio, lifted, terms = whole, whole.error_ratio, whole_terms, whole_terms
        return Estimate(
            terms=lifted,
            system_watts=lifted.dynamic_watts,
            source=source.source,
            error_ratio=error_ratio,
            source_scope=source.scope,
            source_watts=terms.watts,
        )

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
        self,
        monotonic_seconds: float,
        load: Load,
        capacity: Quantities,
        reading: _Reading | None,
        shares: Mapping[str, float],
    ) -> None:
        """Learn the model, and how services differ; `shares` is the share of each in the CPU usage."""
        last_seconds, self._last_seconds = self._last_seconds, monotonic_seconds
        interval_seconds = 0.0 if last_seconds is None else monotonic_seconds - last_seconds
        if reading is not None:
            self._start_learning(reading[0].scope, load.rescaled(capacity, ASSUMED), reading[1])
        learner = self._learner
        if learner is None:
            return
        model_load = load.rescaled(capacity, learner.scaling)
        learner.pass_time(monotonic_seconds, model_load, interval_seconds)
        if reading is None or reading[0].scope is not learner.tracker.scope:
            self._weights.skip()
            return
        meter, metered_watts = reading
        learner.learn(metered_watts, meter.period_seconds)
        terms = learner.tracker.curve.terms(model_load)
        self._weights.observe(
            metered_watts - terms.memory_watts - terms.disk_watts - terms.network_watts,
            {service: terms.cpu_watts * share for service, share in shares.items()},
            interval_seconds,
        )

    def _start_learning(self, scope: Scope, load: Load, metered_watts: float) -> None:
        """Create a learner for the scope of a meter, unless there is one for that or a larger scope."""
        if self._learner is not None and scope.rank >= self._learner.tracker.scope.rank:
            return
        base = self._model.curve if isinstance(self._model, AdaptiveModel) else self._model
        if isinstance(base, CurveModel) and base.scope is scope:
            curve = base
        elif isinstance(base, FittedModel) and scope.rank >= base.scope.rank:
            return  # a calibrated linear or table model is used unchanged
        else:
            curve = first_curve(self._model, self.facts, scope, load, metered_watts)
        if self._learner is not None:
            self._learner.close()
        self._learner = Learner(curve, self._model_path, self._refit, self._weights)


def _load_of_host(path: Path, facts: HostFacts) -> Stored:
    model = load_model(path)
    if model.origin.host != fingerprint(facts):
        raise UserError(
            f"{path} is the model of another machine: create one here with 'wattpack power calibrate'"
        )
    return model

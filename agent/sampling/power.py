"""Power of a sample, estimated by `powermodels`, and its energy counters."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from agent import config
from agent.sampling.rates import HostRates
from agent.sources.files import read_file
from powermodels.attribution.accounts import EnergyAccounts
from powermodels.attribution.split import IdlePolicy
from powermodels.common.interface import Load, MeterState
from powermodels.estimator import Estimator
from powermodels.models.wire_curve import power_curve_of
from wire.messages import ContainerPower, Gap, NodePower, PowerCurve
from wire.text import parse_count


@dataclass(frozen=True, slots=True)
class PowerSample:
    """Watts and joules of the node and of each container."""

    node: NodePower
    containers: Mapping[str, ContainerPower]
    meters: tuple[MeterState, ...]
    """All meters of the host, including those that are not used."""
    curve: PowerCurve
    """Power of the node at other loads."""


class PowerSampler:
    """Estimates each sample and integrates it over time."""

    def __init__(  # noqa: PLR0913 - the files have defaults
        self,
        settings: config.PowerConfig,
        proc: Path,
        sys: Path,
        *,
        model_file: Path | None = None,
        energy_file: Path | None = None,
        is_slice: bool = False,
    ) -> None:
        """Without `energy_file`, the energy counters start at 0."""
        self._idle_policy = IdlePolicy(settings.idle_policy)
        self._estimator = Estimator.for_host(
            proc,
            sys,
            model_path=model_file,
            idle_policy=self._idle_policy,
            is_slice=is_slice,
            pyrapl=settings.rapl_reader == "pyrapl",
        )
        self._max_hertz = _max_hertz(sys)
        self._accounts = (
            EnergyAccounts()
            if energy_file is None
            else EnergyAccounts.restore(energy_file, _kernel_boot(proc))
        )

    @property
    def gaps(self) -> tuple[Gap, ...]:
        unsaved = (self._accounts.gap,) if self._accounts.gap is not None else ()
        return (*self._estimator.gaps, *unsaved)

    def describe(self) -> list[str]:
        return self._estimator.describe()

    def begin(self, monotonic_seconds: float) -> None:
        self._estimator.begin(monotonic_seconds)

    def measure(
        self, rates: HostRates, monotonic_seconds: float, services: Mapping[str, str] | None = None
    ) -> PowerSample:
        """Power over the sample's interval, and the energy counters at its end.

        `services` is the service of each container that has one.
        """
        load = Load.of(rates.used, rates.capacity)
        if self._max_hertz is not None and rates.frequency_hertz is not None:
            load = replace(load, frequency_ratio=rates.frequency_hertz / self._max_hertz)
        capacity = rates.capacity
        reserved = (
            {each.id: Load.of(each.limit, capacity) for each in rates.containers}
            if self._idle_policy is IdlePolicy.BY_RESERVATION
            else {}
        )
        estimate = self._estimator.estimate(
            monotonic_seconds,
            load,
            {each.id: Load.of(each.used, capacity) for each in rates.containers},
            reserved=reserved,
            capacity=capacity,
            services=services,
        )
        self._accounts.add(estimate, rates.interval_seconds)
        self._accounts.keep(estimate.containers)
        self._accounts.save()
        return PowerSample(
            node=NodePower(
                watts=estimate.watts,
                idle_watts=estimate.idle_watts,
                system_watts=estimate.system_watts,
                source=estimate.source,
                error_ratio=estimate.error_ratio,
                joules_total=self._accounts.node_joules,
                source_scope=estimate.source_scope.reported,
            ),
            containers={
                container_id: ContainerPower(
                    watts=share.watts,
                    source=estimate.source,
                    error_ratio=share.error_ratio,
                    joules_total=self._accounts.container_joules(container_id),
                    idle_watts=share.idle_watts,
                    power_weight=share.power_weight,
                )
                for container_id, share in estimate.containers.items()
            },
            meters=self._estimator.meters(),
            curve=power_curve_of(self._estimator.machine_model, self._estimator.model.scope),
        )

    def close(self) -> None:
        """Save the model and the energy counters."""
        self._estimator.close()
        self._accounts.save(stopped=True)


def _max_hertz(sys: Path) -> float | None:
    """Maximum clock rate of the first core; None if the kernel does not control it, as in most guests."""
    kilohertz = parse_count(read_file(f"{sys}/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"))
    return kilohertz * 1000.0 if kilohertz else None


def _kernel_boot(proc: Path) -> str:
    """ID of this boot of the kernel; constant if it cannot be read."""
    return (read_file(f"{proc}/sys/kernel/random/boot_id") or b"unknown").decode("ascii").strip()

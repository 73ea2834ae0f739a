"""From a sample to watts: hands the load to `powermodels`, and keeps the joules."""

from collections.abc import Mapping
from dataclasses import dataclass

from agent.sample import Sample
from powermodels.accounts import EnergyAccounts
from powermodels.estimator import Estimator
from powermodels.interface import Load
from wire.messages import ContainerPower, NodePower
from wire.resources import Quantities, Resource, ratio


@dataclass(frozen=True, slots=True)
class PowerSample:
    """Watts and joules of the node and of each container."""

    node: NodePower
    containers: Mapping[str, ContainerPower]


def load_of(used: Quantities, capacity: Quantities) -> Load:
    """Use as a share of what the host has; a CPU that could not be read counts as idle."""
    return Load(
        cpu_ratio=ratio(used, capacity, Resource.CPU) or 0.0,
        memory_ratio=ratio(used, capacity, Resource.MEMORY),
        disk_ratio=ratio(used, capacity, Resource.DISK),
        network_ratio=ratio(used, capacity, Resource.NETWORK),
    )


class PowerMeter:
    """Estimates each sample and integrates it over time."""

    def __init__(self, estimator: Estimator) -> None:
        self._estimator = estimator
        self._accounts = EnergyAccounts()

    def measure(self, sample: Sample, monotonic_seconds: float) -> PowerSample:
        estimate = self._estimator.estimate(
            monotonic_seconds,
            load_of(sample.used, sample.capacity),
            {c.id: load_of(c.used, sample.capacity) for c in sample.containers},
        )
        self._accounts.add(estimate, sample.interval_seconds)
        self._accounts.keep(estimate.containers)
        return PowerSample(
            node=NodePower(
                watts=estimate.watts,
                idle_watts=estimate.idle_watts,
                system_watts=estimate.system_watts,
                source=estimate.source,
                error_ratio=estimate.error_ratio,
                joules_total=self._accounts.node_joules,
            ),
            containers={
                container_id: ContainerPower(
                    watts=share.watts,
                    source=estimate.source,
                    error_ratio=share.error_ratio,
                    joules_total=self._accounts.container_joules(container_id),
                )
                for container_id, share in estimate.containers.items()
            },
        )

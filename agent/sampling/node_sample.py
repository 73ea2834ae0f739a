"""One sample of the node: the input of exposition, bottleneck detection and reporting."""

import msgspec

from agent.sampling.rates import ContainerRates, HostRates
from agent.sources.docker import ContainerInfo
from powermodels.common.interface import MeterState
from wire.messages import MAX_NAME_LENGTH, ContainerPower, Gap, NodePower, PowerCurve

SHORT_ID = 12


def display_name(name: str, container_id: str) -> str:
    """A container's name within the limits of a report; the start of its ID if it has no name."""
    return (name or container_id[:SHORT_ID])[:MAX_NAME_LENGTH]


class ContainerSample(msgspec.Struct, frozen=True, gc=False):
    """One running container."""

    rates: ContainerRates
    info: ContainerInfo
    power: ContainerPower | None = None

    @property
    def id(self) -> str:
        return self.rates.id

    @property
    def started_at(self) -> float | None:
        """Unix time of its start: from the runtime, or else from the kernel."""
        return self.rates.started_at if self.info.started_at is None else self.info.started_at


class NodeSample(msgspec.Struct, frozen=True, gc=False):
    """The node and its containers, over the interval since the previous sample."""

    monotonic_seconds: float
    rates: HostRates
    power: NodePower | None = None
    containers: tuple[ContainerSample, ...] = ()
    gaps: tuple[Gap, ...] = ()
    meters: tuple[MeterState, ...] = ()
    power_curve: PowerCurve | None = None

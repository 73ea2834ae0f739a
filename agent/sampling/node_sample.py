"""Everything that is known of the node at one tick: what is exposed, judged and spoken of."""

from dataclasses import dataclass

from agent.sampling.rates import ContainerRates, HostRates
from agent.sources.docker import ContainerInfo
from powermodels.common.interface import MeterState
from wire.messages import ContainerPower, Gap, NodePower, PowerCurve


@dataclass(frozen=True, slots=True)
class ContainerSample:
    """One running container."""

    rates: ContainerRates
    info: ContainerInfo
    power: ContainerPower | None = None

    @property
    def id(self) -> str:
        return self.rates.id


@dataclass(frozen=True, slots=True)
class NodeSample:
    """The node and its containers, over the interval from the tick before to this one."""

    monotonic_seconds: float
    rates: HostRates
    power: NodePower | None = None
    containers: tuple[ContainerSample, ...] = ()
    gaps: tuple[Gap, ...] = ()
    meters: tuple[MeterState, ...] = ()
    power_curve: PowerCurve | None = None

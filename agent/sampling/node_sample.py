"""Everything that is known of the node at one tick: what is exposed, judged and spoken of."""

from dataclasses import dataclass

from agent.sampling.rates import ContainerSample, Sample
from agent.sources.docker import ContainerInfo
from powermodels.common.interface import MeterState
from wire.messages import ContainerPower, Gap, NodePower, PowerCurve


@dataclass(frozen=True, slots=True)
class ContainerPicture:
    """One running container."""

    sample: ContainerSample
    info: ContainerInfo
    power: ContainerPower | None = None

    @property
    def id(self) -> str:
        return self.sample.id


@dataclass(frozen=True, slots=True)
class Picture:
    """The node and its containers, over the interval from the tick before to this one."""

    monotonic_seconds: float
    sample: Sample
    power: NodePower | None = None
    containers: tuple[ContainerPicture, ...] = ()
    gaps: tuple[Gap, ...] = ()
    meters: tuple[MeterState, ...] = ()
    power_curve: PowerCurve | None = None

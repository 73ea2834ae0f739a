"""From a sample to the words of the wire: no clock, no I/O."""

from collections.abc import Callable

from agent.docker import ContainerInfo
from agent.power import PowerSample
from agent.sample import ContainerSample, Sample
from wire.messages import LONGEST_NAME, LONGEST_TEXT, ContainerState, Gap, NodeState, Report
from wire.version import __version__

_SHORT_ID = 12


class Reporter:
    """Speaks for one node during one run of its agent, and counts what it says."""

    def __init__(self, node: str, boot: str, info: Callable[[str], ContainerInfo | None]) -> None:
        self._node = node
        self._boot = boot
        self._info = info
        self._sequence = 0

    def report(self, sample: Sample, power: PowerSample, gaps: tuple[Gap, ...]) -> Report:
        """Everything known of the node and its containers at the time of `sample`."""
        self._sequence += 1
        return Report(
            node=self._node,
            boot=self._boot,
            sequence=self._sequence,
            at=sample.unix_seconds,
            interval_seconds=sample.interval_seconds,
            agent_version=__version__,
            state=NodeState(
                used=sample.used,
                capacity=sample.capacity,
                pressure=sample.pressure,
                power=power.node,
                gaps=gaps,
            ),
            containers=tuple(self._container(container, power) for container in sample.containers),
        )

    def _container(self, container: ContainerSample, power: PowerSample) -> ContainerState:
        known = self._info(container.id) or ContainerInfo(container.id[:_SHORT_ID])
        return ContainerState(
            id=container.id,
            name=known.name[:LONGEST_NAME],
            runtime=container.runtime,
            cpu_seconds_total=container.cpu_seconds_total,
            used=container.used,
            limit=container.limit,
            pressure=container.pressure,
            power=power.containers.get(container.id),
            image=known.image and known.image[:LONGEST_TEXT],
            service=known.service and known.service[:LONGEST_TEXT],
            started_at=known.started_at,
        )

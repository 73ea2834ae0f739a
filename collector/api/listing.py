"""How what is known is listed: the words of `answers`, from those of the agents."""

from collections.abc import Mapping
from typing import Literal

from collector.analysis.bottlenecks import BottleneckKind, id_of
from collector.analysis.envelopes import Statistic
from collector.analysis.usage import UsageRing, quantities
from collector.api.answers import AlertState, Container, Node, NodeAlert, NodePlacement, Ratios, State
from collector.live.changes import HostRecord
from collector.reports.alerts import ReportedAlert
from collector.reports.run import AgentRun, Reported
from collector.snapshot.tables import Generation, Region
from wire.messages import ContainerState, NodeState
from wire.resources import RESOURCES, Quantities, ratio

_NOTHING_SAID = NodeState(used=Quantities(), capacity=Quantities())


_REGIONS: Mapping[Region, Literal["LEE", "DEE", "EED"]] = {
    Region.LEE: "LEE",
    Region.DEE: "DEE",
    Region.EED: "EED",
}
_GENERATIONS: Mapping[Generation, Literal["any", "nursery", "young", "old"]] = {
    Generation.ANY: "any",
    Generation.NURSERY: "nursery",
    Generation.YOUNG: "young",
    Generation.OLD: "old",
}


def listed_placement(record: HostRecord) -> NodePlacement:
    """What decisions go by."""
    return NodePlacement(
        region=_REGIONS[record.region],
        task_class=record.task_class,
        allocated=record.allocated,
        overbooking_ratio=record.overbooking,
        generation=_GENERATIONS[record.generation],
        accepts=record.accepts,
        on=record.on,
        failures=record.failures,
        labels=dict(record.labels),
    )


def listed_node(
    name: str, picture: AgentRun, record: HostRecord, node_state: State, seen_seconds_ago: float
) -> Node:
    """A node as one run of its agent describes it, and as decisions see it."""
    state = _NOTHING_SAID if picture.state is None else picture.state.what
    heartbeat = None if picture.heartbeat is None else picture.heartbeat.what
    return Node(
        name=name,
        state=node_state,
        boot=picture.boot,
        complete=picture.is_complete,
        sampled_at=None if picture.state is None else picture.state.at,
        window_seconds=None if picture.state is None else state.window_seconds,
        last_seen_seconds_ago=seen_seconds_ago,
        agent_version=None if heartbeat is None else heartbeat.agent_version,
        sample_seconds=None if heartbeat is None else heartbeat.sample_seconds,
        beacon_seconds=None if heartbeat is None else heartbeat.beacon_seconds,
        used=state.used,
        capacity=state.capacity,
        learned_capacities=state.learned_capacities,
        used_ratio=Ratios(*(ratio(state.used, state.capacity, resource) for resource in RESOURCES)),
        pressure=state.pressure,
        power=state.power,
        load_1m=state.load_1m,
        frequency_hertz=state.frequency_hertz,
        iowait_ratio=state.iowait_ratio,
        steal_ratio=state.steal_ratio,
        swap_used_bytes=state.swap_used_bytes,
        disk_busy_ratio=state.disk_busy_ratio,
        oom_kills_total=state.oom_kills_total,
        gaps=state.gaps,
        top={} if heartbeat is None else heartbeat.top,
        containers=len(picture.containers),
        placement=listed_placement(record),
        mean=None,
    )


def listed_container(
    said: Reported[ContainerState], node: str, node_state: State, ring: UsageRing
) -> Container:
    """A container, and what its histograms tell."""
    container = said.what
    return Container(
        node=node,
        node_state=node_state,
        id=container.id,
        name=container.name,
        runtime=container.runtime,
        image=container.image,
        service=container.service,
        labels=container.labels,
        cpu_seconds_total=container.cpu_seconds_total,
        cpu_throttled_seconds_total=container.cpu_throttled_seconds_total,
        oom_kills_total=container.oom_kills_total,
        restarts=container.restarts,
        used=container.used,
        limit=container.limit,
        pressure=container.pressure,
        power=container.power,
        started_at=container.started_at,
        sampled_at=said.at,
        window_seconds=container.window_seconds,
        p90=ring.p90,
        p90_samples=ring.samples,
        envelope=quantities(ring.statistics[:, Statistic.ENVELOPE]),
        group=None,
        mean=None,
    )


def listed_alert(said: ReportedAlert, state: AlertState, node_state: State) -> NodeAlert:
    """A bottleneck that a node told of."""
    alert = said.alert
    return NodeAlert(
        id=id_of(BottleneckKind.NODE, said.node, alert.resource, alert.opened_at, said.boot),
        node=said.node,
        node_state=node_state,
        state=state,
        resource=alert.resource,
        opened_at=alert.opened_at,
        closed_at=alert.closed_at,
        evidence=alert.evidence,
        ratio=alert.ratio,
        pressure_ratio=alert.pressure_ratio,
        container=alert.container,
        name=alert.name,
    )


def listed_ratios(four: tuple[float, float, float, float]) -> Ratios:
    """A share of each resource; NaN is not known."""
    return Ratios(*(None if each != each else each for each in four))  # noqa: PLR0124 - NaN

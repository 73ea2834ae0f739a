"""Totals of the cluster, and the health of the collector."""

from collections import Counter

import msgspec

from collector.analysis.bottlenecks import BottleneckKind
from collector.api.alerts import cluster_alerts
from collector.common.liveness import Liveness, LivenessLabel
from collector.core.parts import Core
from collector.reports.alerts import AlertState
from collector.web.routes import NO_HISTORY, Route, get
from collector.web.scopes import Scope
from wire.messages import MachineScope
from wire.resources import RESOURCES, Resource, ratio
from wire.version import __version__


class Health(msgspec.Struct, frozen=True, omit_defaults=True):
    """Health of the collector."""

    status: str
    """`alive` or `ready`."""
    version: str
    """Version of the collector."""
    problems: tuple[str, ...] = ()
    """Dependencies that are down, such as a time series store. The collector works without them."""


class NodeCount(msgspec.Struct, frozen=True, kw_only=True):
    """Number of nodes in each state."""

    up: int
    """Nodes whose reports arrive on time."""
    suspect: int
    """Nodes that missed a few reports."""
    down: int
    """Nodes that have not reported for longer."""


class ClusterPower(msgspec.Struct, frozen=True, kw_only=True):
    """Total power of the nodes that are not down and report power."""

    watts: float
    error_watts: float
    """Expected error of `watts`, if all nodes are wrong in the same direction."""
    idle_watts: float
    system_watts: float
    scope: MachineScope = "machine"
    """What the watts cover: whole machines at the wall, whatever the meters of the nodes cover."""
    nodes: int
    """Number of nodes in the total."""


class OpenAlerts(msgspec.Struct, frozen=True, kw_only=True):
    """Number of open alerts by kind."""

    node: int
    """Bottlenecks that nodes report."""
    quiet: int
    """Nodes that stopped reporting while containers ran there."""
    service: int
    """Services that are overloaded on all their nodes."""
    overbooked: int
    """Nodes whose containers reserve more than their SLA class allows."""
    limit: int
    """Nodes that report more than their limits allow."""
    duplicate: int
    """Names of nodes under which two machines report."""
    promise: int
    """Services whose promise of availability is broken or at risk, or whose class is unknown."""


class ClusterSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of the cluster."""

    at: float
    version: str
    """Version of the collector."""
    nodes: NodeCount
    """Number of nodes in each state."""
    incomplete_nodes: int
    """Number of nodes with a missing report; the next heartbeat completes them."""
    containers: int
    """Number of containers, including those on nodes that are down."""
    services: int
    """Number of analyzed services with running containers."""
    power: ClusterPower | None
    """Total power; null while no node reports power."""
    cpu_cores: float
    """CPU cores of the nodes that are not down."""
    cpu_cores_used: float
    """CPU cores in use on these nodes."""
    memory_bytes: int
    """Memory of the nodes that are not down, in bytes."""
    memory_bytes_used: int
    """Memory in use on these nodes, in bytes."""
    open_alerts: OpenAlerts
    """Number of open alerts by kind."""
    analyzed_at: float
    """Unix time of the last analysis; 0 before the first one."""
    problems: tuple[str, ...]
    """Dependencies of the collector that are down, such as a time series store."""


async def cluster(core: Core) -> ClusterSummary:
    """Get totals of the cluster: nodes, containers, power, capacity, alerts."""
    return summarize(core)


def summarize(core: Core) -> ClusterSummary:
    """Add up all nodes."""
    now, latest = core.clock(), core.analysis.latest
    nodes = list(core.registry.nodes(now))
    runs = [each.run for each in nodes if each.liveness is not Liveness.DOWN]
    states = [run.state.value for run in runs if run.state is not None]
    powers = [state.power for state in states if state.power is not None]
    counts = Counter(each.liveness for each in nodes)
    alerts = Counter(each.kind for each in cluster_alerts(core, AlertState.OPEN))
    return ClusterSummary(
        at=now,
        version=__version__,
        nodes=NodeCount(up=counts[Liveness.UP], suspect=counts[Liveness.SUSPECT], down=counts[Liveness.DOWN]),
        incomplete_nodes=sum(not run.is_complete for run in runs),
        containers=sum(len(each.run.containers) for each in nodes),
        services=sum(each.containers > 0 for each in latest.services.values()),
        power=ClusterPower(
            watts=sum(power.watts for power in powers),
            error_watts=sum(power.watts * power.error_ratio for power in powers),
            idle_watts=sum(power.idle_watts for power in powers),
            system_watts=sum(power.system_watts for power in powers),
            nodes=len(powers),
        )
        if powers
        else None,
        cpu_cores=sum(state.capacity.cpu_cores or 0.0 for state in states),
        cpu_cores_used=sum(state.used.cpu_cores or 0.0 for state in states),
        memory_bytes=sum(state.capacity.memory_bytes or 0 for state in states),
        memory_bytes_used=sum(state.used.memory_bytes or 0 for state in states),
        open_alerts=OpenAlerts(
            node=alerts[BottleneckKind.NODE],
            quiet=alerts[BottleneckKind.QUIET],
            service=alerts[BottleneckKind.SERVICE],
            overbooked=alerts[BottleneckKind.OVERBOOKED],
            limit=alerts[BottleneckKind.LIMIT],
            duplicate=alerts[BottleneckKind.DUPLICATE],
            promise=alerts[BottleneckKind.PROMISE],
        ),
        analyzed_at=latest.at,
        problems=tuple(core.outages.problems),
    )


class ClusterMap(msgspec.Struct, frozen=True, kw_only=True):
    """State, power and usage of every node, in columns: small enough to draw thousands of nodes."""

    at: float
    names: list[str]
    """Names of all nodes, sorted; the other lists are in the same order."""
    states: list[LivenessLabel]
    """State of each node."""
    watts: list[float | None]
    """Power of each node, in watts; null if it reports none."""
    used_ratios: dict[Resource, list[float | None]]
    """Usage of each node as a share of its capacity, 0-1, by resource; null if unknown."""


async def cluster_map(core: Core) -> ClusterMap:
    """Get state, power and usage of all nodes, in columns."""
    now = core.clock()
    entries = list(core.registry.nodes(now))
    states = [None if each.run.state is None else each.run.state.value for each in entries]
    return ClusterMap(
        at=now,
        names=[each.name for each in entries],
        states=[each.liveness.label for each in entries],
        watts=[None if state is None or state.power is None else state.power.watts for state in states],
        used_ratios={
            resource: [
                None if state is None else ratio(state.used, state.capacity, resource) for state in states
            ]
            for resource in RESOURCES
        },
    )


async def alive(_core: Core) -> Health:
    """Check that the collector runs."""
    return Health("alive", __version__)


async def ready(core: Core) -> Health:
    """Check that the collector can store reports."""
    await core.history.check()
    return Health("ready", __version__, core.outages.problems)


ROUTES: tuple[Route, ...] = (
    get("/v1/cluster", cluster),
    get("/v1/cluster/map", cluster_map),
    get("/healthz", alive, scope=Scope.OPEN),
    get("/readyz", ready, problems=NO_HISTORY, scope=Scope.OPEN),
)

"""Totals of the cluster, and the health of the collector."""

from collections import Counter

import msgspec

from collector.analysis.bottlenecks import BottleneckKind
from collector.common.liveness import Liveness, LivenessLabel
from collector.common.reported_alerts import AlertState
from collector.history.interface import ClusterPoint
from collector.runtime.parts import Core
from collector.serve.api.alerts import cluster_alerts
from collector.serve.web.routes import NO_HISTORY, Route, get
from collector.serve.web.scopes import Scope
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


class ClusterSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of the cluster."""

    at: float
    version: str
    """Version of the collector."""
    nodes: dict[LivenessLabel, int]
    """Number of nodes in each state."""
    incomplete_nodes: int
    """Number of nodes with a missing report; the next heartbeat completes them."""
    containers: int
    """Number of containers, including those on nodes that are down."""
    services: int
    """Number of analyzed services with running containers."""
    power: ClusterPoint | None
    """Power of the nodes that are not down; null while none reports it."""
    cpu_cores: float
    """CPU cores of the nodes that are not down."""
    cpu_cores_used: float
    """CPU cores in use on these nodes."""
    memory_bytes: int
    """Memory of the nodes that are not down, in bytes."""
    memory_bytes_used: int
    """Memory in use on these nodes, in bytes."""
    open_alerts: dict[BottleneckKind, int]
    """Number of open alerts by kind, as in `/v1/alerts`."""
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
    watts, idle_watts, system_watts = (
        sum(getattr(power, name) for power in powers) for name in ("watts", "idle_watts", "system_watts")
    )
    return ClusterSummary(
        at=now,
        version=__version__,
        nodes={each.label: counts[each] for each in Liveness},
        incomplete_nodes=sum(not run.is_complete for run in runs),
        containers=sum(len(each.run.containers) for each in nodes),
        services=sum(each.containers > 0 for each in latest.services.values()),
        power=ClusterPoint(
            at=now,
            watts=watts,
            idle_watts=idle_watts,
            system_watts=system_watts,
            containers_watts=max(0.0, watts - idle_watts - system_watts),
            error_watts=sum(power.watts * power.error_ratio for power in powers),
            nodes=len(powers),
        )
        if powers
        else None,
        cpu_cores=sum(state.capacity.cpu_cores or 0.0 for state in states),
        cpu_cores_used=sum(state.used.cpu_cores or 0.0 for state in states),
        memory_bytes=sum(state.capacity.memory_bytes or 0 for state in states),
        memory_bytes_used=sum(state.used.memory_bytes or 0 for state in states),
        open_alerts=open_alerts(core),
        analyzed_at=latest.at,
        problems=tuple(core.outages.problems),
    )


def open_alerts(core: Core) -> dict[BottleneckKind, int]:
    """Number of open alerts of each kind."""
    counts = Counter(each.kind for each in cluster_alerts(core, AlertState.OPEN))
    return {kind: counts[kind] for kind in BottleneckKind}


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
    core.require_state()
    await core.history.check()
    return Health("ready", __version__, core.outages.problems)


ROUTES: tuple[Route, ...] = (
    get("/v1/cluster", cluster),
    get("/v1/cluster/map", cluster_map),
    get("/healthz", alive, scope=Scope.OPEN),
    get("/readyz", ready, problems=NO_HISTORY, scope=Scope.OPEN),
)

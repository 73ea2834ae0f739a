"""Totals of the cluster, and the health of the collector."""

from collections import Counter

import msgspec
import numpy as np

from collector.analysis.bottlenecks import BottleneckKind
from collector.common.arrays import Floats, known
from collector.common.liveness import LIVENESS_LABELS, Liveness, LivenessLabel
from collector.common.reported_alerts import AlertState
from collector.history.interface import ClusterPoint
from collector.runtime.parts import Core
from collector.serve.api.alerts import cluster_alerts
from collector.serve.web.routes import NO_HISTORY, Route, get
from collector.serve.web.scopes import Scope
from collector.snapshot.tables import share
from wire.resources import RESOURCES, Resource
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
    nodes = core.registry.tables.list_nodes(now)
    columns, is_there = nodes.columns, nodes.liveness != Liveness.DOWN

    def total(column: Floats) -> float:
        """The sum over the nodes that are not down and report it."""
        return float(sum(column[is_there & ~np.isnan(column)].tolist()))

    counts = np.bincount(nodes.liveness, minlength=len(Liveness)).tolist()
    watts, idle_watts, system_watts = (
        total(each) for each in (columns.reported_watts, columns.idle_watts, columns.system_watts)
    )
    measured = int(np.count_nonzero(is_there & ~np.isnan(columns.reported_watts)))
    cpu, memory = RESOURCES.index(Resource.CPU), RESOURCES.index(Resource.MEMORY)
    return ClusterSummary(
        at=now,
        version=__version__,
        nodes={each.label: counts[each] for each in Liveness},
        incomplete_nodes=int(np.count_nonzero(is_there & ~columns.complete)),
        containers=int(columns.containers.sum()),
        services=sum(each.containers > 0 for each in latest.services.values()),
        power=ClusterPoint(
            at=now,
            watts=watts,
            idle_watts=idle_watts,
            system_watts=system_watts,
            containers_watts=max(0.0, watts - idle_watts - system_watts),
            error_watts=total(columns.reported_watts * columns.error_ratio),
            nodes=measured,
        )
        if measured
        else None,
        cpu_cores=total(columns.capacity[:, cpu]),
        cpu_cores_used=total(columns.used[:, cpu]),
        memory_bytes=int(total(columns.capacity[:, memory])),
        memory_bytes_used=int(total(columns.used[:, memory])),
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
    nodes = core.registry.tables.list_nodes(now)
    ratios = share(nodes.columns.used, nodes.columns.capacity)
    return ClusterMap(
        at=now,
        names=list(nodes.names),
        states=[LIVENESS_LABELS[each] for each in nodes.liveness.tolist()],
        watts=known(nodes.columns.reported_watts),
        used_ratios={resource: known(ratios[:, place]) for place, resource in enumerate(RESOURCES)},
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

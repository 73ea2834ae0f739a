"""The whole cluster in one answer, and how the collector itself is."""

from collections import Counter

import msgspec

from collector.analysis.bottlenecks import BottleneckKind
from collector.api.alerts import cluster_alerts
from collector.common.liveness import Liveness
from collector.core.parts import Core
from collector.reports.alerts import AlertState
from collector.web.routes import NO_HISTORY, NoQuery, Route, get
from collector.web.scopes import Scope
from wire.version import __version__


class Health(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the collector is."""

    status: str
    version: str
    problems: tuple[str, ...] = ()
    """What it does without for now, though it can go on: a store or a Prometheus that does not answer."""


class NodeCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many nodes there are in each state."""

    up: int
    suspect: int
    down: int


class ClusterPower(msgspec.Struct, frozen=True, kw_only=True):
    """What the nodes draw together that are not down and tell it."""

    watts: float
    error_watts: float
    """How far off that may be, if all are off the same way."""
    idle_watts: float
    system_watts: float
    nodes: int
    """How many tell it."""


class OpenAlerts(msgspec.Struct, frozen=True, kw_only=True):
    """How many alerts are open, by their kind."""

    node: int
    quiet: int
    service: int
    overbooked: int


class ClusterSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster, added up."""

    at: float
    version: str
    nodes: NodeCount
    incomplete_nodes: int
    """Those of which a report is missing until their next heartbeat."""
    containers: int
    """Those of nodes that are down included."""
    services: int
    """Those that are understood and run now."""
    power: ClusterPower | None
    """Null while nobody tells."""
    cpu_cores: float
    """What the nodes have that are not down; and what of it is used."""
    cpu_cores_used: float
    memory_bytes: int
    memory_bytes_used: int
    open_alerts: OpenAlerts
    understood_at: float
    """When the cluster was last thought through; 0 if it has not been yet."""
    problems: tuple[str, ...]
    """What the collector does without for now, such as a store that does not answer."""


async def cluster(core: Core, _query: NoQuery) -> ClusterSummary:
    """All nodes, added up."""
    return added_up(core)


def added_up(core: Core) -> ClusterSummary:
    """The cluster as it is now."""
    now, latest = core.clock(), core.analysis.latest
    known = list(core.registry.nodes(now))
    heard = [each.run for each in known if each.liveness is not Liveness.DOWN]
    states = [picture.state.value for picture in heard if picture.state is not None]
    powers = [state.power for state in states if state.power is not None]
    counted = Counter(each.liveness for each in known)
    alerts = Counter(each.kind for each in cluster_alerts(core, AlertState.OPEN))
    return ClusterSummary(
        at=now,
        version=__version__,
        nodes=NodeCount(
            up=counted[Liveness.UP], suspect=counted[Liveness.SUSPECT], down=counted[Liveness.DOWN]
        ),
        incomplete_nodes=sum(not picture.is_complete for picture in heard),
        containers=sum(len(each.run.containers) for each in known),
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
        ),
        understood_at=latest.at,
        problems=tuple(core.outages.listed),
    )


async def alive(_core: Core, _query: NoQuery) -> Health:
    """That the event loop turns."""
    return Health("alive", __version__)


async def ready(core: Core, _query: NoQuery) -> Health:
    """That a report could be kept now."""
    await core.history.check()
    return Health("ready", __version__, core.outages.listed)


ROUTES: tuple[Route, ...] = (
    get("/v1/cluster", "The whole cluster, added up.", ClusterSummary, cluster, query=NoQuery),
    get("/healthz", "Whether the collector runs.", Health, alive, query=NoQuery, scope=Scope.OPEN),
    get(
        "/readyz",
        "Whether reports can be kept now.",
        Health,
        ready,
        query=NoQuery,
        refusals=NO_HISTORY,
        scope=Scope.OPEN,
    ),
)

"""Alerts: one list of those that nodes report and those that the collector detects."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from collector.analysis.bottlenecks import Bottleneck, BottleneckKind, bottleneck_id
from collector.common.liveness import Liveness, LivenessLabel
from collector.common.reported_alerts import AlertState
from collector.observe.entries import AlertEntry
from collector.runtime.parts import Core
from collector.serve.api.queries import PageQuery, Pager
from collector.serve.web.routes import Route, get
from wire.resources import Resource

_SERVICE_KINDS = (BottleneckKind.SERVICE, BottleneckKind.PROMISE)


class ClusterAlert(msgspec.Struct, frozen=True, kw_only=True):
    """An alert, open or closed."""

    id: str
    """Id of the alert, the same from opening to closing."""
    kind: BottleneckKind
    """`node`: a node reports a bottleneck; `quiet`: a node stopped reporting while containers ran there;
    `service`: a service is overloaded on all its nodes; `overbooked`: a node's containers reserve more than
    their SLA class allows; `limit`: a node reports more than its limits allow, and the surplus is refused;
    `duplicate`: two machines report under the same name; `promise`: the promise of availability of a
    service is broken or will break soon, or its label names no class."""
    subject: str
    """Name of the node or service."""
    node: str | None
    """Name of the node; null for an alert about a service."""
    node_state: LivenessLabel | None
    """State of the node; null for an alert about a service, or if the node is no longer listed."""
    state: AlertState
    """Whether the alert is open."""
    resource: Resource | None
    """The short resource; null for alerts that are not about one resource."""
    opened_at: float
    closed_at: float | None
    """Unix time of its end; null while the alert is open, or if the report that closed it was lost."""
    evidence: str
    ratio: float | None
    pressure_ratio: float | None
    container: str | None
    """Id of the container that uses most of the resource; null if the node reports none."""
    name: str | None
    """Name of that container."""


class AlertPage(msgspec.Struct, frozen=True):
    """A page of alerts: open ones first, then the most recently opened."""

    alerts: list[ClusterAlert]
    """The alerts of this page."""
    next: str | None
    """Cursor of the next page; null on the last page."""


class AlertsQuery(PageQuery, frozen=True, kw_only=True):
    """Filters for alerts."""

    state: Literal["open", "closed", "all"] = "all"
    """Only alerts in this state."""
    kind: Annotated[BottleneckKind | None, Meta(description="Only alerts of this kind.")] = None
    resource: Annotated[Resource | None, Meta(description="Only alerts about this resource.")] = None
    node: Annotated[str | None, Meta(description="Only alerts of the node with this name.")] = None
    subject: str | None = None
    """Only alerts about the node or service with this name."""
    order: Literal["latest", "severity"] = "latest"
    """`latest`: the most recently opened first. `severity`: by kind, in the order `quiet`, `promise`, `node`,
    `service`, `duplicate`, `overbooked`, `limit`."""

    def matches(self, alert: ClusterAlert) -> bool:
        return (
            self.state in ("all", alert.state)
            and self.kind in (None, alert.kind)
            and self.resource in (None, alert.resource)
            and self.node in (None, alert.node)
            and self.subject in (None, alert.subject)
        )


def _sort_key(alert: ClusterAlert) -> tuple[bool, float, str]:
    return alert.state is AlertState.CLOSED, -alert.opened_at, alert.id


_latest_first: Pager[ClusterAlert, tuple[bool, float, str]] = Pager(_sort_key, tuple[bool, float, str])


_KINDS_BY_SEVERITY = (
    BottleneckKind.QUIET,
    BottleneckKind.PROMISE,
    BottleneckKind.NODE,
    BottleneckKind.SERVICE,
    BottleneckKind.DUPLICATE,
    BottleneckKind.OVERBOOKED,
    BottleneckKind.OUTLIER,
    BottleneckKind.LIMIT,
)
"""Kinds of alerts, the most severe first: no service, then shortages, then irregular reports."""
_SeverityKey = tuple[bool, int, float, str]


def _severity_key(alert: ClusterAlert) -> _SeverityKey:
    is_closed, opened, name = _sort_key(alert)
    return is_closed, _KINDS_BY_SEVERITY.index(alert.kind), opened, name


_by_severity: Pager[ClusterAlert, _SeverityKey] = Pager(_severity_key, _SeverityKey)


async def alerts(core: Core, query: AlertsQuery) -> AlertPage:
    """List open and recently closed alerts: those of nodes, and problems that the collector detects."""
    state = None if query.state == "all" else AlertState(query.state)
    matching = filter(query.matches, cluster_alerts(core, state))
    if query.order == "severity":
        return AlertPage(*_by_severity.page(sorted(matching, key=_severity_key), query))
    return AlertPage(*_latest_first.page(matching, query))


def cluster_alerts(core: Core, state: AlertState | None = None) -> list[ClusterAlert]:
    """Alerts in one state, or all of them: open ones first, then the most recently opened."""
    now = core.clock()
    found = [describe_node_alert(each) for each in core.registry.alerts(now, state=state)]
    states: dict[str, Liveness] = {}
    if core.analysis.bottlenecks:
        nodes = core.registry.tables.list_nodes(now)
        states = dict(zip(nodes.names, map(Liveness, nodes.liveness.tolist()), strict=True))
    found += [_describe_bottleneck(each, states) for each in core.analysis.bottlenecks]
    return sorted((each for each in found if state in (None, each.state)), key=_sort_key)


def describe_node_alert(entry: AlertEntry) -> ClusterAlert:
    """Convert an alert of a node for the API."""
    reported, alert = entry.reported, entry.reported.alert
    return ClusterAlert(
        id=bottleneck_id(BottleneckKind.NODE, reported.node, alert.resource, alert.opened_at, reported.boot),
        kind=BottleneckKind.NODE,
        subject=reported.node,
        node=reported.node,
        node_state=entry.liveness.label,
        state=entry.state,
        resource=alert.resource,
        opened_at=alert.opened_at,
        closed_at=alert.closed_at,
        evidence=alert.evidence,
        ratio=alert.ratio,
        pressure_ratio=alert.pressure_ratio,
        container=alert.container,
        name=alert.name,
    )


def _describe_bottleneck(bottleneck: Bottleneck, states: dict[str, Liveness]) -> ClusterAlert:
    finding = bottleneck.finding
    node = None if finding.kind in _SERVICE_KINDS else finding.subject
    return ClusterAlert(
        id=bottleneck.id,
        kind=finding.kind,
        subject=finding.subject,
        node=node,
        node_state=states[node].label if node in states else None,
        state=AlertState.OPEN if bottleneck.is_open else AlertState.CLOSED,
        resource=finding.resource,
        opened_at=bottleneck.opened_at,
        closed_at=bottleneck.closed_at,
        evidence=finding.evidence,
        ratio=finding.ratio,
        pressure_ratio=None,
        container=None,
        name=None,
    )


ROUTES: tuple[Route, ...] = (get("/v1/alerts", alerts),)

"""Alerts: those that nodes report and those that only the collector detects, in one list."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from collector.analysis.bottlenecks import Bottleneck, BottleneckKind, bottleneck_id
from collector.api.queries import PageQuery, Pager
from collector.common.liveness import Liveness, LivenessLabel
from collector.core.parts import Core
from collector.live.entries import AlertEntry
from collector.reports.alerts import AlertState
from collector.web.routes import Route, get
from wire.resources import Resource

_ABOUT_SERVICES = (BottleneckKind.SERVICE, BottleneckKind.PROMISE)


class ClusterAlert(msgspec.Struct, frozen=True, kw_only=True):
    """An alert, open or closed."""

    id: str
    """Stable from opening to closing."""
    kind: BottleneckKind
    """`node`: a node reports a bottleneck; `quiet`: a node stopped reporting while containers ran there;
    `service`: a service is overloaded on all its nodes; `overbooked`: a node's containers reserve more than
    their SLA class allows; `limit`: a node reports more than its limits allow, and the surplus is refused;
    `duplicate`: two machines report under the same name; `promise`: the promise of availability of a
    service is broken or will break soon, or its label names no class."""
    subject: str
    """Name of the node or service."""
    node: str | None
    """Null for an alert about a service."""
    node_state: LivenessLabel | None
    """Null for an alert about a service, or if the node is no longer listed."""
    state: AlertState
    resource: Resource | None
    """Null for a node that stopped reporting, or a promise."""
    opened_at: float
    closed_at: float | None
    """Null while the alert is open, or if the report that closed it was lost."""
    evidence: str
    ratio: float | None
    pressure_ratio: float | None
    container: str | None
    """Id of the container that uses most of the resource, if the node reports one."""
    name: str | None
    """Name of that container."""


class AlertPage(msgspec.Struct, frozen=True):
    """A page of alerts: open ones first, then the most recently opened."""

    alerts: list[ClusterAlert]
    next: str | None
    """Cursor of the next page; null on the last page."""


class AlertsQuery(PageQuery, frozen=True, kw_only=True):
    """Filters for alerts."""

    state: Annotated[
        Literal["open", "closed", "all"],
        Meta(description="Only alerts in this state."),
    ] = "all"
    kind: Annotated[BottleneckKind | None, Meta(description="Only alerts of this kind.")] = None
    resource: Annotated[Resource | None, Meta(description="Only alerts about this resource.")] = None
    node: Annotated[str | None, Meta(description="Only alerts of the node with this name.")] = None
    subject: Annotated[
        str | None, Meta(description="Only alerts about the node or service with this name.")
    ] = None
    order: Annotated[
        Literal["latest", "gravest"],
        Meta(
            description="The most recently opened first; or by kind, the gravest first: nodes that stopped"
            " reporting, then promises, bottlenecks of nodes, services, and what is only irregular."
        ),
    ] = "latest"

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


_GRAVITY = (
    BottleneckKind.QUIET,
    BottleneckKind.PROMISE,
    BottleneckKind.NODE,
    BottleneckKind.SERVICE,
    BottleneckKind.DUPLICATE,
    BottleneckKind.OVERBOOKED,
    BottleneckKind.LIMIT,
)
"""Kinds of alerts, the gravest first: what stands still, what runs short, what is irregular."""
_GravityKey = tuple[bool, int, float, str]


def _gravity(alert: ClusterAlert) -> _GravityKey:
    is_closed, opened, name = _sort_key(alert)
    return is_closed, _GRAVITY.index(alert.kind), opened, name


_gravest_first: Pager[ClusterAlert, _GravityKey] = Pager(_gravity, _GravityKey)


async def alerts(core: Core, query: AlertsQuery) -> AlertPage:
    """List alerts."""
    state = None if query.state == "all" else AlertState(query.state)
    matching = filter(query.matches, cluster_alerts(core, state))
    if query.order == "gravest":
        return AlertPage(*_gravest_first.page(sorted(matching, key=_gravity), query))
    return AlertPage(*_latest_first.page(matching, query))


def cluster_alerts(core: Core, state: AlertState | None = None) -> list[ClusterAlert]:
    """Alerts in one state, or all of them: open ones first, then the most recently opened."""
    now = core.clock()
    found = [node_alert_answer(each) for each in core.registry.alerts(now, state=state)]
    states: dict[str, Liveness] = {}
    if core.analysis.bottlenecks:
        states = {each.name: each.liveness for each in core.registry.nodes(now)}
    found += [_collector_alert(each, states) for each in core.analysis.bottlenecks]
    return sorted((each for each in found if state in (None, each.state)), key=_sort_key)


def node_alert_answer(entry: AlertEntry) -> ClusterAlert:
    """An alert that a node reported."""
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


def _collector_alert(bottleneck: Bottleneck, states: dict[str, Liveness]) -> ClusterAlert:
    node = None if bottleneck.kind in _ABOUT_SERVICES else bottleneck.subject
    return ClusterAlert(
        id=bottleneck.id,
        kind=bottleneck.kind,
        subject=bottleneck.subject,
        node=node,
        node_state=states[node].label if node in states else None,
        state=AlertState.OPEN if bottleneck.is_open else AlertState.CLOSED,
        resource=bottleneck.resource,
        opened_at=bottleneck.opened_at,
        closed_at=bottleneck.closed_at,
        evidence=bottleneck.evidence,
        ratio=bottleneck.ratio,
        pressure_ratio=None,
        container=None,
        name=None,
    )


ROUTES: tuple[Route, ...] = (
    get(
        "/v1/alerts",
        "List alerts: bottlenecks that nodes report, and those that only the collector detects; open, or"
        " recently closed.",
        AlertPage,
        alerts,
        query=AlertsQuery,
    ),
)

"""Alerts: what nodes found in themselves, and what only the collector sees, in one list."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from collector.analysis.bottlenecks import Bottleneck, BottleneckKind, id_of
from collector.api.queries import Paged, Pager
from collector.common.liveness import Liveness, LivenessLabel
from collector.core.parts import Core
from collector.live.registry import AlertEntry
from collector.reports.alerts import AlertState
from collector.web.routes import Route, get
from wire.resources import Resource


class ClusterAlert(msgspec.Struct, frozen=True, kw_only=True):
    """Trouble, from its beginning to its end."""

    id: str
    """The same for as long as it is told of."""
    kind: BottleneckKind
    """`node`: a node found a bottleneck in itself; `quiet`: a node is not heard of any more, and containers
    ran there; `service`: a service is hot wherever it runs; `overbooked`: more was promised on a node than
    the class of its containers allows."""
    subject: str
    """The name of the node, or of the service."""
    node: str | None
    """Null where it is about a service."""
    node_state: LivenessLabel | None
    """Null where it is about a service, or the node is no longer listed."""
    state: AlertState
    resource: Resource | None
    """Null where a node is quiet."""
    opened_at: float
    closed_at: float | None
    """Null while it is open, and where the word of its end was lost."""
    evidence: str
    ratio: float | None
    pressure_ratio: float | None
    container: str | None
    """Id of the container that uses most of the resource, where a node said so."""
    name: str | None


class ClusterAlerts(msgspec.Struct, frozen=True):
    """A page of alerts: the open ones first, then by when they opened, the latest first."""

    alerts: list[ClusterAlert]
    next: str | None
    """The cursor to the rest; null at the end."""


class AlertsQuery(Paged, frozen=True, kw_only=True):
    """Which alerts are asked for."""

    state: Annotated[
        Literal["open", "closed", "all"],
        Meta(description="Only those that last, or only those that are over."),
    ] = "all"
    kind: Annotated[BottleneckKind | None, Meta(description="Only of this sort.")] = None
    resource: Annotated[Resource | None, Meta(description="Only those that are about this resource.")] = None
    node: Annotated[str | None, Meta(description="Only those of the node of this name.")] = None

    def takes(self, alert: ClusterAlert) -> bool:
        """Whether it is among those asked for."""
        return (
            self.state in ("all", alert.state)
            and self.kind in (None, alert.kind)
            and self.resource in (None, alert.resource)
            and self.node in (None, alert.node)
        )


def _place(alert: ClusterAlert) -> tuple[bool, float, str]:
    return alert.state is AlertState.CLOSED, -alert.opened_at, alert.id


_latest_first: Pager[ClusterAlert, tuple[bool, float, str]] = Pager(_place, tuple[bool, float, str])


async def alerts(core: Core, query: AlertsQuery) -> ClusterAlerts:
    """What is short, quiet, hot or overbooked, or was."""
    state = None if query.state == "all" else AlertState(query.state)
    found, after = _latest_first.page(filter(query.takes, cluster_alerts(core, state)), query)
    return ClusterAlerts(found, after)


def cluster_alerts(core: Core, state: AlertState | None = None) -> list[ClusterAlert]:
    """All of them in one state, or all: the open ones first, then the latest first."""
    now = core.clock()
    found = [node_alert_answer(each) for each in core.registry.alerts(now, state=state)]
    states: dict[str, Liveness] = {}
    if core.analysis.bottlenecks:
        states = {each.name: each.liveness for each in core.registry.nodes(now)}
    found += [_of_centre(each, states) for each in core.analysis.bottlenecks]
    return sorted((each for each in found if state in (None, each.state)), key=_place)


def node_alert_answer(entry: AlertEntry) -> ClusterAlert:
    """An alert that a node reported."""
    reported, alert = entry.reported, entry.reported.alert
    return ClusterAlert(
        id=id_of(BottleneckKind.NODE, reported.node, alert.resource, alert.opened_at, reported.boot),
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


def _of_centre(bottleneck: Bottleneck, states: dict[str, Liveness]) -> ClusterAlert:
    node = None if bottleneck.kind is BottleneckKind.SERVICE else bottleneck.subject
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
        "Bottlenecks that nodes found in themselves, and what only the collector sees; open, or of late.",
        ClusterAlerts,
        alerts,
        query=AlertsQuery,
    ),
)

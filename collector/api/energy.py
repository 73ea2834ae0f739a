"""Energy over a period, and the power curves of nodes, which send them as points with every heartbeat."""

from http import HTTPStatus
from typing import Annotated

import msgspec
from msgspec import Meta

from collector.api.nodes import Node, list_nodes, no_such_node
from collector.api.queries import DAY_SECONDS, End, PageQuery, Pager, Start, bounds
from collector.common.errors import ApiError
from collector.common.liveness import LivenessLabel
from collector.common.ratios import Ratios
from collector.core.parts import Core
from collector.history.interface import Account, GroupBy
from collector.web.routes import NO_HISTORY, NO_NODE, Route, get, refused
from powermodels.common.interface import Load
from powermodels.models import what_if as whatif
from powermodels.models.what_if import CurvePoint
from powermodels.models.wire_curve import PowerCurveModel
from wire.messages import MachineScope, PowerScope, PowerSource

NO_CURVE = "it has sent no power curve yet; agents of this version send one with each heartbeat"
_LABEL = "label:"


class EnergyPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of energy accounts, the largest first; by day, in order of time."""

    start: float
    end: float
    by: str
    scope: MachineScope = "machine"
    """What the joules cover: whole machines at the wall, whatever the meters of the nodes cover."""
    accounts: list[Account]
    next: str | None
    """Cursor of the next page; null on the last page. Use it with this `start` and `end`."""


class EnergyQuery(PageQuery, frozen=True, kw_only=True):
    """Period and grouping."""

    start: Start = None
    end: End = None
    by: Annotated[
        str,
        Meta(
            pattern="^(node|container|service|day|label:.+)$",
            description="Group by `node`, `container`, `service`, `day` (UTC) or `label:KEY`.",
        ),
    ] = "node"


def _sort_key(account: Account) -> tuple[float, str, str]:
    return -account.joules, account.key or "", account.node or ""


_most_first: Pager[Account, tuple[float, str, str]] = Pager(_sort_key, tuple[float, str, str])
_by_day: Pager[Account, tuple[str]] = Pager(lambda account: (account.key or "",), tuple[str])


async def energy(core: Core, query: EnergyQuery) -> EnergyPage:
    """Add up energy over a period, by default the last day."""
    start, end = bounds(query.start, query.end, core.clock(), default_seconds=DAY_SECONDS)
    if query.by.startswith(_LABEL):
        by, label = GroupBy.LABEL, query.by.removeprefix(_LABEL)
    else:
        by, label = GroupBy(query.by), None
    found = await core.history.energy(start, end, by, label)
    accounts, after = _by_day.page(found, query) if by is GroupBy.DAY else _most_first.page(found, query)
    return EnergyPage(start=start, end=end, by=query.by, accounts=accounts, next=after)


class PowerCurveQuery(msgspec.Struct, frozen=True):
    """Parameters for a power curve."""

    node: Annotated[str, Meta(description="Name of the node.")]


class NodePowerCurve(msgspec.Struct, frozen=True, kw_only=True):
    """Power of a node from no CPU load to full load, with all other usage as last reported."""

    node: str
    node_state: LivenessLabel
    """Unless it is `up`, the other fields may be out of date."""
    source: PowerSource
    scope: MachineScope = "machine"
    source_scope: PowerScope
    """What `source` covers. If that is less than the machine, the rest is estimated from its hardware."""
    error_ratio: float
    """Expected relative error of the watts: 0.25 means a quarter more or less."""
    sampled_at: float | None
    """Unix time of the last reported usage, by the node's clock; null if there is none."""
    points: tuple[CurvePoint, ...]


async def power_curve(core: Core, query: PowerCurveQuery) -> NodePowerCurve:
    """Get the power curve of a node."""
    node = node_answer(core, query.node, "node")
    curve = core.registry.power_curve(node.name)
    if curve is None:
        raise ApiError(HTTPStatus.CONFLICT, f"node {node.name} has no power curve: {NO_CURVE}", "node")
    return NodePowerCurve(
        node=node.name,
        node_state=node.state,
        source=curve.source,
        source_scope=curve.source_scope,
        error_ratio=curve.error_ratio,
        sampled_at=node.sampled_at,
        points=whatif.power_curve(PowerCurveModel(curve), load_of(node.used_ratio)),
    )


def node_answer(core: Core, name: str, field: str) -> Node:
    """A node by name; an error that names the field if there is none."""
    found = list_nodes(core.registry, core.clock(), node=name)
    if not found:
        raise no_such_node(name, field)
    return found[0]


def load_of(ratios: Ratios) -> Load:
    """Ratios as the load of a model; an unknown CPU usage counts as idle."""
    return Load(ratios.cpu_ratio or 0.0, ratios.memory_ratio, ratios.disk_ratio, ratios.network_ratio)


ROUTES: tuple[Route, ...] = (
    get(
        "/v1/energy",
        "Get energy in joules over a period, grouped by node, container, service, label or day; by default"
        " the last day.",
        EnergyPage,
        energy,
        query=EnergyQuery,
        refusals=NO_HISTORY,
    ),
    get(
        "/v1/power-curve",
        "Get the power of a node from no CPU load to full load.",
        NodePowerCurve,
        power_curve,
        query=PowerCurveQuery,
        refusals={**NO_NODE, **refused(HTTPStatus.CONFLICT, "The node has sent no power curve yet.")},
    ),
)

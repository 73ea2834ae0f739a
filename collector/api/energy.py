"""Energy over a period, and the power curves of nodes, which send them as points with every heartbeat."""

from http import HTTPStatus
from typing import Annotated

import msgspec
from msgspec import Meta

from collector.api.nodes import get_node
from collector.api.queries import (
    DAY_SECONDS,
    End,
    HistoryQuery,
    PageQuery,
    Pager,
    Start,
    resolve_history,
    resolve_period,
)
from collector.common.errors import ApiError
from collector.common.liveness import LivenessLabel
from collector.common.ratios import Ratios
from collector.core.parts import Core
from collector.core.tariff import Tariff
from collector.history.interface import Account, ClusterSeries, GroupBy
from collector.web.routes import NO_HISTORY, NO_NODE, Route, get
from powermodels.common.interface import Load
from powermodels.models import what_if as whatif
from powermodels.models.what_if import CurvePoint
from powermodels.models.wire_curve import PowerCurveModel
from wire.messages import MachineScope, PowerScope, PowerSource

NO_CURVE = "it has sent no power curve yet; an agent of this version sends one with each heartbeat"
_LABEL = "label:"


By = Annotated[
    str,
    Meta(
        pattern="^(node|container|service|day|label:.+)$",
        description="Group by `node`, `container`, `service`, `day` (UTC) or `label:KEY`.",
    ),
]


class EnergyPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of energy accounts, the largest first; by day, in order of time."""

    start: float
    end: float
    by: str
    """The grouping, as requested."""
    scope: MachineScope = "machine"
    """What the joules cover: whole machines at the wall, whatever the meters of the nodes cover."""
    price_per_kwh: float | None = None
    """Price of a kilowatt-hour: `energy.price_per_kwh`, or the mean of `energy.price_query` over the period.

    Null if it is not configured, or the query has no result.
    """
    currency: str | None = None
    """Currency of the price, by `energy.currency`."""
    co2_grams_per_kwh: float | None = None
    """Grams of CO2 that a kilowatt-hour emits, by `energy.co2_grams_per_kwh` or `energy.co2_query`."""
    tariff_problem: str | None = None
    """Why a configured query for price or emissions has no result; null if there is no problem."""
    accounts: list[Account]
    """The accounts of this page."""
    next: str | None
    """Cursor of the next page; null on the last page. Use it with this `start` and `end`."""


class EnergyQuery(PageQuery, frozen=True, kw_only=True):
    """Period and grouping."""

    start: Start = None
    end: End = None
    by: By = "node"


def _sort_key(account: Account) -> tuple[float, str, str]:
    return -account.joules, account.key or "", account.node or ""


_largest_first: Pager[Account, tuple[float, str, str]] = Pager(_sort_key, tuple[float, str, str])
_by_day: Pager[Account, tuple[str]] = Pager(lambda account: (account.key or "",), tuple[str])


async def energy(core: Core, query: EnergyQuery) -> EnergyPage:
    """Get energy over a period by node, container, service, label or day; by default over the last day."""
    found = await all_energy(core, query.start, query.end, query.by)
    page = _by_day.page if query.by == GroupBy.DAY else _largest_first.page
    accounts, after = page(found.accounts, query)
    return msgspec.structs.replace(found, accounts=accounts, next=after)


async def all_energy(core: Core, since: float | None, until: float | None, grouping: str) -> EnergyPage:
    """Get all accounts of a period as one page."""
    start, end = resolve_period(since, until, core.clock(), default_seconds=DAY_SECONDS)
    if grouping.startswith(_LABEL):
        by, label = GroupBy.LABEL, grouping.removeprefix(_LABEL)
    else:
        by, label = GroupBy(grouping), None
    found = await core.history.energy(start, end, by, label)
    tariff = Tariff() if core.tariffs is None else await core.tariffs.tariff(start, end, core.clock())
    return EnergyPage(
        start=start,
        end=end,
        by=grouping,
        price_per_kwh=tariff.price_per_kwh,
        currency=tariff.currency,
        co2_grams_per_kwh=tariff.co2_grams_per_kwh,
        tariff_problem=tariff.problem,
        accounts=list(found),
        next=None,
    )


async def cluster_history(core: Core, query: HistoryQuery) -> ClusterSeries:
    """Get the power of the cluster over time; by default over the last hour.

    It is divided into idle, system and containers, and has its expected error.
    """
    start, end, step_seconds = resolve_history(query, core.clock())
    error_ratios = {
        each.name: state.power.error_ratio
        for each in core.registry.nodes(core.clock())
        if each.run.state is not None and (state := each.run.state.value).power is not None
    }
    return await core.history.cluster_series(start, end, step_seconds, error_ratios)


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
    """Get the power of a node from no CPU load to full load."""
    node = get_node(core, query.node, "node")
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
        points=whatif.power_curve(PowerCurveModel(curve), to_load(node.used_ratio)),
    )


def to_load(ratios: Ratios) -> Load:
    """Convert ratios to the load of a power model; an unknown CPU usage counts as idle."""
    return Load(ratios.cpu_ratio or 0.0, ratios.memory_ratio, ratios.disk_ratio, ratios.network_ratio)


ROUTES: tuple[Route, ...] = (
    get("/v1/energy", energy, problems=NO_HISTORY),
    get("/v1/cluster/history", cluster_history, problems=NO_HISTORY),
    get(
        "/v1/power-curve",
        power_curve,
        problems=NO_NODE,
    ),
)

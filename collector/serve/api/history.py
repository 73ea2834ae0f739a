"""Usage and power over time, and energy over a period: as pages, or as CSV for spreadsheets."""

import asyncio
import csv
import io
from collections.abc import Callable, Mapping
from http import HTTPStatus
from math import isnan
from typing import Annotated, Literal

from aiohttp import web
from msgspec import Meta, Struct, structs

from collector.common.errors import ApiError
from collector.history.interface import Account, ClusterSeries, GroupBy, Series, SubjectKind
from collector.runtime.parts import Core
from collector.runtime.tariff import Tariff
from collector.serve.api.containers import no_such_container
from collector.serve.api.nodes import no_such_node
from collector.serve.api.queries import DAY_SECONDS, End, PageQuery, Pager, Start, resolve_period
from collector.serve.api.services import no_such_service
from collector.serve.web.routes import (
    NO_HISTORY,
    ResponseSpec,
    Route,
    get,
    json_response,
    parse_query,
    problem,
)
from wire.messages import MachineScope

_MAX_POINTS = 2000
_NO_SUBJECT = problem(HTTPStatus.NOT_FOUND, "There is no such node, container or service.")

_LABEL = "label:"
_JOULES_PER_KWH = 3.6e6
_FIELDS = ("key", "name", "node", "service", "joules", "idle_joules", "system_joules", "containers_joules")
_CSV_TYPE = "text/csv"
_HEADER = (*_FIELDS, "kwh", "price", "currency", "co2_grams")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Spreadsheets take a text that begins with one of these for a formula; the last four have the full width."""


class HistoryQuery(Struct, frozen=True, kw_only=True):
    """Period and resolution of a history."""

    start: Start = None
    end: End = None
    step_seconds: Annotated[
        float,
        Meta(
            ge=1,
            le=DAY_SECONDS * 31,
            description=f"Time per point; larger where that would exceed {_MAX_POINTS} points.",
        ),
    ] = 60.0


class SubjectHistoryQuery(HistoryQuery, frozen=True, kw_only=True):
    """What the history is about: exactly one of `node`, `container` and `service`."""

    node: Annotated[str | None, Meta(description="Name of the node.")] = None
    container: Annotated[str | None, Meta(description="The full container id.")] = None
    service: Annotated[str | None, Meta(description="Name of the service.")] = None


_ERRORS: Mapping[SubjectKind, Callable[[str], ApiError]] = {
    SubjectKind.NODE: no_such_node,
    SubjectKind.CONTAINER: no_such_container,
    SubjectKind.SERVICE: no_such_service,
}


async def history(core: Core, query: SubjectHistoryQuery) -> Series:
    """Get the usage and power of one node, container or service over time; by default the last hour.

    Those of a service are summed over its containers.
    """
    asked = [(kind, name) for kind in SubjectKind if (name := getattr(query, kind)) is not None]
    if len(asked) != 1:
        raise ApiError(HTTPStatus.BAD_REQUEST, "give exactly one of node, container and service", "node")
    [(kind, name)] = asked
    found = await core.history.series(kind, name, *_resolve(query, core.clock()))
    if not found.points and not _exists(core, kind, name):
        raise _ERRORS[kind](name)
    return found


def _exists(core: Core, kind: SubjectKind, name: str) -> bool:
    """Whether it is there now; a history may also be of what has ended."""
    if kind is SubjectKind.SERVICE:
        return name in core.analysis.latest.services
    if kind is SubjectKind.NODE:
        return any(core.registry.nodes(core.clock(), node=name))
    return bool(core.registry.tables.running((name,)))


async def cluster_history(core: Core, query: HistoryQuery) -> ClusterSeries:
    """Get the power of the cluster over time; by default over the last hour.

    It is divided into idle, system and containers, and has its expected error.
    """
    nodes = core.registry.tables.list_nodes(core.clock())
    error_ratios = {
        name: ratio
        for name, ratio in zip(nodes.names, nodes.columns.error_ratio.tolist(), strict=True)
        if not isnan(ratio)
    }
    return await core.history.cluster_series(*_resolve(query, core.clock()), error_ratios)


def _resolve(query: HistoryQuery, now: float) -> tuple[float, float, float]:
    """Start, end and step, by default of the last hour."""
    start, end = resolve_period(query.start, query.end, now, default_seconds=3600.0)
    # Coarse enough that rollups serve long periods.
    return start, end, max(query.step_seconds, (end - start) / _MAX_POINTS)


class EnergyPage(Tariff, frozen=True, kw_only=True):
    """A page of energy accounts, the largest first; by day, in order of time."""

    start: float
    end: float
    by: str
    """The grouping, as requested."""
    scope: MachineScope = "machine"
    """What the joules cover: whole machines at the wall, whatever the meters of the nodes cover."""
    accounts: list[Account]
    """The accounts of this page."""
    next: str | None
    """Cursor of the next page; null on the last page. Use it with this `start` and `end`."""


class EnergyQuery(PageQuery, frozen=True, kw_only=True):
    """Period and grouping."""

    start: Start = None
    end: End = None
    by: Annotated[str, Meta(pattern="^(node|container|service|day|label:.+)$")] = "node"
    """Group by `node`, `container`, `service`, `day` (UTC) or `label:KEY`."""
    format: Literal["json", "csv"] = "json"
    """`csv` returns all accounts at once, a line each, with price and CO2 if configured."""


def _sort_key(account: Account) -> tuple[float, str, str]:
    return -account.joules, account.key or "", account.node or ""


_largest_first: Pager[Account, tuple[float, str, str]] = Pager(_sort_key, tuple[float, str, str])
_by_day: Pager[Account, tuple[str]] = Pager(lambda account: (account.key or "",), tuple[str])


async def energy(core: Core, request: web.Request) -> web.Response:
    """Get energy in a period by node, container, service, label or day; by default the last day."""
    query = parse_query(request, EnergyQuery)
    found = await _all_energy(core, query)
    if query.format == "csv":
        # Requests do not wait for the text of a long period.
        text = await asyncio.to_thread(_csv, found)
        name = f"energy-by-{query.by.partition(':')[0]}.csv"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return web.Response(text=text, content_type=_CSV_TYPE, charset="utf-8", headers=headers)
    page = _by_day.page if query.by == GroupBy.DAY else _largest_first.page
    accounts, after = page(found.accounts, query)
    return json_response(structs.replace(found, accounts=accounts, next=after))


async def _all_energy(core: Core, query: EnergyQuery) -> EnergyPage:
    """Get all accounts of a period as one page."""
    start, end = resolve_period(query.start, query.end, core.clock(), default_seconds=DAY_SECONDS)
    if query.by.startswith(_LABEL):
        by, label = GroupBy.LABEL, query.by.removeprefix(_LABEL)
    else:
        by, label = GroupBy(query.by), None
    found = await core.history.energy(start, end, by, label)
    tariff = Tariff() if core.tariffs is None else await core.tariffs.tariff(start, end, core.clock())
    return EnergyPage(
        **structs.asdict(tariff), start=start, end=end, by=query.by, accounts=list(found), next=None
    )


def _csv(page: EnergyPage) -> str:
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(_HEADER)
    for account in page.accounts:
        kwh = account.joules / _JOULES_PER_KWH
        price = None if page.price_per_kwh is None else kwh * page.price_per_kwh
        grams = None if page.co2_grams_per_kwh is None else kwh * page.co2_grams_per_kwh
        fields = [_cell(getattr(account, each)) for each in _FIELDS]
        rows.writerow((*fields, kwh, price, page.currency if price is not None else None, grams))
    return text.getvalue()


def _cell(value: str | float | None) -> str | float | None:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


ROUTES: tuple[Route, ...] = (
    get("/v1/history", history, problems={**_NO_SUBJECT, **NO_HISTORY}),
    get("/v1/cluster/history", cluster_history, problems=NO_HISTORY),
    get(
        "/v1/energy",
        energy,
        query=EnergyQuery,
        responds=ResponseSpec("A page of energy accounts.", EnergyPage, text_type=_CSV_TYPE),
        problems=NO_HISTORY,
    ),
)

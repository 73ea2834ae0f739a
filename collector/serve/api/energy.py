"""Energy over a period, as pages or as CSV for spreadsheets."""

import asyncio
import csv
import io
from collections.abc import Iterable
from typing import Annotated, Literal

from aiohttp import web
from msgspec import Meta, structs

from collector.history.interface import Account, GroupBy
from collector.runtime.parts import Core
from collector.runtime.tariff import Tariff
from collector.serve.api.queries import DAY_SECONDS, End, PageQuery, Pager, Start, resolve_period
from collector.serve.web.routes import (
    NO_HISTORY,
    ResponseSpec,
    Route,
    get,
    json_response,
    parse_query,
)
from wire.messages import MachineScope

_LABEL = "label:"
_JOULES_PER_KWH = 3.6e6
_FIELDS = ("key", "name", "node", "service", "joules", "idle_joules", "system_joules", "containers_joules")
_CSV_TYPE = "text/csv"
_HEADER = (*_FIELDS, "kwh", "price", "currency", "co2_grams")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Spreadsheets take a text that begins with one of these for a formula; the last four have the full width."""


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
    by: Annotated[
        str,
        Meta(
            pattern="^(node|container|service|day|label:.+)$",
            description="Group by `node`, `container`, `service`, `day` (UTC) or `label:KEY`.",
        ),
    ] = "node"
    format: Annotated[
        Literal["json", "csv"],
        Meta(
            description="`csv` returns all accounts at once, a line each, with price and CO2 if configured."
        ),
    ] = "json"


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
    rows.writerows(_rows(page))
    return text.getvalue()


def _rows(page: EnergyPage) -> Iterable[tuple[str | float | None, ...]]:
    for account in page.accounts:
        kwh = account.joules / _JOULES_PER_KWH
        price = None if page.price_per_kwh is None else kwh * page.price_per_kwh
        grams = None if page.co2_grams_per_kwh is None else kwh * page.co2_grams_per_kwh
        fields = [_cell(getattr(account, each)) for each in _FIELDS]
        yield (*fields, kwh, price, page.currency if price is not None else None, grams)


def _cell(value: str | float | None) -> str | float | None:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


ROUTES: tuple[Route, ...] = (
    get(
        "/v1/energy",
        energy,
        query=EnergyQuery,
        responds=ResponseSpec("A page of energy accounts.", EnergyPage, text_type=_CSV_TYPE),
        problems=NO_HISTORY,
    ),
)

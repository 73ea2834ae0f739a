"""Energy accounts as CSV, for spreadsheets."""

import asyncio
import csv
import io
from collections.abc import Iterable
from http import HTTPStatus

import msgspec
from aiohttp import web

from collector.api.energy import By, EnergyPage, all_energy
from collector.api.queries import End, Start
from collector.core.parts import Core
from collector.web.routes import BAD_QUERY, FORBIDDEN, NO_HISTORY, ResponseSpec, Route, parse_query

_JOULES_PER_KWH = 3.6e6

CSV_TYPE = "text/csv"
_FIELDS = ("key", "name", "node", "service", "joules", "idle_joules", "system_joules", "containers_joules")
_HEADER = (*_FIELDS, "kwh", "price", "currency", "co2_grams")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Spreadsheets take a text that begins with one of these for a formula; the last four have the full width."""


class EnergyCsvQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Period and grouping."""

    start: Start = None
    end: End = None
    by: By = "node"


async def energy_csv(core: Core, request: web.Request) -> web.Response:
    """Serve all accounts of a period as CSV."""
    query = parse_query(request, EnergyCsvQuery)
    # The period is added up once, however many accounts it has; requests do not wait for its text.
    text = await asyncio.to_thread(_csv, await all_energy(core, query.start, query.end, query.by))
    name = f"energy-by-{query.by.partition(':')[0]}.csv"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return web.Response(text=text, content_type=CSV_TYPE, charset="utf-8", headers=headers)


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
    Route(
        method="GET",
        path="/v1/energy.csv",
        summary="Get all energy accounts of a period as CSV, with price and CO2 if configured; by default of"
        " the last day.",
        serve=energy_csv,
        query=EnergyCsvQuery,
        responses={HTTPStatus.OK: ResponseSpec("One line per account.", content_type=CSV_TYPE)}
        | BAD_QUERY
        | FORBIDDEN
        | NO_HISTORY,
    ),
)

"""Price and emissions of energy: numbers in the settings, or results of PromQL queries."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import isfinite
from statistics import fmean

from msgspec import Struct

from collector.common.errors import HistoryUnavailable
from collector.config import CollectorConfig, EnergyConfig
from collector.history.promql import Client, connect

log = logging.getLogger(__name__)

_POINTS = 100
"""Values of a period that are averaged."""
_MIN_STEP_SECONDS = 60.0
_KEPT_SECONDS = 60.0
_MAX_KEPT = 100


class Tariff(Struct, frozen=True):
    """What a kilowatt-hour costs and emits in a period; null if it is not configured or unknown."""

    price_per_kwh: float | None = None
    """Price of a kilowatt-hour: `energy.price_per_kwh`, or the mean of `energy.price_query`."""
    currency: str | None = None
    """Currency of the price, by `energy.currency`."""
    co2_grams_per_kwh: float | None = None
    """Grams of CO2 that a kilowatt-hour emits, by `energy.co2_grams_per_kwh` or `energy.co2_query`."""
    tariff_problem: str | None = None
    """Why a configured query for price or emissions has no result; null if there is no problem."""


class TariffSource:
    """Finds the tariff of a period."""

    def __init__(self, settings: EnergyConfig, client: Client | None = None) -> None:
        self._settings, self._client = settings, client
        self._kept: dict[tuple[int, int], tuple[float, Tariff]] = {}

    async def tariff(self, start: float, end: float, now: float) -> Tariff:
        """The tariff of a period: the mean over its time."""
        settings = self._settings
        fixed = Tariff(
            price_per_kwh=settings.price_per_kwh or None,
            currency=settings.currency or None,
            co2_grams_per_kwh=settings.co2_grams_per_kwh or None,
        )
        if self._client is None or not (settings.price_query or settings.co2_query):
            return fixed
        key = int(start // _MIN_STEP_SECONDS), int(end // _MIN_STEP_SECONDS)
        kept = self._kept.get(key)
        if kept is not None and 0 <= now - kept[0] < _KEPT_SECONDS:
            return kept[1]
        found = await self._query(self._client, fixed, start, end)
        if len(self._kept) >= _MAX_KEPT:
            self._kept.clear()
        self._kept[key] = now, found
        return found

    async def _query(self, client: Client, fixed: Tariff, start: float, end: float) -> Tariff:
        settings = self._settings
        try:
            price, grams = await asyncio.gather(
                _mean(client, "energy.price_query", settings.price_query, start, end),
                _mean(client, "energy.co2_query", settings.co2_query, start, end),
            )
        except HistoryUnavailable as error:
            log.warning("no price or emissions of energy: %s", error)
            price = None if settings.price_query else fixed.price_per_kwh
            grams = None if settings.co2_query else fixed.co2_grams_per_kwh
            return Tariff(price, fixed.currency, grams, str(error))
        return Tariff(
            price if settings.price_query else fixed.price_per_kwh,
            fixed.currency,
            grams if settings.co2_query else fixed.co2_grams_per_kwh,
        )


async def _mean(client: Client, key: str, promql: str, start: float, end: float) -> float | None:
    """Return the mean of the results of a query; None without a query. Raise `HistoryUnavailable`."""
    if not promql:
        return None
    step_seconds = max(_MIN_STEP_SECONDS, (end - start) / _POINTS)
    try:
        found = await client.query_range(promql, start, end, step_seconds)
    except HistoryUnavailable as error:
        raise HistoryUnavailable(f"{key}: {client.url} does not answer: {error}") from error
    values = [value for each in found for _, text in each.values if isfinite(value := float(text))]
    if not values:
        raise HistoryUnavailable(f"{key}: {client.url} has no value for {promql}: check the query")
    return fmean(values)


@asynccontextmanager
async def open_tariffs(config: CollectorConfig) -> AsyncIterator[TariffSource]:
    """The tariffs that the settings describe, while the block runs; raises `UserError`."""
    settings = config.energy
    if not (settings.price_query or settings.co2_query):
        yield TariffSource(settings)
        return
    endpoint, key = (config.store, "store") if config.store.url else (config.pull, "pull")
    async with connect(endpoint, key) as client:
        yield TariffSource(settings, client)

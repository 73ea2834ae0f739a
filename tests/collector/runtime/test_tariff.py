from typing import cast

import pytest

from collector.common.errors import HistoryUnavailable
from collector.config import CollectorConfig, EnergyConfig, PullConfig
from collector.history.promql import Client, Range
from collector.runtime.tariff import Tariff, TariffSource, open_tariffs
from wire.errors import UserError

START, END = 1_790_000_000.0, 1_790_086_400.0


class Store:
    """A store with one price, which rises from 0.1 to 0.3 in a period, and no emissions."""

    url = "http://store"

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.down = False

    async def query_range(self, promql: str, start: float, end: float, step: float) -> list[Range]:
        self.asked.append(promql)
        if self.down:
            raise HistoryUnavailable("connection refused")
        if promql != "price":
            return [Range({}, [(start, "NaN")])]
        return [Range({}, [(start, "0.1"), (start + step, "0.2"), (end, "0.3")])]


def source(store: Store, **settings: float | str) -> TariffSource:
    return TariffSource(EnergyConfig(**settings), cast("Client", store))  # type: ignore[arg-type]


async def test_numbers_of_the_settings_need_no_store() -> None:
    store = Store()
    tariffs = source(store, price_per_kwh=0.25, currency="EUR", co2_grams_per_kwh=300.0)
    assert await tariffs.tariff(START, END, END) == Tariff(0.25, "EUR", 300.0)
    assert await TariffSource(EnergyConfig()).tariff(START, END, END) == Tariff()
    assert not store.asked


async def test_a_query_gives_the_mean_of_the_period_and_is_sent_once_a_minute() -> None:
    store = Store()
    tariffs = source(store, price_query="price", price_per_kwh=9.0, currency="EUR", co2_grams_per_kwh=300.0)
    found = await tariffs.tariff(START, END, END)
    assert found.price_per_kwh == pytest.approx(0.2)
    assert (found.currency, found.co2_grams_per_kwh, found.tariff_problem) == ("EUR", 300.0, None)
    await tariffs.tariff(START, END, END + 59)
    assert store.asked == ["price"]
    await tariffs.tariff(START, END, END + 61)
    assert store.asked == ["price", "price"]


@pytest.mark.parametrize(
    ("down", "problem"), [(True, "does not answer: connection refused"), (False, "has no value for co2")]
)
async def test_without_a_response_the_value_is_unknown_and_the_reason_is_reported(
    *, down: bool, problem: str
) -> None:
    store = Store()
    store.down = down
    tariffs = source(store, co2_query="co2", co2_grams_per_kwh=300.0, price_per_kwh=0.25)
    found = await tariffs.tariff(START, END, END)
    assert (found.price_per_kwh, found.co2_grams_per_kwh) == (0.25, None)
    assert found.tariff_problem is not None
    assert "energy.co2_query: http://store" in found.tariff_problem
    assert problem in found.tariff_problem


async def test_a_query_needs_a_store() -> None:
    with pytest.raises(UserError, match=r"energy\.price_query: no store can answer it"):
        CollectorConfig(energy=EnergyConfig(price_query="price"))
    config = CollectorConfig(
        energy=EnergyConfig(price_query="price"), pull=PullConfig(url="http://127.0.0.1:9")
    )
    async with open_tariffs(config) as tariffs:
        found = await tariffs.tariff(START, END, END)
    assert found.price_per_kwh is None
    assert "connection refused" in (found.tariff_problem or "")


async def test_a_problem_shows_no_password_of_the_store() -> None:
    config = CollectorConfig(
        energy=EnergyConfig(price_query="price"),
        pull=PullConfig(url="http://me:secret@127.0.0.1:9/prometheus/"),
    )
    async with open_tariffs(config) as tariffs:
        problem = (await tariffs.tariff(START, END, END)).tariff_problem
    assert problem is not None
    assert problem.startswith("energy.price_query: http://127.0.0.1:9/prometheus does not answer")
    assert "secret" not in problem

import argparse
from typing import Any

import pytest

from wattpack.commands import energy
from wattpack.commands.energy import _columns, _costs
from wattpack.output.text import columns_table

KWH = 3.6e6
ACCOUNTS: list[dict[str, Any]] = [{"key": "shop", "joules": 2 * KWH}, {"key": None, "joules": KWH / 1000}]


def test_price_and_emissions_are_shown_if_known() -> None:
    tariff = {"price_per_kwh": 0.5, "currency": "EUR", "co2_grams_per_kwh": 600.0}
    header, shop, none = columns_table(_columns("service", tariff), ACCOUNTS)
    assert header.split() == ["SERVICE", "ENERGY", "PRICE", "EUR", "CO2"]
    assert shop.split() == ["shop", "2.00", "kWh", "1.00", "1.20", "kg"]
    assert none.split() == ["(none)", "1.00", "Wh", "0.00", "0.6", "g"]
    assert _costs(ACCOUNTS[0], tariff) == {"price": 1.0, "co2_grams": 1200.0}


def test_without_a_tariff_there_is_energy_only() -> None:
    assert list(_columns("service", {"price_per_kwh": None})) == ["SERVICE", "ENERGY"]
    assert list(_columns("label:team", {"co2_grams_per_kwh": 1.0})) == ["TEAM", "ENERGY", "CO2"]
    assert list(_columns("label:energy", {})) == ["LABEL ENERGY", "ENERGY"]


def test_csv_has_plain_lines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(energy, "query_collector", lambda *_: "key,joules\r\nshop,1\r\n")
    parser = argparse.ArgumentParser()
    energy.add_arguments(parser)
    assert energy.run(parser.parse_args(["--csv"])) == 0
    assert capsys.readouterr().out == "key,joules\nshop,1\n"

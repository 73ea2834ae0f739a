from pathlib import Path

import pytest

from bench.growth.measure import Costs
from bench.growth.report import COSTS, Growth, page, read, write


def costs(value: float, pass_s: float) -> Costs:
    return Costs(**{each.name: value for each in COSTS} | {"pass_s": pass_s})


def test_the_power_of_growth_is_shown_and_where_it_bends() -> None:
    growth = Growth("2 cores", {100: costs(1.0, 1.0), 1000: costs(10.0, 10.0), 10_000: costs(100.0, 1000.0)})
    cost = {each.name: each for each in COSTS}
    assert growth.exponent(cost["report_ms"], 100, 1000) == pytest.approx(1.0)
    assert growth.exponent(cost["pass_s"], 1000, 10_000) == pytest.approx(2.0)
    rows = [line for line in page(growth).splitlines() if line.startswith("|")]
    assert [row for row in rows if row.endswith("| 1,000 |")] == [
        row for row in rows if cost["pass_s"].about in row
    ]


def test_results_survive_being_stored(tmp_path: Path) -> None:
    growth = Growth("2 cores", {100: costs(1.0, 1.0), 1000: costs(2.0, 1.5)})
    write(growth, tmp_path)
    assert read(tmp_path) == growth
    assert (tmp_path / "scaling.md").read_text(encoding="utf-8") == page(growth)

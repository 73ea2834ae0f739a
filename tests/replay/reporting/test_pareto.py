"""Dominance, the series of a knob, and how points are drawn."""

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.decide.policies.interface import Knob
from replay.contenders.table import POLICIES
from replay.reporting.charts import TEXT_COLUMNS, TEXT_LINES, Dot, scatter_svg, scatter_text
from replay.reporting.pareto import (
    Pareto,
    PeerPoint,
    SweepPoint,
    dominators,
    dots_of,
    marked,
    pareto_rows_of,
    plan_sweep,
    series,
    summary,
)
from replay.setup.scenario import Scenario, parse_scenario
from wire.errors import UserError

KNOBS = [policy for policy in POLICIES.values() if policy.knob is not None]
# Few values, so that ties are common.
COSTS = st.lists(st.tuples(*[st.integers(0, 3).map(float)] * 3), max_size=12)


def point(value: float, energy_kwh: float, short_ratio: float, **others: bool) -> SweepPoint:
    figures = {"dominated": False, "is_default": False} | others
    return SweepPoint(
        value=value, energy_kwh=energy_kwh, short_ratio=short_ratio, migrations=1, placed_ratio=1.0, **figures
    )


def dot(x: float, y: float, **others: float) -> Dot:
    return Dot(x=x, y=y, mark="1", label="0.01", hover="a & b", colour=0, **others)  # type: ignore[arg-type]


@given(COSTS)
def test_efficient_points_have_no_dominator_and_all_others_have_one(costs: list[tuple[float, ...]]) -> None:
    found = dominators(costs)
    for each, better in zip(costs, found, strict=True):
        for place, other in enumerate(costs):
            is_no_worse = all(left <= right for left, right in zip(other, each, strict=True))
            assert (place in better) == (is_no_worse and other != each)


@given(COSTS.filter(bool))
def test_every_dominated_point_has_an_efficient_dominator(costs: list[tuple[float, ...]]) -> None:
    found = dominators(costs)
    efficient = {place for place, better in enumerate(found) if not better}
    assert efficient
    assert all(not better or efficient & set(better) for better in found)


@pytest.mark.parametrize("policy", KNOBS, ids=lambda policy: policy.name)
def test_knob_is_a_setting_and_its_series_is_accepted(policy: object) -> None:
    sweep = plan_sweep(policy.name, Scenario())  # type: ignore[attr-defined]
    assert sweep.runs[sweep.default] == sweep.policy
    assert len(sweep.runs) >= 5
    for run in sweep.runs.values():
        plan_sweep(run, Scenario())


def test_series_has_round_values_and_the_default() -> None:
    assert series(Knob("x", 0.001, 0.05), 0.007) == [0.001, 0.002, 0.005, 0.007, 0.01, 0.02, 0.05]


@given(st.floats(1e-4, 1.0), st.floats(1.0, 1e3))
def test_series_stays_in_the_range_of_the_knob(lowest: float, ratio: float) -> None:
    values = series(Knob("x", lowest, lowest * ratio), lowest)
    assert values[0] == lowest
    assert values == sorted(set(values))
    assert values[-1] <= lowest * ratio


def test_default_of_the_series_is_the_value_of_the_scenario() -> None:
    scenario = parse_scenario(
        '[policies.ours]\npolicy = "least-watts"\nsettings = { short_ratio = 0.02, overbooks = true }\n', "s"
    )
    sweep = plan_sweep("ours", scenario)
    assert sweep.default == 0.02
    assert sweep.runs[0.02] == "ours"
    assert sweep.runs[0.001] == "ours:short_ratio=0.001"


def test_policy_without_a_knob_is_a_user_error() -> None:
    with pytest.raises(UserError, match=r"'spread' has no setting .* one of least-watts"):
        plan_sweep("spread", Scenario())


def test_table_names_the_default_and_what_dominates_a_point() -> None:
    pareto = Pareto(
        policy="least-watts",
        knob="short_ratio",
        points=[point(0.01, 5.0, 0.004, is_default=True), point(0.02, 4.0, 0.01)],
        peers=[
            PeerPoint(
                policy="spread",
                energy_kwh=9.0,
                short_ratio=0.01,
                migrations=1,
                placed_ratio=1.0,
                dominated=True,
            )
        ],
    )
    points = marked(pareto)
    first, second, peer = pareto_rows_of(points)
    assert first == {
        "POINT": "1 least-watts short_ratio=0.01 (default)",
        "kWh": "5.00",
        "SHORT %": "0.400",
        "MOVES": "1",
        "PLACED %": "100.0",
        "DOMINATED BY": "-",
    }
    assert second["POINT"] == "2 least-watts short_ratio=0.02"
    assert (peer["POINT"], peer["DOMINATED BY"]) == ("A spread", "1 2")
    assert summary(points) == "Efficient (dominated by no other point): 1, 2."
    ring, _, hollow = dots_of(points, {"least-watts": 3})
    assert (ring.is_ringed, ring.is_filled, ring.colour) == (True, True, 3)
    assert ring.x == pytest.approx(0.4)
    assert (hollow.label, hollow.is_filled, hollow.is_joined) == ("spread", False, False)
    assert (
        "9.00 kWh, short 1.000 % of the time, 1 move, 100.0 % of containers placed; dominated" in hollow.hover
    )


@given(st.lists(st.tuples(st.floats(0, 1e3), st.floats(0, 1e6)), min_size=1, max_size=20))
def test_text_plot_has_every_mark_and_fits_a_terminal(places: list[tuple[float, float]]) -> None:
    lines = scatter_text([dot(x, y) for x, y in places], "time short, %", "kWh")
    assert len(lines) == TEXT_LINES + 4
    assert all(len(line) <= TEXT_COLUMNS for line in lines)
    assert sum(line.partition("|")[2].count("1") for line in lines) == len(places)


def test_circles_grow_with_their_size_and_labels_that_would_overlap_are_left_out() -> None:
    dots = [dot(x, y, size=size) for x, y, size in ((0, 1, 0), (0.01, 1.01, 100), (3, 5, 25))]
    text = scatter_svg("a <plot>", dots)
    radii = [float(each) for each in re.findall(r'class="dot[^>]* r="([\d.]+)"', text)]
    assert radii == [12.0, 8.0, 4.0]
    assert "a &lt;plot&gt;" in text
    assert "<title>a &amp; b</title>" in text
    labels = re.findall(r'x="([\d.]+)" y="([\d.]+)">0.01<', text)
    assert len(labels) >= 2
    for (x, y), (other_x, other_y) in product(labels, labels):
        same = (x, y) == (other_x, other_y)
        assert same or abs(float(x) - float(other_x)) > 20 or abs(float(y) - float(other_y)) >= 11

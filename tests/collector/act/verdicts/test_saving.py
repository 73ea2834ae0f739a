"""The power that decisions saved: what is no saving, and how often the interval is right."""

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.act.verdicts.saving import PERIODS, Energy, PowerEvidence, Saving, measure_saving
from collector.history.interface import Account

CHANGED = frozenset({"emptied", "filled"})
HOUR = 3600.0


def period(*, covered: float = HOUR, **watts: float) -> Energy:
    return {
        node: Account(key=node, joules=each * covered, covered_seconds=covered)
        for node, each in watts.items()
    }


def saving(before: Sequence[Energy], after: Energy, **given: frozenset[str]) -> Saving:
    return measure_saving(PowerEvidence(seconds=HOUR, before=before, after=after), CHANGED, **given)


def test_a_node_that_was_switched_off_saves_its_power() -> None:
    before = [period(emptied=100 + each, filled=100 - each, other=300) for each in range(PERIODS)]
    off = frozenset({"emptied"})
    found = saving(before, period(filled=120, other=300), off_after=off)
    assert found.watts == pytest.approx(80)
    assert found.error_watts == pytest.approx(0)
    why = "the reports of its nodes do not cover the period after it"
    assert saving(before, period(filled=120, other=300)) == Saving(why_unknown=why), "it may be down"


@given(
    st.lists(st.floats(0.2, 5), min_size=PERIODS + 1, max_size=PERIODS + 1),
    st.floats(1, 1000),
    st.floats(1, 1000),
)
def test_load_that_changes_everywhere_is_neither_gain_nor_loss(
    load: list[float], own: float, other: float
) -> None:
    *before, after = [period(emptied=own * each, filled=own * each, other=other * each) for each in load]
    found = saving(before, after)
    assert found.watts == pytest.approx(0, abs=1e-6 * own)


def test_nodes_that_other_decisions_changed_are_not_compared_with() -> None:
    before = [period(emptied=100, filled=100, other=300, moved=200) for _ in range(PERIODS)]
    after = period(emptied=100, filled=100, other=300, moved=900)
    assert saving(before, after, touched=frozenset({"moved"})).watts == pytest.approx(0)
    misled = saving(before, after).watts
    assert misled is not None
    assert misled > 100


@pytest.mark.parametrize("known", [0, 2])
def test_with_less_than_three_periods_before_nothing_is_said(known: int) -> None:
    before = [period(emptied=100, filled=100)] * known + [period(emptied=1)] * (PERIODS - known)
    found = saving(before, period(emptied=100, filled=50))
    assert found.why_unknown == f"reports of its nodes cover only {known} of 6 periods before it"


def test_a_period_that_reports_hardly_cover_is_unknown() -> None:
    before = [period(emptied=100, filled=100) for _ in range(PERIODS)]
    assert saving(before, period(covered=0.5 * HOUR, emptied=1, filled=1)).watts is None


def test_the_interval_is_right_nineteen_times_in_twenty() -> None:
    """With nodes that vary by a tenth, a common load, and decisions that save 30 W."""
    random, right, runs = Random(3), 0, 400  # noqa: S311 - the same in every run

    def draw(saved: float = 0.0) -> Energy:
        load = random.uniform(0.7, 1.3)
        noise = {name: load * random.gauss(100, 10) for name in ("emptied", "filled", "a", "b", "c", "d")}
        return period(**{**noise, "emptied": noise["emptied"] - load * saved})

    for _ in range(runs):
        after = draw(30.0)
        found = saving([draw() for _ in range(PERIODS)], after)
        assert found.watts is not None
        assert found.error_watts is not None
        right += abs(found.watts - 30.0) <= found.error_watts
    assert 0.92 <= right / runs <= 0.98


def test_decisions_after_extreme_moments_get_no_credit_for_the_return_to_the_mean() -> None:
    """Decisions that change nothing, made when the nodes used the most of six periods."""
    random, credited, naive, runs = Random(5), 0, 0.0, 200  # noqa: S311 - the same in every run
    for _ in range(runs):
        own = sorted(random.gauss(200, 20) for _ in range(PERIODS))
        # The last period, which comes first, is the highest: that is why the decision was made.
        before = [period(emptied=each / 2, filled=each / 2, other=1000) for each in reversed(own)]
        watts = random.gauss(200, 20)
        found = saving(before, period(emptied=watts / 2, filled=watts / 2, other=1000))
        assert found.watts is not None
        assert found.error_watts is not None
        credited += found.watts > found.error_watts
        naive += (own[-1] - watts) / runs
    assert naive > 15, "before and after alone would count this"
    assert credited / runs < 0.05

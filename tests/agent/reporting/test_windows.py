from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.reporting.windows import Mean, TumblingWindows

value = st.one_of(st.none(), st.floats(0, 1e15))
samples = st.lists(st.tuples(st.tuples(value, value, value), st.floats(0.01, 1e4)), min_size=1, max_size=40)


@given(samples)
def test_each_value_is_the_mean_of_what_was_known_of_it_weighted_by_time(
    taken: list[tuple[tuple[float | None, ...], float]],
) -> None:
    mean = Mean(3)
    for values, seconds in taken:
        mean.add(values, seconds)
    assert mean.seconds == pytest.approx(sum(seconds for _, seconds in taken))
    for index, found in enumerate(mean.values()):
        known = [(each[index], seconds) for each, seconds in taken if each[index] is not None]
        if not known:
            assert found is None
        else:
            expected = sum(value * seconds for value, seconds in known if value is not None)
            assert found == pytest.approx(expected / sum(seconds for _, seconds in known))


def test_a_long_sample_weighs_more_than_a_short_one() -> None:
    mean = Mean(1)
    mean.add((1.0,), 3.0)
    mean.add((4.0,), 9.0)
    assert mean.values() == (3.25,)


def test_before_any_time_has_passed_nothing_is_known() -> None:
    mean = Mean(1)
    assert mean.values() == (None,)
    mean.add((1.0,), 0.0)
    assert mean.values() == (None,)


def test_a_window_closes_at_the_first_tick_at_or_after_its_end() -> None:
    window = TumblingWindows(100.0, 45.0)
    assert [now for now in range(103, 200, 3) if window.closes(now)] == [145, 190]
    window = TumblingWindows(100.0, 10.0)
    assert [now for now in range(103, 140, 3) if window.closes(now)] == [112, 121, 130]


def test_after_a_long_gap_one_window_closes_and_the_grid_is_kept() -> None:
    window = TumblingWindows(0.0, 30.0)
    assert not window.closes(27.0)
    assert window.closes(3607.0)
    assert [now for now in range(3610, 3700, 3) if window.closes(now)] == [3631, 3661, 3691]


@given(st.integers(0, 10**6), st.integers(1, 3600), st.lists(st.integers(1, 5000), max_size=60))
def test_one_window_closes_in_every_cell_of_the_grid_that_has_a_tick_but_the_first(
    begin: int, length: int, steps: list[int]
) -> None:
    window = TumblingWindows(begin, length)
    ticks = [begin + elapsed for elapsed in accumulate(steps)]
    closed = [(now - begin) // length for now in ticks if window.closes(now)]
    assert closed == sorted({(now - begin) // length for now in ticks} - {0})

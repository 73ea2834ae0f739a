import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.history.sqlite.timeline import (
    WIDTH,
    Interval,
    Sample,
    SampleColumns,
    Values,
    counter_increase,
    intervals,
    merge_slots,
    overlaps,
    report_time,
    slot_shares,
    sum_samples,
    sum_slots,
)

DAY = 86_400.0

times = st.floats(0, 10_000, allow_nan=False)
lengths = st.floats(0.001, 5_000)


def values(cpu_cores: float) -> Values:
    return (cpu_cores, *[None] * (WIDTH - 1))


@st.composite
def lookings(draw: st.DrawFn) -> list[Sample]:
    """Looks in the order of time, some of which find nothing there."""
    at, looks = draw(times), []
    for _ in range(draw(st.integers(1, 8))):
        at += draw(lengths)
        there = draw(st.integers(0, 4)) > 0
        looks.append(Sample(at, draw(st.floats(0, 3_000)), values(draw(st.floats(0, 64))) if there else None))
    return looks


def test_a_value_holds_until_the_window_of_the_next_sample() -> None:
    looks = [
        Sample(100, 30, values(1)),
        Sample(200, 40, values(3)),
        Sample(250, 0, None),
        Sample(300, 10, values(2)),
    ]
    assert list(intervals(looks, from_at=0)) == [
        Interval(70, 100, values(1)),
        Interval(100, 160, values(1)),
        Interval(160, 200, values(3)),
        Interval(200, 250, values(3)),
        Interval(290, 300, values(2)),
    ]


def test_there_is_no_interval_before_the_first_sample() -> None:
    assert list(intervals([Sample(100, 30, values(1))], from_at=100)) == []
    assert list(intervals([Sample(100, 30, values(1))], from_at=90)) == [Interval(90, 100, values(1))]


def test_a_clock_that_went_back_weighs_nothing() -> None:
    looks = [Sample(100, 0, values(1)), Sample(50, 0, values(2)), Sample(60, 0, values(3))]
    assert list(intervals(looks, from_at=0)) == [Interval(50, 60, values(2))]


@given(lookings())
def test_stretches_follow_each_other_without_overlap(looks: list[Sample]) -> None:
    known = list(intervals(looks, from_at=0))
    for before, after in pairwise(known):
        assert before.ends_at <= after.begins_at
    assert all(stretch.begins_at < stretch.ends_at for stretch in known)


@given(lookings(), st.sampled_from([7.0, 60.0, 300.0]))
def test_slots_add_up_to_their_intervals(looks: list[Sample], step_seconds: float) -> None:
    known = list(intervals(looks, from_at=0))
    slots = sum_slots(known, step_seconds)
    assert math.isclose(
        sum(sums.seconds for sums in slots.values()),
        sum(each.ends_at - each.begins_at for each in known),
        abs_tol=1e-6,
    )
    cores = sum((each.ends_at - each.begins_at) * (each.values[0] or 0.0) for each in known)
    assert math.isclose(sum(sums.totals[0] or 0.0 for sums in slots.values()), cores, abs_tol=1e-5)
    for sums in slots.values():
        assert sums.seconds <= step_seconds * (1 + 1e-9)
        mean = (sums.totals[0] or 0.0) / sums.seconds
        assert mean <= (sums.maxima[0] or 0.0) * (1 + 1e-9) + 1e-9
        assert sums.totals[1:] == [None] * (WIDTH - 1)


@given(lookings())
def test_merge_slots_slots_are_those_that_would_have_been_made(looks: list[Sample]) -> None:
    known = list(intervals(looks, from_at=0))
    made, directly = merge_slots(sum_slots(known, 300), 12), sum_slots(known, 3600)
    assert made.keys() == directly.keys()
    for slot, sums in made.items():
        assert sums.seconds == pytest.approx(directly[slot].seconds)
        assert sums.totals[0] == pytest.approx(directly[slot].totals[0])
        assert sums.maxima == directly[slot].maxima


@given(times, lengths, st.floats(0.5, 4_000))
def test_overlaps_cover_the_time_and_nothing_else(begins_at: float, seconds: float, step: float) -> None:
    found = list(overlaps(begins_at, begins_at + seconds, step))
    assert sum(each for _, each in found) == pytest.approx(seconds, abs=1e-6)
    assert [slot for slot, _ in found] == sorted({slot for slot, _ in found})


@given(times, st.floats(0, 5_000))
def test_shares_add_up_to_one_even_for_an_empty_interval(begins_at: float, seconds: float) -> None:
    assert sum(slot_shares(begins_at, begins_at + seconds, 300).values()) == pytest.approx(1.0)


def test_a_counter_that_went_back_had_begun_at_zero_again() -> None:
    assert counter_increase([10.0, 30.0], start=4.0) == 26.0
    assert counter_increase([10.0, 3.0, 5.0], start=4.0) == 6.0 + 3.0 + 2.0
    assert counter_increase([], start=4.0) == 0.0


def test_spooled_times_are_accepted_and_implausible_clocks_are_not() -> None:
    now = 1_800_000_000.0
    assert report_time(now - 3 * DAY, now) == now - 3 * DAY
    assert report_time(now + 30, now) == now + 30
    assert report_time(now + 3600, now) == now
    assert report_time(0.0, now) == now


@st.composite
def unordered_samples(draw: st.DrawFn) -> list[Sample]:
    """Samples of one subject, in the order of reports; clocks may have been set back."""
    found = []
    for _ in range(draw(st.integers(1, 6))):
        exists = draw(st.integers(0, 3)) > 0
        measured = tuple(draw(st.none() | st.floats(0, 64)) for _ in range(WIDTH))
        found.append(Sample(draw(times), draw(st.floats(0, 3_000)), measured if exists else None))
    return found


@given(st.lists(st.tuples(unordered_samples(), times), min_size=1, max_size=4))
def test_samples_of_many_in_columns_have_the_same_sums(subjects: list[tuple[list[Sample], float]]) -> None:
    rows = [
        (number, sample, from_at) for number, (samples, from_at) in enumerate(subjects) for sample in samples
    ]
    unknown = (None,) * WIDTH
    columns = SampleColumns(
        subject=np.array([number for number, _, _ in rows]),
        at=np.array([sample.at for _, sample, _ in rows]),
        window_seconds=np.array([sample.window_seconds for _, sample, _ in rows]),
        exists=np.array([sample.values is not None for _, sample, _ in rows]),
        values=np.array([sample.values or unknown for _, sample, _ in rows], dtype=np.float64),
        from_at=np.array([from_at for _, _, from_at in rows]),
    )
    found = sum_samples(columns, 300)
    sums = {
        (number, slot): sum_
        for number, (samples, from_at) in enumerate(subjects)
        for slot, sum_ in sum_slots(intervals(samples, from_at), 300).items()
    }
    in_columns = {
        (subject, slot): (seconds, totals)
        for subject, slot, seconds, totals in zip(
            found.subject.tolist(), found.slot.tolist(), found.seconds, found.totals.tolist(), strict=True
        )
        if seconds > 1e-9
    }
    assert in_columns.keys() == {key for key, sum_ in sums.items() if sum_.seconds > 1e-9}
    for key, (seconds, totals) in in_columns.items():
        assert seconds == pytest.approx(sums[key].seconds, abs=1e-6)
        expected = [math.nan if total is None else total for total in sums[key].totals]
        assert totals == pytest.approx(expected, abs=1e-6, nan_ok=True)

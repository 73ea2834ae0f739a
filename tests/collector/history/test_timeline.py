import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.history.timeline import (
    WIDTH,
    BucketSums,
    Samples,
    bucket_shares,
    hold,
    merge_buckets,
    overlaps,
    report_time,
    sum_buckets,
)

DAY = 86_400.0

times = st.floats(0, 10_000, allow_nan=False)
lengths = st.floats(0.001, 5_000)
steps = st.sampled_from([7.0, 60.0, 300.0, 3600.0])
Values = tuple[float | None, ...]
Period = tuple[float, float, Values]


class Sample(NamedTuple):
    """The values of a subject at one time; without values, it no longer exists."""

    at: float
    window_seconds: float
    values: Values | None


def columns_of(subjects: Mapping[int, Sequence[Sample]], from_at: float) -> Samples:
    rows = [(subject, each) for subject in sorted(subjects) for each in subjects[subject]]
    measured = [each.values or (None,) * WIDTH for _, each in rows]
    return Samples(
        subject=np.array([subject for subject, _ in rows]),
        at=np.array([each.at for _, each in rows], dtype=np.float64),
        window_seconds=np.array([each.window_seconds for _, each in rows], dtype=np.float64),
        exists=np.array([each.values is not None for _, each in rows]),
        values=np.array(measured, dtype=np.float64),
        from_at=np.full(len(rows), from_at),
    )


def values(cpu_cores: float) -> Values:
    return (cpu_cores, *[None] * (WIDTH - 1))


def obvious_periods(samples: Sequence[Sample], from_at: float) -> Iterator[Period]:
    """The rule of `hold` for one subject, step by step."""
    first = samples[0]
    begins_at = max(from_at, first.at - first.window_seconds)
    if first.values is not None and begins_at < first.at:
        yield begins_at, first.at, first.values
    for before, after in pairwise(samples):
        if after.at <= before.at:
            continue
        changed_at = after.at if after.values is None else max(before.at, after.at - after.window_seconds)
        if before.values is not None and changed_at > before.at:
            yield before.at, changed_at, before.values
        if after.values is not None and after.at > changed_at:
            yield changed_at, after.at, after.values


def obvious_sums(periods: Sequence[Period], step: float) -> dict[int, tuple[float, list[float], list[float]]]:
    """Seconds, totals and maxima by bucket, period by period; NaN is unknown."""
    found: dict[int, tuple[float, list[float], list[float]]] = {}
    for begins_at, ends_at, measured in periods:
        for bucket, seconds in overlaps(begins_at, ends_at, step):
            known, totals, maxima = found.get(bucket, (0.0, [math.nan] * WIDTH, [math.nan] * WIDTH))
            for place, value in enumerate(measured):
                if value is not None:
                    total, most = totals[place], maxima[place]
                    totals[place] = value * seconds + (0.0 if math.isnan(total) else total)
                    maxima[place] = value if math.isnan(most) else max(most, value)
            found[bucket] = known + seconds, totals, maxima
    return found


def held(samples: Sequence[Sample], from_at: float) -> list[Period]:
    """What `hold` answers for one subject, in the order of time."""
    periods = hold(columns_of({1: samples}, from_at))
    rows = zip(*(column.tolist() for column in periods[:3]), strict=True)
    return sorted((begins_at, ends_at, samples[row].values or ()) for begins_at, ends_at, row in rows)


@st.composite
def sampled(draw: st.DrawFn) -> list[Sample]:
    """Samples of one subject, in the order of reports; clocks may have been set back."""
    found = []
    for _ in range(draw(st.integers(1, 6))):
        exists = draw(st.integers(0, 3)) > 0
        measured = tuple(draw(st.none() | st.floats(0, 64)) for _ in range(WIDTH))
        found.append(Sample(draw(times), draw(st.floats(0, 3_000)), measured if exists else None))
    return found


def by_key(sums: BucketSums) -> dict[tuple[int, int], tuple[float, list[float], list[float]]]:
    rows = zip(*(column.tolist() for column in sums), strict=True)
    return {(subject, bucket): (seconds, *rest) for subject, bucket, seconds, *rest in rows if seconds > 1e-9}


def test_a_value_holds_until_the_window_of_the_next_sample() -> None:
    samples = [
        Sample(100, 30, values(1)),
        Sample(200, 40, values(3)),
        Sample(250, 0, None),
        Sample(300, 10, values(2)),
    ]
    assert held(samples, from_at=0) == [
        (70, 100, values(1)),
        (100, 160, values(1)),
        (160, 200, values(3)),
        (200, 250, values(3)),
        (290, 300, values(2)),
    ]


def test_there_is_no_period_before_the_first_sample() -> None:
    assert held([Sample(100, 30, values(1))], from_at=100) == []
    assert held([Sample(100, 30, values(1))], from_at=90) == [(90, 100, values(1))]


def test_a_clock_that_went_back_weighs_nothing() -> None:
    samples = [Sample(100, 0, values(1)), Sample(50, 0, values(2)), Sample(60, 0, values(3))]
    assert held(samples, from_at=0) == [(50, 60, values(2))]


def test_the_last_value_holds_until_a_time() -> None:
    samples = columns_of({1: [Sample(100, 10, values(1))], 2: [Sample(100, 10, None)]}, 0.0)
    periods = hold(samples.held_until(np.array([130.0, 130.0])))
    assert sorted(zip(periods.begins_at.tolist(), periods.ends_at.tolist(), strict=True)) == [
        (90, 100),
        (100, 130),
    ]


@given(st.lists(sampled(), min_size=1, max_size=4), times, steps)
def test_samples_of_many_have_the_sums_of_the_obvious_way(
    subjects: list[list[Sample]], from_at: float, step: float
) -> None:
    samples = columns_of(dict(enumerate(subjects)), from_at)
    found = by_key(sum_buckets(samples, hold(samples), step))
    obvious = {
        (subject, bucket): sums
        for subject, each in enumerate(subjects)
        for bucket, sums in obvious_sums(list(obvious_periods(each, from_at)), step).items()
        if sums[0] > 1e-9
    }
    assert found.keys() == obvious.keys()
    for key, (seconds, totals, maxima) in found.items():
        assert seconds == pytest.approx(obvious[key][0], abs=1e-6)
        assert totals == pytest.approx(obvious[key][1], abs=1e-6, nan_ok=True)
        assert maxima == pytest.approx(obvious[key][2], nan_ok=True)


@given(sampled())
def test_merged_buckets_are_those_that_would_have_been_made(samples: list[Sample]) -> None:
    columns = columns_of({1: samples}, 0.0)
    periods = hold(columns)
    fine = sum_buckets(columns, periods, 300)
    merged = by_key(merge_buckets(fine._replace(bucket=fine.bucket // 12)))
    directly = by_key(sum_buckets(columns, periods, 3600))
    assert merged.keys() == directly.keys()
    for key, (seconds, totals, maxima) in merged.items():
        assert seconds == pytest.approx(directly[key][0])
        assert totals == pytest.approx(directly[key][1], nan_ok=True)
        assert maxima == pytest.approx(directly[key][2], nan_ok=True)


@given(times, lengths, st.floats(0.5, 4_000))
def test_overlaps_cover_the_time_and_nothing_else(begins_at: float, seconds: float, step: float) -> None:
    found = list(overlaps(begins_at, begins_at + seconds, step))
    assert sum(each for _, each in found) == pytest.approx(seconds, abs=1e-6)
    assert [bucket for bucket, _ in found] == sorted({bucket for bucket, _ in found})


@given(times, st.floats(0, 5_000))
def test_shares_add_up_to_one_even_for_an_empty_interval(begins_at: float, seconds: float) -> None:
    assert sum(bucket_shares(begins_at, begins_at + seconds, 300).values()) == pytest.approx(1.0)


def test_spooled_times_are_accepted_and_implausible_clocks_are_not() -> None:
    now = 1_800_000_000.0
    assert report_time(now - 3 * DAY, now) == now - 3 * DAY
    assert report_time(now + 30, now) == now + 30
    assert report_time(now + 3600, now) == now
    assert report_time(0.0, now) == now

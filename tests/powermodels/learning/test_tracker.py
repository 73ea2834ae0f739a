from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from random import Random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from powermodels.common.interface import Load
from powermodels.fit.fitting import fit_unrated
from powermodels.learning.tracker import BEFORE, BINS, NOW, StratifiedMemory, Tracker
from powermodels.models.regression import CurveModel
from powermodels.models.samples import Sample
from tests.powermodels.fits import MADE, curve, loads, origin, random_load, true_watts

PERIOD_SECONDS = 5.0


@dataclass
class Clock:
    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds


def follow(
    tracker: Tracker,
    clock: Clock,
    seconds: float,
    meter: Callable[[Load], float],
    seed: int = 7,
) -> list[float]:
    """Let the tracker observe a meter for a while; the relative error before each reading."""
    random = Random(seed)  # noqa: S311 - not for secrets
    errors = []
    for _ in range(int(seconds / PERIOD_SECONDS)):
        clock.seconds += PERIOD_SECONDS
        load = random_load(random)
        watts = meter(load)
        errors.append(abs(tracker.terms(load).watts - watts) / watts)
        tracker.observe(load, watts)
    return errors


def is_due(tracker: Tracker) -> bool:
    """Read again each time, which a type checker does not expect of a property."""
    return tracker.refit_due


def fitted() -> CurveModel:
    coefficients = {"cpu": 60.0, "cpu_sqrt": 80.0, "disk_sqrt": 8.0, "network_sqrt": 12.0}
    return curve(100.0, coefficients, origin(100.0, 260.0))


def test_a_right_curve_stays_as_it_is() -> None:
    clock = Clock()
    tracker = Tracker(fitted(), clock)
    errors = follow(tracker, clock, 600, true_watts)
    assert max(errors) < 1e-9
    assert not is_due(tracker)
    assert tracker.error_ratio == 0.01


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(lambda load: true_watts(load) + 25, id="a fan"),
        pytest.param(lambda load: true_watts(load) - 20, id="a fan less"),
        pytest.param(lambda load: 100 + 0.6 * (true_watts(load) - 100), id="a lower frequency"),
        pytest.param(lambda load: 100 + 1.3 * (true_watts(load) - 100), id="a higher frequency"),
    ],
)
def test_within_five_minutes_of_a_change_the_error_is_under_3_percent(
    changed: Callable[[Load], float],
) -> None:
    clock = Clock()
    tracker = Tracker(fitted(), clock)
    follow(tracker, clock, 900, true_watts)
    before = follow(tracker, clock, 120, changed, seed=8)
    for _ in range(2):
        if tracker.refit_due:
            candidate = fit_unrated(tracker.request(), MADE)
            assert isinstance(candidate, CurveModel)
            tracker.offer(candidate)
        follow(tracker, clock, 90, changed, seed=9)
    after = follow(tracker, clock, 60, changed, seed=10)
    assert fmean(before[:5]) > 0.04
    assert fmean(after) < 0.03
    # No wild value on the way: all within what the meter showed, and a tenth.
    assert (
        0.9 * 80
        <= tracker.terms(Load(0.0)).watts
        <= tracker.terms(Load(1.0, 1.0, 1.0, 1.0)).watts
        <= 1.1 * 310
    )


def test_learned_model_stays_without_its_meter_and_has_an_age() -> None:
    clock = Clock()
    tracker = Tracker(fitted(), clock)
    assert "not yet compared" in tracker.describe()
    follow(tracker, clock, 600, lambda load: true_watts(load) + 25)
    fresh_ratio = tracker.error_ratio
    clock.seconds += 7200
    load = Load(0.3, 0.5, 0.0, 0.0)
    assert tracker.terms(load).watts == pytest.approx(true_watts(load) + 25, rel=0.02)
    assert tracker.stale_seconds == 7200
    assert "2:00:00 ago" in tracker.describe()
    assert fresh_ratio < tracker.error_ratio <= 0.05


def test_a_refit_is_due_past_2_watts_and_2_percent_only() -> None:
    for offset_watts, due in ((1.5, False), (2.5, False), (10.0, True)):
        clock = Clock()
        tracker = Tracker(fitted(), clock)
        # At some 150 W, 2 % are 3 W.
        follow(tracker, clock, 300, lambda load, more=offset_watts: true_watts(load) + more)  # type: ignore[misc]
        assert is_due(tracker) is due, offset_watts


def test_a_better_curve_is_taken_and_a_worse_one_is_not() -> None:
    clock = Clock()
    wrong = curve(140.0, {"cpu": 20.0, "cpu_sqrt": 20.0}, origin(100.0, 260.0))
    tracker = Tracker(wrong, clock)
    follow(tracker, clock, 600, true_watts)
    assert is_due(tracker)
    request = tracker.request()
    assert not is_due(tracker)  # not before it was answered, or much more was seen
    assert not tracker.offer(curve(200.0, {"cpu": 0.0}, origin(100.0, 260.0)))
    candidate = fit_unrated(request, MADE)
    assert isinstance(candidate, CurveModel)
    assert tracker.offer(candidate)
    assert fmean(follow(tracker, clock, 300, true_watts, seed=3)) < 0.005
    assert not is_due(tracker)


def test_rejected_refits_become_less_frequent() -> None:
    clock = Clock()
    wrong = curve(140.0, {"cpu": 20.0, "cpu_sqrt": 20.0}, origin(100.0, 260.0))
    tracker = Tracker(wrong, clock)
    requested = []
    for reading in range(600):
        follow(tracker, clock, PERIOD_SECONDS, true_watts, seed=reading)
        if tracker.refit_due:
            requested.append(reading)
            tracker.request()
            tracker.offer(wrong)
    waits = [after - before for before, after in pairwise(requested)]
    # Twelve readings until enough was held back to judge by, then ever more.
    assert waits[-4:] == [24, 48, 96, 192]


def test_nothing_is_taken_without_samples_to_judge_by() -> None:
    tracker = Tracker(fitted(), Clock())
    assert not tracker.offer(fitted())


def test_next_reading_follows_a_share_of_the_change() -> None:
    clock = Clock()
    tracker = Tracker(fitted(), clock)
    assert tracker.expected_watts(Load(0.25)) == pytest.approx(155)
    tracker.observe(Load(0.25), 155.0)
    assert tracker.expected_watts(Load(0.25)) == pytest.approx(155)
    assert 155 < tracker.expected_watts(Load(1.0)) < 200


def test_snapshot_estimates_the_same_as_the_tracker() -> None:
    clock = Clock()
    tracker = Tracker(fitted(), clock)
    follow(tracker, clock, 600, lambda load: true_watts(load) * 1.1)
    clock.seconds += 60
    snapshot = tracker.snapshot(MADE)
    for ratio in (0.0, 0.3, 1.0):
        assert snapshot.terms(Load(ratio)) == tracker.terms(Load(ratio))
    assert snapshot.read == MADE - timedelta(seconds=60)


readings = st.tuples(loads, st.floats(0, 2000), st.floats(-10, 1e6))


@given(st.lists(readings, max_size=30), loads)
def test_watts_are_bounded_and_rise_with_load_for_any_meter(
    seen: list[tuple[Load, float, float]], at: Load
) -> None:
    clock = Clock()
    tracker = Tracker(fitted(), clock)
    for load, watts, elapsed_seconds in seen:
        clock.seconds += elapsed_seconds
        tracker.observe(load, watts)
    highest_watts = max([260.0, *(watts for _, watts, _ in seen)])
    for watts in (tracker.terms(at).watts, tracker.expected_watts(at)):
        assert 0 <= watts <= 1.1 * highest_watts * (1 + 1e-9)
    along = [tracker.terms(Load(step / 40)).watts for step in range(41)]
    assert all(low <= high + 1e-6 for low, high in pairwise(along))


def test_memory_keeps_idle_and_peak_through_a_long_time_in_between() -> None:
    memory = StratifiedMemory()
    for index, ratio in enumerate([0.0] * 20 + [1.0] * 20 + [0.3] * 5000):
        memory.add(Sample(float(index), 100 + 100 * ratio, Load(ratio)))
    kept = memory.samples()
    assert {sample.load.cpu_ratio for sample in kept} == {0.0, 0.3, 1.0}
    assert len(kept) <= BINS * 40
    assert {sample.group for sample in kept if sample.load.cpu_ratio != 0.3} == {BEFORE}
    assert {sample.group for sample in kept if sample.load.cpu_ratio == 0.3} == {NOW}
    assert [sample.seconds for sample in kept] == sorted(sample.seconds for sample in kept)


def test_held_out_samples_are_in_no_fit() -> None:
    memory = StratifiedMemory()
    samples = [Sample(float(index), 100.0 + index, Load(0.3)) for index in range(25)]
    for sample in samples:
        memory.add(sample)
    assert len(memory.samples()) == 20
    assert len(memory.since(0.0)) == 25
    held_back_watts = [104.0, 109.0, 114.0, 119.0, 124.0]
    flat = curve(114.0, {}, origin(0.0, 1000.0))
    assert memory.error_ratio(flat) == pytest.approx(
        fmean(abs(114 - watts) / watts for watts in held_back_watts)
    )

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.common.arrays import Floats
from collector.decide.policies.least_watts.margins import (
    FEWEST_WINDOWS,
    Margins,
    Tail,
    learn_margins,
    student_tail,
)
from collector.decide.policies.least_watts.settings import LeastWattsSettings
from collector.decide.policies.least_watts.usage import learn_usage
from tests.collector.decide.policies.least_watts.builders import make_node, make_task
from tests.collector.snapshot.builders import assemble
from wire.resources import RESOURCES, Resource

_CPU, _MEMORY, _DISK, _NETWORK = range(4)
_RATIOS = np.full(len(RESOURCES), 0.01)
_residuals = st.lists(st.floats(-50, 50), max_size=40).map(lambda each: np.sort(np.array(each, dtype=float)))
_tails = st.builds(Tail, residuals=_residuals, assumed=st.floats(1, 1000))


def _margins(windows: Floats, *, cores: float = 4.0, ratios: Floats = _RATIOS) -> Margins:
    """The margins learned from the CPU use of tasks: one row of windows each."""
    tasks = [
        make_task(f"task-{row:03}", "a", float(each.mean()), deviation=float(each.std()), windows=each)
        for row, each in enumerate(windows)
    ]
    return learn_margins(learn_usage(assemble([make_node("a")], tasks)), ratios, cores, 3)


def _normal(tasks: int = 60, length: int = 100) -> Floats:
    return np.maximum(np.random.default_rng(1).normal(1.0, 0.2, size=(tasks, length)), 0.0)


@given(tail=_tails, one=st.floats(-1e300, 1e300), two=st.floats(-1e300, 1e300))
def test_the_share_above_falls_with_the_deviations(tail: Tail, one: float, two: float) -> None:
    low, high = tail.share_above(np.sort(np.array([one, two])))
    assert 0 <= high <= low <= 1


@given(tail=_tails, deviations=st.floats(0, 99))
def test_the_share_by_the_grid_is_that_of_a_point_just_below(tail: Tail, deviations: float) -> None:
    (about,) = tail.share_above_at_most(np.array([deviations]))
    exact, below = tail.share_above(np.array([deviations, deviations - 0.021]))
    # Of a point of the grid itself, the last digit of both may differ.
    assert exact * (1 - 1e-12) <= about <= below
    assert tail.share_above_at_most(np.array([np.inf, 200.0])).tolist() == [0.0, 0.0]


@given(tail=_tails, share=st.floats(0.0001, 0.5))
def test_deviations_are_the_fewest_that_are_exceeded_for_the_share(tail: Tail, share: float) -> None:
    deviations = tail.deviations(share)
    assert tail.share_above(np.array(deviations)) <= share or deviations == pytest.approx(100)
    assert tail.share_above(np.array(deviations - 1e-6)) > share or deviations == pytest.approx(0, abs=1e-6)


@given(share=st.floats(0.0001, 0.499))
def test_without_windows_the_share_above_is_the_assumed_one(share: float) -> None:
    tail = Tail(np.empty(0), 100.0)
    assert student_tail(np.array(tail.deviations(share)), 3) == pytest.approx(share, rel=1e-6)


@pytest.mark.parametrize(
    ("freedom", "deviations", "share"),
    [
        (3, 0.0, 0.5),
        (3, 2.353, 0.05),
        (3, 4.541, 0.01),
        (3, 10.215, 0.001),
        (5, 3.365, 0.01),
        (11, 2.718, 0.01),
    ],
)
def test_the_assumed_distribution_has_the_published_quantiles(
    freedom: int, deviations: float, share: float
) -> None:
    assert student_tail(np.array(deviations), freedom) == pytest.approx(share, rel=0.001)


def test_beyond_any_deviation_there_is_no_time_left() -> None:
    huge = np.finfo(np.float64).max
    assert student_tail(np.array([-huge, -np.inf, huge, np.inf]), 3) == pytest.approx([1.0, 1.0, 0.0, 0.0])


@pytest.mark.parametrize("length", [0, 1, FEWEST_WINDOWS])
def test_without_enough_windows_the_margin_is_the_assumed_one(length: int) -> None:
    margins = _margins(np.ones((5, length)) if length else np.ones((5, 1)))
    assert margins.deviations[_CPU] == pytest.approx(3.482, abs=0.001)
    assert "assumed until 13 windows" in margins.reason(0.01)
    assert "CPU margin 3.5 deviations for 1.0% of the time short" in margins.reason(0.01)


def test_the_reason_states_how_many_windows_the_margin_is_learned_from() -> None:
    margins = _margins(_normal())
    observed = margins.tails[_CPU].residuals.size
    assert observed > 0
    assert f"learned from {observed} windows" in margins.reason(0.01)


def test_steady_containers_need_a_smaller_margin_than_is_assumed() -> None:
    assert _margins(_normal()).deviations[_CPU] < _margins(np.ones((5, 1))).deviations[_CPU]


def test_the_heavier_the_tail_the_larger_the_margin() -> None:
    light = _normal()
    bursts = np.random.default_rng(2).random(light.shape) < 0.02
    heavy = np.where(bursts, 10.0, 0.8)
    assert _margins(heavy).deviations[_CPU] > _margins(light).deviations[_CPU] * 1.2


@given(one=st.floats(0.0001, 0.5), two=st.floats(0.0001, 0.5))
def test_the_longer_a_node_may_be_short_the_smaller_the_margin(one: float, two: float) -> None:
    strict, lax = sorted((one, two))
    windows = _normal(8, 20)
    margins = [_margins(windows, ratios=np.full(4, each)).deviations[_CPU] for each in (strict, lax)]
    assert margins[0] >= margins[1]


def test_containers_that_vary_together_raise_the_variance_of_a_node() -> None:
    generator = np.random.default_rng(3)
    wave = np.tile([0.5, 1.5], 30)
    apart = np.array([generator.permutation(wave) for _ in range(40)])
    together = np.tile(wave, (40, 1))
    independent = _margins(apart, cores=10.0).together[_CPU]
    assert independent == pytest.approx(1.0, abs=0.4)
    assert _margins(together, cores=10.0).together[_CPU] > 3 * independent


def test_memory_keeps_no_deviations_free() -> None:
    assert _margins(_normal()).deviations[_MEMORY] == 0


def test_each_resource_has_the_margin_of_its_own_accepted_share() -> None:
    settings = LeastWattsSettings(short_ratio=0.01, short_ratio_of={Resource.DISK: 0.1})
    assert settings.short_ratios.tolist() == [0.01, 0.01, 0.1, 0.01]
    deviations = _margins(np.ones((5, 1)), ratios=settings.short_ratios).deviations
    assert deviations[_DISK] < deviations[_NETWORK]


@pytest.mark.parametrize("windows", [np.zeros((4, 30)), np.ones((4, 30))])
def test_constant_use_gives_finite_margins(windows: Floats) -> None:
    margins = _margins(windows)
    assert np.isfinite(margins.deviations).all()
    assert np.isfinite(margins.together).all()

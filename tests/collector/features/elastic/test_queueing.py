"""Wattpack's own policy: a model from few observations, and decisions that follow from it."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.features.elastic.scaling import queueing
from collector.features.elastic.scaling.interface import ElasticDecision, Observation, Target
from collector.features.elastic.scaling.response import Response, observe_metric, predict_metric

_TARGET = Target(metric_max=0.1, cpu_step_cores=0.1, cool_down_seconds=0.0, decide_seconds=60.0)
_SERVICE_SECONDS = 0.01


def _answer(replicas: int, limit: float, cores: float) -> float:
    """Mean response time by processor sharing; long if the replicas do not keep up."""
    load = cores / (replicas * limit)
    return _SERVICE_SECONDS / limit / (1 - load) if load < 0.99 else 5.0


def _run(
    demands: list[float], target: Target = _TARGET, *, metric_known: bool = True, extra_seconds: float = 0.0
) -> list[tuple[Observation, ElasticDecision]]:
    """A service that always does what was decided, with no delay."""
    replicas, limit, learned, found = 1, 1.0, b"", []
    changed = None
    for place, cores in enumerate(demands):
        at = 1e9 + place * target.decide_seconds
        seen = Observation(
            at_seconds=at,
            replicas=replicas,
            cpu_limit_cores=limit,
            cpu_used_cores=min(cores, replicas * limit),
            metric=_answer(replicas, limit, cores) + extra_seconds if metric_known else None,
            changed_at_seconds=changed,
        )
        decision = queueing.decide(target, seen, learned)
        found.append((seen, decision))
        assert decision.cpu_limit_cores is not None
        if (decision.replicas, decision.cpu_limit_cores) != (replicas, limit):
            changed = at
        replicas, limit, learned = decision.replicas, decision.cpu_limit_cores, decision.learned
    return found


def _capacity(seen: Observation) -> float:
    assert seen.cpu_limit_cores is not None
    return seen.replicas * seen.cpu_limit_cores


@pytest.mark.slow
def test_a_steady_load_gets_what_it_needs_and_not_much_more() -> None:
    found = _run([2.0] * 40)
    assert all(seen.metric is not None and seen.metric <= 0.1 for seen, _ in found[2:])
    assert 2.1 < _capacity(found[-1][0]) < 3.5


@pytest.mark.slow
def test_a_step_is_met_at_the_next_decision() -> None:
    found = _run([0.5] * 20 + [4.0] * 10)
    assert [seen.metric is not None and seen.metric > 0.1 for seen, _ in found[20:]] == [True] + [False] * 9
    assert "demand is higher than usage" in found[20][1].reasons[0]


@pytest.mark.slow
def test_replicas_go_when_the_load_goes() -> None:
    found = _run([4.0] * 20 + [0.3] * 20)
    assert _capacity(found[19][0]) > 4
    assert _capacity(found[-1][0]) <= 1.5


@pytest.mark.slow
def test_a_ramp_is_anticipated_once_it_was_observed() -> None:
    ramp = [0.5 * 1.15**step for step in range(14)]
    found = _run((ramp + ramp[::-1]) * 4)
    assert not any(seen.metric is not None and seen.metric > 0.1 for seen, _ in found[-28:])


@pytest.mark.slow
def test_a_load_beyond_the_bounds_gets_all_that_they_allow() -> None:
    assert _capacity(_run([0.5] * 10 + [30.0] * 10)[-1][0]) == 10.0


@pytest.mark.slow
@given(st.lists(st.sampled_from([0.05, 0.5, 2.0, 6.0, 9.9, 30.0]), max_size=16))
def test_a_service_never_shrinks_while_no_size_is_likely_to_meet_its_target(demands: list[float]) -> None:
    for seen, decision in _run(demands):
        if any("no number of replicas" in each for each in decision.reasons):
            assert decision.cpu_limit_cores is not None
            assert decision.replicas * decision.cpu_limit_cores >= _capacity(seen) - 1e-9


@pytest.mark.slow
def test_a_metric_that_does_not_depend_on_cpu_is_not_fought_with_replicas() -> None:
    found = _run([0.2, 0.5, 0.4, 0.7, 0.3, 0.6] * 5, extra_seconds=0.5)
    assert "no number of replicas within the bounds is likely to meet the target" in found[-1][1].reasons
    assert _capacity(found[-1][0]) <= 2.0


def test_a_demand_above_the_capacity_breaks_the_target_even_if_the_metric_fell_with_load() -> None:
    """Probes of a service that just recovered are slow at low loads, so that CPU seems not to matter."""
    response = Response()
    for utilization, metric in ((0.3, 0.5), (0.8, 0.1), (0.5, 0.3)):
        response = observe_metric(response, 0.15, utilization, metric)
    metrics = predict_metric(response, 0.15, np.array([0.5, 0.9, 1.0, 1.6]))
    assert np.isfinite(metrics[:2]).all()
    assert np.isinf(metrics[2:]).all()


def test_nothing_is_taken_from_a_service_that_breaks_its_target() -> None:
    seen = Observation(at_seconds=1e9, replicas=6, cpu_limit_cores=1.0, cpu_used_cores=0.1, metric=0.5)
    decision = queueing.decide(_TARGET, seen, b"")
    assert decision.cpu_limit_cores is not None
    assert decision.replicas * decision.cpu_limit_cores >= 6.0 - 1e-9


def test_without_a_metric_utilization_stays_below_its_target() -> None:
    found = _run([3.0] * 10, metric_known=False)
    assert 3.0 / _capacity(found[-1][0]) <= _TARGET.utilization_target


def test_without_usage_replicas_are_added_while_the_target_is_broken() -> None:
    seen = Observation(at_seconds=1e9, replicas=2, cpu_limit_cores=1.0, cpu_used_cores=None, metric=0.15)
    assert queueing.decide(_TARGET, seen, b"").replicas == 3
    slow = msgspec.structs.replace(seen, metric=9.0)
    assert queueing.decide(_TARGET, slow, b"").replicas == 4
    fine = msgspec.structs.replace(seen, metric=0.01)
    assert queueing.decide(_TARGET, fine, b"").replicas == 2


@pytest.mark.slow
def test_reserved_cores_that_take_little_power_are_kept_more_readily() -> None:
    """What is reserved without being used costs idle power only."""

    learned = _run([1.0, 1.3, 0.8, 1.2, 0.9, 1.4] * 5)[-1][1].learned

    def capacity(used_watts: float | None, reserved_watts: float | None) -> float:
        total = 0.0
        for used_cores in np.arange(0.3, 1.9, 0.1).tolist():
            seen = Observation(
                at_seconds=1e9 + 30 * 60,
                replicas=2,
                cpu_limit_cores=1.0,
                cpu_used_cores=used_cores,
                metric=_answer(2, 1.0, used_cores),
                used_core_watts=used_watts,
                reserved_core_watts=reserved_watts,
            )
            decision = queueing.decide(_TARGET, seen, learned)
            assert decision.cpu_limit_cores is not None
            total += decision.replicas * decision.cpu_limit_cores
        return total

    assert capacity(90.0, 0.1) > capacity(None, None)
    assert capacity(0.0, 5.0) == capacity(None, None)
    assert capacity(1e308, 1e308) == capacity(None, None), "a node may claim any power"


def test_few_observations_do_not_show_that_cpu_does_not_matter() -> None:
    """While the first replicas start, the metric is high at a low load: the contrary of a queue."""
    learned, at = b"", 1e9
    for replicas, used, metric in ((1, 1.0, 4.9), (10, 1.25, 0.1), (10, 1.02, 0.019), (2, 0.73, 0.008)):
        at += 60
        seen = Observation(
            at_seconds=at, replicas=replicas, cpu_limit_cores=1.0, cpu_used_cores=used, metric=metric
        )
        decision = queueing.decide(_TARGET, seen, learned)
        learned = decision.learned
        assert decision.cpu_limit_cores is not None
        assert decision.replicas * decision.cpu_limit_cores > used


def test_a_service_that_got_too_little_gets_more() -> None:
    learned = _run([0.5, 0.6, 0.5] * 4)[-1][1].learned
    seen = Observation(at_seconds=1e9 + 720, replicas=1, cpu_limit_cores=0.1, cpu_used_cores=0.1, metric=5.0)
    decision = queueing.decide(_TARGET, seen, learned)
    assert decision.cpu_limit_cores is not None
    assert decision.replicas * decision.cpu_limit_cores >= 1.0


@pytest.mark.slow
def test_before_the_metric_is_known_nothing_is_taken_away() -> None:
    """A service that uses little CPU may be slow all the same."""
    seen = Observation(at_seconds=1e9, replicas=6, cpu_limit_cores=1.0, cpu_used_cores=0.3, metric=None)
    assert queueing.decide(_TARGET, seen, b"").replicas == 6
    first = msgspec.structs.replace(seen, metric=_answer(6, 1.0, 0.3))
    assert queueing.decide(_TARGET, first, b"").replicas < 6

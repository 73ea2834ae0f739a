"""Rules that every policy of the table keeps."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.features.elastic.scaling.interface import (
    ElasticDecision,
    ElasticPolicy,
    Observation,
    Target,
    Weights,
    cpu_levels,
)
from replay.contenders.table import ELASTIC_POLICIES

_POLICIES = tuple(ELASTIC_POLICIES.values())
_EVERY = pytest.mark.parametrize("policy", _POLICIES, ids=list(ELASTIC_POLICIES))


@st.composite
def _targets(draw: st.DrawFn) -> Target:
    fewest = draw(st.integers(1, 4))
    least = draw(st.sampled_from([0.1, 0.25, 0.5]))
    return Target(
        metric_max=draw(st.sampled_from([0.05, 0.1, 2.0])),
        replicas_min=fewest,
        replicas_max=fewest + draw(st.integers(0, 8)),
        cpu_min_cores=least,
        cpu_max_cores=least + draw(st.sampled_from([0.0, 0.5, 1.0, 2.5])),
        cpu_step_cores=draw(st.sampled_from([0.0, 0.1, 0.3])),
        weights=draw(st.sampled_from([Weights(), Weights(performance=0.3, resources=0.6, adaptation=0.1)])),
        cool_down_seconds=draw(st.sampled_from([0.0, 60.0, 180.0, 600.0])),
        decide_seconds=draw(st.sampled_from([15.0, 180.0])),
        explore=draw(st.booleans()),
        utilization_target=draw(st.sampled_from([0.5, 0.8])),
    )


_numbers = st.one_of(st.none(), st.floats(0, 20), st.sampled_from([float("nan"), float("inf"), -1.0]))


@st.composite
def _observations(draw: st.DrawFn, at_seconds: float, *, limited: bool = True) -> Observation:
    return Observation(
        at_seconds=at_seconds,
        replicas=draw(st.integers(0, 14)),
        cpu_limit_cores=draw(st.sampled_from([0.05, 0.1, 0.25, 1.0, 4.0])) if limited else None,
        cpu_used_cores=draw(_numbers),
        metric=draw(_numbers),
        changed_at_seconds=draw(st.one_of(st.none(), st.floats(0, 1000).map(lambda ago: at_seconds - ago))),
        effect_seconds=draw(st.one_of(st.none(), st.floats(0, 400))),
        used_core_watts=draw(st.one_of(st.none(), st.floats(0, 20))),
        reserved_core_watts=draw(st.one_of(st.none(), st.floats(0, 20), st.just(1e308))),
    )


@st.composite
def _histories(draw: st.DrawFn) -> tuple[Target, list[Observation]]:
    """A target, and observations of a service one decision apart."""
    target = draw(_targets())
    limited = draw(st.booleans())
    start = draw(st.floats(1e9, 2e9))
    count = draw(st.integers(1, 6))
    times = [start + place * target.decide_seconds for place in range(count)]
    return target, [draw(_observations(at, limited=limited)) for at in times]


def _follow(policy: ElasticPolicy, target: Target, seen: list[Observation]) -> list[ElasticDecision]:
    learned, decisions = b"", []
    for each in seen:
        decisions.append(policy(target, each, learned))
        learned = decisions[-1].learned
    return decisions


def _changes(seen: Observation, decision: ElasticDecision) -> bool:
    return (decision.replicas, decision.cpu_limit_cores) != (seen.replicas, seen.cpu_limit_cores)


@_EVERY
@settings(max_examples=30)
@given(history=_histories())
def test_a_change_is_within_the_bounds(
    policy: ElasticPolicy, history: tuple[Target, list[Observation]]
) -> None:
    target, seen = history
    for each, decision in zip(seen, _follow(policy, target, seen), strict=True):
        assert decision.reasons
        if not _changes(each, decision):
            continue
        assert target.replicas_min <= decision.replicas <= target.replicas_max
        if target.cpu_step_cores == 0 or each.cpu_limit_cores is None:
            assert decision.cpu_limit_cores == each.cpu_limit_cores
        else:
            assert decision.cpu_limit_cores is not None
            assert target.cpu_min_cores <= decision.cpu_limit_cores <= target.cpu_max_cores


@_EVERY
@settings(max_examples=30)
@given(history=_histories())
def test_no_change_during_the_cool_down(
    policy: ElasticPolicy, history: tuple[Target, list[Observation]]
) -> None:
    target, seen = history
    for each, decision in zip(seen, _follow(policy, target, seen), strict=True):
        if each.changed_at_seconds is None:
            continue
        if each.at_seconds - each.changed_at_seconds < target.cool_down_seconds - 1e-3:
            assert not _changes(each, decision)


@_EVERY
@settings(max_examples=30)
@given(history=_histories())
def test_only_a_service_that_meets_its_target_is_explored(
    policy: ElasticPolicy, history: tuple[Target, list[Observation]]
) -> None:
    target, seen = history
    for each, decision in zip(seen, _follow(policy, target, seen), strict=True):
        if decision.explored:
            assert target.explore
            assert each.metric is not None
            assert each.metric <= target.metric_max


@_EVERY
@settings(max_examples=30)
@given(history=_histories())
def test_a_decision_depends_on_nothing_else(
    policy: ElasticPolicy, history: tuple[Target, list[Observation]]
) -> None:
    """Also after a restart, when all that is left is what was learned, as bytes."""
    target, seen = history
    first = _follow(policy, target, seen)
    learned = b""
    for each, expected in zip(seen, first, strict=True):
        copied = msgspec.json.decode(
            msgspec.json.encode(target), type=Target
        )  # as from a store: no object is shared
        decision = policy(copied, each, bytes(bytearray(learned)))
        assert decision == expected
        learned = decision.learned


@pytest.mark.slow
@_EVERY
@settings(max_examples=30)
@given(garbage=st.binary(max_size=200), history=_histories(), cut=st.floats(0, 1))
def test_damaged_or_foreign_bytes_count_as_nothing(
    policy: ElasticPolicy, garbage: bytes, history: tuple[Target, list[Observation]], cut: float
) -> None:
    target, seen = history
    nothing = policy(target, seen[-1], b"")
    learned = _follow(policy, target, seen)[-1].learned
    others = [other(target, seen[-1], b"").learned for other in _POLICIES if other is not policy]
    for damaged in (garbage, learned[: int(cut * (len(learned) - 1))], *others):
        assert policy(target, seen[-1], damaged) == nothing


@pytest.mark.slow
@_EVERY
@settings(max_examples=30)
@given(place=st.floats(0, 1), byte=st.integers(0, 255), history=_histories())
def test_one_wrong_byte_leads_to_a_valid_decision(
    policy: ElasticPolicy, place: float, byte: int, history: tuple[Target, list[Observation]]
) -> None:
    target, seen = history
    learned = bytearray(_follow(policy, target, seen)[-1].learned)
    learned[int(place * (len(learned) - 1))] = byte
    decision = policy(target, seen[-1], bytes(learned))
    if _changes(seen[-1], decision):
        assert target.replicas_min <= decision.replicas <= target.replicas_max


@_EVERY
def test_without_observations_nothing_changes(policy: ElasticPolicy) -> None:
    seen = Observation(at_seconds=1e9, replicas=3, cpu_limit_cores=1.0, cpu_used_cores=None, metric=None)
    decision = policy(Target(metric_max=0.1, cpu_step_cores=0.1), seen, b"")
    assert not _changes(seen, decision)
    assert "unknown" in decision.reasons[0]


@_EVERY
def test_a_service_out_of_its_bounds_is_brought_back(policy: ElasticPolicy) -> None:
    target = Target(metric_max=0.1, replicas_max=5, cpu_max_cores=1.0, cpu_step_cores=0.1)
    seen = Observation(at_seconds=1e9, replicas=9, cpu_limit_cores=2.0, cpu_used_cores=9.0, metric=0.02)
    decision = policy(target, seen, b"")
    assert decision.replicas <= target.replicas_max
    assert decision.cpu_limit_cores is not None
    assert decision.cpu_limit_cores <= target.cpu_max_cores


def test_bounds_that_someone_may_write_on_a_service_do_not_take_the_memory_of_the_collector() -> None:
    absurd = Target(
        metric_max=1.0,
        replicas_max=10_000,
        cpu_min_cores=1e-6,
        cpu_max_cores=10_000.0,
        cpu_step_cores=1e-9,
    )
    assert cpu_levels(absurd, 1.0)[0] == 1e-6
    assert len(cpu_levels(absurd, 1.0)) == 2
    assert 5000 <= len(cpu_levels(msgspec.structs.replace(absurd, replicas_max=1), 1.0)) <= 10_000


@_EVERY
@pytest.mark.parametrize("metric", [1e-300, 1e200, 1e308])
def test_absurd_metrics_are_no_error(policy: ElasticPolicy, metric: float) -> None:
    target = Target(metric_max=0.2, replicas_max=5, cpu_step_cores=0.1)
    learned = b""
    for number in range(3):
        seen = Observation(
            at_seconds=1000.0 + 60 * number,
            replicas=2,
            cpu_limit_cores=1.0,
            cpu_used_cores=1.0,
            metric=metric,
        )
        decided = policy(target, seen, learned)
        learned = decided.learned
        assert 1 <= decided.replicas <= 5

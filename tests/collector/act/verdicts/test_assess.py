"""Verdicts on decisions about alerts, and about power."""

import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.act.records import (
    AlertEffect,
    AnsweredAlert,
    Decision,
    Effect,
    Goal,
    Step,
    StepState,
    Trigger,
    Verdict,
)
from collector.act.verdicts.assess import AlertSpan, Evidence, assess, promised_watts
from collector.act.verdicts.saving import PowerEvidence
from collector.decide.policies.actions import PowerOff, Scale
from collector.history.interface import Account
from tests.collector.act.verdicts.builders import AT, decided, moved
from wire.resources import Resource

CPU = ("alpha", Resource.CPU)


def verdict(*spans: AlertSpan, seconds: float = 600.0) -> Verdict:
    evidence = Evidence(now=AT + 10 + seconds, alerts=spans, levels={CPU: 0.5})
    return assess(decided(), seconds, evidence)


def effect(found: Verdict) -> AlertEffect:
    (alert,) = found.alerts
    return alert


def test_an_alert_that_ended_is_what_the_decision_promised() -> None:
    found = verdict(AlertSpan(*CPU, AT - 60, AT + 40))
    assert found.effect is Effect.HELPED
    assert effect(found).closed_seconds == 40
    assert (effect(found).level_before, effect(found).level_after) == (0.96, 0.5)
    assert (found.short_seconds_before, found.short_seconds_after) == (60, 30)
    assert found.moves == 1
    assert found.cost_joules == 20


@pytest.mark.parametrize(
    "spans",
    [
        [AlertSpan(*CPU, AT - 60)],
        [AlertSpan(*CPU, AT - 60, AT + 700)],
        [AlertSpan(*CPU, AT - 60, AT + 40), AlertSpan(*CPU, AT + 500)],
    ],
    ids=["it is open", "it ended later", "another followed"],
)
def test_an_alert_that_is_open_means_that_the_decision_was_useless(spans: list[AlertSpan]) -> None:
    found = verdict(*spans)
    assert found.effect is Effect.USELESS
    assert effect(found).is_open


def test_alerts_that_were_left_alone_are_what_it_is_compared_with() -> None:
    alone = [
        AlertSpan(f"node{number}", Resource.CPU, AT - 90_000, AT - 90_000 + 100 * number)
        for number in range(10)
    ]
    # One that lasted 60 s ends within 600 s more in six of nine cases; the others last longer or end before.
    assert effect(verdict(AlertSpan(*CPU, AT - 60), *alone)).alone_ratio == pytest.approx(6 / 9)
    assert effect(verdict(AlertSpan(*CPU, AT - 60), *alone[:3])).alone_ratio is None


def test_an_alert_that_a_decision_answered_was_not_left_alone() -> None:
    alone = [AlertSpan(f"node{each}", Resource.CPU, AT - 90_000, AT - 89_500) for each in range(4)]
    answered = AlertSpan("beta", Resource.CPU, AT - 90_000, AT - 89_500)
    other = decided(id="other", at=AT - 89_900, ended_at=AT - 89_890)
    evidence = Evidence(now=AT + 610, alerts=[AlertSpan(*CPU, AT - 60), *alone, answered])
    assert effect(assess(decided(), 600, evidence)).alone_ratio == 1
    with_other = Evidence(now=evidence.now, alerts=evidence.alerts, others=[other])
    assert effect(assess(decided(), 600, with_other)).alone_ratio is None


@pytest.mark.slow
def test_a_verdict_on_a_large_cluster_takes_no_minutes() -> None:
    """Of 60,000 alerts, and the thousand decisions that the journal keeps."""
    spans = [
        AlertSpan(f"node{each % 6000}", Resource.CPU, AT - each, AT - each / 2) for each in range(1, 60_000)
    ]
    steps = [moved(source=f"node{each}") for each in range(20)]
    others = [decided(*steps, id=f"other{each}", at=AT - each) for each in range(1000)]
    alerts = tuple(AnsweredAlert(node=f"node{each}", resource=Resource.CPU) for each in range(20))
    began = time.thread_time()
    found = assess(decided(*steps, alerts=alerts), 600, Evidence(now=AT + 610, alerts=spans, others=others))
    assert len(found.alerts) == 20
    assert time.thread_time() - began < 5


@given(st.lists(st.tuples(st.floats(-900, 900), st.floats(0, 900)), max_size=10))
def test_time_short_is_at_most_the_period_however_alerts_overlap(parts: list[tuple[float, float]]) -> None:
    spans = [AlertSpan(*CPU, AT + begin, AT + begin + length) for begin, length in parts]
    found = verdict(*spans)
    seconds = range(10, 610)
    short = sum(
        any(each.opened_at <= AT + second + 0.5 < (each.closed_at or 0) for each in spans)
        for second in seconds
    )
    assert found.short_seconds_after == pytest.approx(short, abs=len(spans) + 1)
    assert 0 <= (found.short_seconds_before or 0) <= 600


def test_the_power_of_emptying_a_node_counts_only_if_it_was_switched_off() -> None:
    off = PowerOff(node="alpha", reasons=(), gain_watts=30)
    moves = moved("a"), moved("b")
    steps = [
        moved(action=off, service=None, reliefs=(), state=state)
        for state in (StepState.VERIFIED, StepState.FAILED)
    ]
    done = decided(*moves, steps[0], watts_before=200.0, watts_after=175.0)
    assert promised_watts(done) == 25
    assert promised_watts(decided(*moves, steps[1], watts_before=200.0, watts_after=175.0)) == 0
    refused = moved("c", state=StepState.REFUSED)
    assert promised_watts(decided(*moves, refused, watts_before=200.0, watts_after=175.0)) == 20


def power(after: float) -> PowerEvidence:
    def period(watts: float) -> dict[str, Account]:
        return {
            name: Account(key=name, joules=each * 3000, covered_seconds=3000.0)
            for name, each in (("alpha", watts), ("beta", 100.0), ("gamma", 300.0))
        }

    before = [period(100.0 + each) for each in (1, -1, 2, -2, 1, -1)]
    return PowerEvidence(seconds=3000, before=before, after=period(after))


@pytest.mark.parametrize(
    ("after", "promised", "expected"),
    [(60, 40, Effect.HELPED), (80, 90, Effect.LESS), (101, 40, Effect.USELESS), (99, 3, Effect.UNKNOWN)],
)
def test_power_is_compared_with_nothing_and_with_the_promise(
    after: float, promised: float, expected: Effect
) -> None:
    decision = decided(trigger=Trigger.TIMER, watts_before=500.0, watts_after=500.0 - promised)
    found = assess(decision, 3600, Evidence(now=AT + 4000, power=power(after)))
    assert found.saved_watts == pytest.approx(100 - after)
    assert found.promised_watts == promised
    assert found.effect is expected


def test_switching_a_node_off_costs_energy_too() -> None:
    off = PowerOff(node="alpha", reasons=(), cost_joules=600.0)
    decision = decided(moved(), Step(action=off, state=StepState.VERIFIED))
    assert assess(decision, 600, Evidence(now=AT + 610)).cost_joules == 620
    refused = decided(moved(), Step(action=off, state=StepState.REFUSED))
    assert assess(refused, 600, Evidence(now=AT + 610)).cost_joules == 20


def test_two_decisions_on_the_same_nodes_are_not_told_apart() -> None:
    decision = decided(trigger=Trigger.TIMER, watts_before=500.0, watts_after=460.0)
    other = decided(id="other", at=AT + 100)
    found = assess(decision, 3600, Evidence(now=AT + 4000, power=power(60), others=[decision, other]))
    assert found.saved_watts is None
    assert found.why_unknown == "decision other changed the same nodes meanwhile"
    assert found.meanwhile == ("other",)
    assert found.effect is Effect.UNKNOWN


def test_a_scaled_service_is_judged_by_its_metric_unless_another_policy_scaled_it_too() -> None:
    action = Scale(service="web", replicas=3, replicas_before=2, reasons=())
    decision = decided(moved(action=action, service="web", reliefs=()), trigger=Trigger.ELASTIC, alerts=())
    later = decided(*decision.steps, id="later", at=AT + 60, trigger=Trigger.ELASTIC, alerts=())
    other = msgspec.structs.replace(later, policy="brownout")
    met, missed = (Goal(what="metric of web", value=value, most=0.2) for value in (0.1, 0.3))

    def found(goal: Goal, *others: Decision) -> Effect:
        return assess(decision, 600, Evidence(now=AT + 610, goal=goal, others=others)).effect

    assert found(met) is Effect.HELPED
    assert found(missed) is Effect.USELESS
    assert found(missed, later) is Effect.USELESS
    assert found(missed, other) is Effect.UNKNOWN

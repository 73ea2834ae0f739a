"""What verdicts teach: the caution of deciders, and answers that are not given again."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.act.records import DecisionOutcome, Effect, StepState
from collector.act.verdicts.learning import badness, effects_of, spent_answers
from tests.collector.act.verdicts.builders import AT, decided, judged, moved
from wire.resources import Resource

CPU = ("alpha", Resource.CPU)
THERE = {"alpha": ("steady",)}


def caution(closed: int, useless: int) -> float:
    verdicts = [judged(closed=True)] * closed + [judged(closed=False)] * useless
    (found,) = effects_of([decided(id=str(at), verdicts=(each,)) for at, each in enumerate(verdicts)], AT)
    return found.caution


@given(st.integers(0, 30), st.integers(0, 30))
def test_caution_grows_with_useless_decisions_and_shrinks_with_those_that_help(
    closed: int, useless: int
) -> None:
    if closed + useless:
        found = caution(closed, useless)
        assert 1 <= found <= 10
        assert caution(closed, useless + 1) >= found >= caution(closed + 1, useless)


def test_one_useless_decision_teaches_little_and_ten_much() -> None:
    assert caution(10, 0) == 1
    assert 1 < caution(0, 1) < 1.5
    assert caution(0, 10) > 3


def test_a_decider_that_saves_less_than_it_promises_becomes_cautious_and_says_so() -> None:
    verdict = judged(closed=True, alerts=(), promised_watts=40.0, saved_watts=10.0, error_watts=5.0)
    uncertain = judged(closed=True, alerts=(), promised_watts=40.0, saved_watts=10.0, error_watts=35.0)
    (found,) = effects_of([decided(policy="least-watts", verdicts=(verdict,))], AT)
    assert found.caution == pytest.approx(40 / 15)
    assert found.why == "10.0 W ±5.0 of 40.0 W promised were saved: at most 38% of the promise"
    assert found.saved_joules == 6000
    (found,) = effects_of([decided(policy="least-watts", verdicts=(uncertain,))], AT)
    assert (found.caution, found.why) == (1, "")


def test_a_decider_that_weighs_no_gains_is_not_called_cautious() -> None:
    """It would stop as many services as before."""
    useless = [decided(id=str(each), verdicts=(judged(closed=False),)) for each in range(20)]
    (draps,) = effects_of(useless, AT)
    (brownout,) = effects_of([msgspec.structs.replace(each, policy="brownout") for each in useless], AT)
    assert draps.caution > 1
    assert (brownout.caution, brownout.why, brownout.alerts) == (1.0, "", 20)


def test_alerts_that_would_have_ended_anyway_are_no_merit() -> None:
    def of(alone: float | None) -> float:
        verdict = judged(closed=True)
        (alert,) = verdict.alerts
        changed = type(alert)(
            **{name: getattr(alert, name) for name in alert.__struct_fields__} | {"alone_ratio": alone}
        )
        verdicts = judged(closed=True, alerts=(changed,) * 10)
        return effects_of([decided(verdicts=(verdicts,))], AT)[0].caution

    assert of(None) == of(0.0) == 1
    assert of(0.9) > 2


def test_decisions_of_earlier_weeks_and_those_that_changed_nothing_do_not_count() -> None:
    useless = judged(closed=False)
    assert effects_of([decided(verdicts=(useless,))], AT + 1) == []
    assert effects_of([decided(outcome=DecisionOutcome.REFUSED)], AT) == []


def test_the_worst_decision_comes_first() -> None:
    decisions = [
        decided(id="helped", verdicts=(judged(closed=True),)),
        decided(id="useless", verdicts=(judged(closed=False),)),
        decided(id="less", verdicts=(judged(closed=True, effect=Effect.LESS),)),
    ]
    assert [each.id for each in sorted(decisions, key=badness, reverse=True)] == ["useless", "less", "helped"]


def test_a_useless_answer_is_not_given_again_until_something_changes() -> None:
    decision, again = (
        decided(verdicts=(judged(closed=False),)),
        moved(state=StepState.PLANNED, answers_alert=True),
    )
    why = spent_answers([decision], AT + 700, THERE).reason(again)
    assert why == (
        "move hog from alpha to beta did not end the shortage of cpu of alpha (decision d1, 12 min ago): not"
        " tried again for a day, or until other services run there"
    )
    other = moved("other", state=StepState.PLANNED)
    assert spent_answers([decision], AT + 700, THERE).reason(other) is None, "another answer"
    changed = {"alpha": ("new", "steady")}
    assert spent_answers([decision], AT + 700, changed).reason(again) is None, "other services run there"
    assert spent_answers([decision], AT + 90_000, THERE).reason(again) is None, "a day has passed"
    helped = decided(verdicts=(judged(closed=True),))
    assert spent_answers([helped], AT + 700, THERE).reason(again) is None, "it helped"


def test_an_answer_is_not_repeated_before_its_effect_is_known() -> None:
    why = spent_answers([decided()], AT + 90, THERE).reason(moved(answers_alert=True))
    assert why is not None
    assert why.endswith("what it brings is not known yet")


def test_a_part_of_an_answer_can_be_completed() -> None:
    """Too little was moved for the alert to end: this says nothing about the answer."""
    part = decided(moved(taken=0.1), verdicts=(judged(closed=False),))
    assert spent_answers([part], AT + 700, THERE).reason(moved()) is None


def test_an_answer_that_is_spent_for_one_shortage_may_end_another() -> None:
    spent = spent_answers([decided(verdicts=(judged(closed=False),))], AT + 700, THERE)
    (cpu,) = moved().reliefs
    disk = type(cpu)(node="alpha", resource=Resource.DISK, ratio=0.5)
    assert spent.reason(moved(reliefs=(cpu, disk))) is None
    assert set(spent.by_alert) == {CPU}


def test_a_stop_of_an_optional_service_is_repeated_unless_a_verdict_calls_it_useless() -> None:
    stop = moved(answers_alert=False)
    assert spent_answers([decided()], AT + 90, THERE).reason(stop) is None
    useless = decided(verdicts=(judged(closed=False),))
    assert spent_answers([useless], AT + 700, THERE).reason(stop) is not None


def test_of_alerts_the_first_verdict_counts() -> None:
    """After a day, another alert is open, and all alerts that were left alone have ended."""
    daily = judged(closed=False, after_seconds=86_400.0)
    (found,) = effects_of([decided(verdicts=(judged(closed=True), daily))], AT)
    assert (found.effects, found.closed_alerts, found.caution) == ({Effect.HELPED: 1}, 1, 1)
    assert spent_answers([decided(verdicts=(judged(closed=True), daily))], AT + 700, THERE).by_alert == {}

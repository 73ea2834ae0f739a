"""General rules of the ledger, for any events."""

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.features.promises.ledger.events import Ending, LifecycleEvent, LifecycleKind
from collector.features.promises.ledger.instances import Record
from collector.features.promises.ledger.ledger import Ledger
from collector.features.promises.ledger.promises import ServiceMode
from tests.collector.features.promises.ledger.builders import (
    PROMISES,
    by_service,
    by_slot,
    ended,
    ledger_of,
    preempted,
    started,
    waiting,
)

MODES = st.sampled_from(ServiceMode)
NAMES = st.sampled_from(sorted(PROMISES))
END = 1000


@st.composite
def any_events(draw: st.DrawFn) -> list[LifecycleEvent]:
    """Events of a few slots, also contradictory ones."""
    event = st.builds(
        LifecycleEvent,
        at=st.integers(0, 30).map(float),
        kind=st.sampled_from(LifecycleKind),
        service=st.sampled_from(["web", "api"]),
        incarnation=st.sampled_from(["a", "b", "c"]),
        slot=st.sampled_from(["1", "2"]),
        node=st.sampled_from(["", "n1", "n2"]),
        startup_seconds=st.sampled_from([None, 1.0, 7.0]),
        ending=st.sampled_from([None, *Ending]),
    )
    events = draw(st.lists(event, max_size=30))
    # An incarnation belongs to one slot.
    return [
        LifecycleEvent(
            at=each.at,
            kind=each.kind,
            service=each.service,
            incarnation=f"{each.slot}-{each.incarnation}",
            slot=each.slot,
            node=each.node,
            startup_seconds=each.startup_seconds,
            ending=each.ending,
        )
        for each in events
    ]


@st.composite
def service_events(draw: st.DrawFn) -> list[LifecycleEvent]:
    """A service as orchestrators run it: a slot waits, runs, ends, and is replaced at once, before `END`."""
    events = []
    for slot in range(draw(st.integers(1, 4))):
        durations = draw(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 60)), min_size=1, max_size=6))
        is_ended = draw(st.booleans())
        at = float(draw(st.integers(0, 100)))
        for number, (wait, run) in enumerate(durations):
            name = f"{slot}-{number}"
            events += [waiting(at, name, str(slot)), started(at + wait, name, str(slot), node="n1")]
            at += wait + run
            if number < len(durations) - 1 or is_ended:
                events.append(preempted(at, name, str(slot)))
        if is_ended:
            events.append(waiting(at, f"{slot}-last", str(slot)))
    return events


def _comparable(ledger: Ledger) -> Any:
    standings = ledger.standings(END)
    return by_slot(standings), by_service(standings)


def _assert_same(one: Ledger, other: Ledger) -> None:
    for left, right in zip(_comparable(one), _comparable(other), strict=True):
        assert left.keys() == right.keys()
        for key, columns in left.items():
            assert columns == pytest.approx(right[key], nan_ok=True), key


def _set_up(mode: ServiceMode, promise: str) -> Ledger:
    ledger = Ledger(PROMISES)
    for service in ("web", "api"):
        ledger.set_service(service, promise, mode)
    return ledger


@given(events=any_events(), mode=MODES, promise=NAMES, data=st.data())
def test_neither_order_nor_repetition_matters(
    events: list[LifecycleEvent], mode: ServiceMode, promise: str, data: st.DataObject
) -> None:
    again = data.draw(
        st.permutations(events + data.draw(st.lists(st.sampled_from(events)) if events else st.just([])))
    )
    one, other = _set_up(mode, promise), _set_up(mode, promise)
    for event in events:
        one.apply(event)
    for event in again:
        other.apply(event)
    _assert_same(one, other)


@given(events=any_events(), mode=MODES, promise=NAMES)
def test_time_is_conserved_and_availability_is_a_ratio(
    events: list[LifecycleEvent], mode: ServiceMode, promise: str
) -> None:
    standings = ledger_of(events, mode, promise).standings(END)
    for columns in by_slot(standings).values():
        parts = [columns[name] for name in ("running_seconds", "waiting_seconds", "discarded_seconds")]
        assert all(part >= 0 for part in parts)
        if mode is not ServiceMode.BATCH:
            assert sum(parts) == pytest.approx(columns["admitted_seconds"])
        assert 0 <= columns["availability"] <= 1
        assert 0 <= columns["preemption_ratio"] <= 1
    for columns in by_service(standings).values():
        assert 0 <= columns["availability_ratio"] <= 1
        assert columns["penalty_seconds"] >= 0


@given(events=service_events(), mode=MODES, promise=NAMES)
def test_time_is_conserved_in_every_mode(
    events: list[LifecycleEvent], mode: ServiceMode, promise: str
) -> None:
    for columns in by_slot(ledger_of(events, mode, promise).standings(END)).values():
        parts = [columns[name] for name in ("running_seconds", "waiting_seconds", "discarded_seconds")]
        assert sum(parts) == pytest.approx(columns["admitted_seconds"])


@given(events=service_events(), mode=MODES, promise=NAMES)
def test_slack_is_negative_if_the_promise_is_broken(
    events: list[LifecycleEvent], mode: ServiceMode, promise: str
) -> None:
    target = PROMISES[promise].availability
    for columns in by_slot(ledger_of(events, mode, promise).standings(END)).values():
        if columns["availability"] < target - 1e-9:
            assert columns["slack_seconds"] < 0
        # A running batch instance would lose its present run.
        elif columns["availability"] > target + 1e-9 and not (
            mode is ServiceMode.BATCH and columns["is_running"]
        ):
            assert columns["slack_seconds"] > 0


@given(events=service_events(), mode=MODES, promise=NAMES)
def test_waiting_for_the_time_to_violation_brings_availability_to_the_target(
    events: list[LifecycleEvent], mode: ServiceMode, promise: str
) -> None:
    target = PROMISES[promise].availability
    for key, columns in by_slot(ledger_of(events, mode, promise).standings(END)).items():
        slack = columns["slack_seconds"]
        if slack <= 0:
            continue
        ledger = ledger_of(events, mode, promise)
        if columns["is_running"]:
            ledger.apply(preempted(END, columns["incarnations"], columns["slots"]))
        if slack == math.inf:
            assert by_slot(ledger.standings(END + 1e7))[key]["availability"] > target - 1e-3
            continue
        assert by_slot(ledger.standings(END + slack))[key]["availability"] == pytest.approx(target)
        assert by_slot(ledger.standings(END + slack + 10))[key]["availability"] < target


@given(events=service_events(), mode=MODES, data=st.data())
def test_a_lost_end_or_creation_changes_nothing(
    events: list[LifecycleEvent], mode: ServiceMode, data: st.DataObject
) -> None:
    """The creation of the next incarnation shows the end, and the end shows the next creation."""
    created = {each.at for each in events if each.kind is LifecycleKind.WAITING}
    first = {each.slot: each.at for each in reversed(events) if each.kind is LifecycleKind.WAITING}
    redundant = [
        each
        for each in events
        if (each.kind is LifecycleKind.ENDED and each.at in created)
        or (each.kind is LifecycleKind.WAITING and each.at > first[each.slot])
    ]
    if not redundant:
        return
    lost = data.draw(st.sampled_from(redundant))
    whole = by_slot(ledger_of(events, mode).standings(END))
    lossy = by_slot(ledger_of([each for each in events if each is not lost], mode).standings(END))
    for key, columns in whole.items():
        for name in (
            "running_seconds",
            "waiting_seconds",
            "discarded_seconds",
            "availability",
            "slack_seconds",
        ):
            assert lossy[key][name] == pytest.approx(columns[name])


@given(events=service_events(), data=st.data())
def test_a_lost_start_changes_only_its_own_run(events: list[LifecycleEvent], data: st.DataObject) -> None:
    lost = data.draw(st.sampled_from([each for each in events if each.kind is LifecycleKind.STARTED]))
    end = next(
        (
            each.at
            for each in events
            if each.kind is LifecycleKind.ENDED and each.incarnation == lost.incarnation
        ),
        END,
    )
    whole = by_slot(ledger_of(events).standings(END))
    lossy = by_slot(ledger_of([each for each in events if each is not lost]).standings(END))
    for key, columns in whole.items():
        missing = end - lost.at if key == ("web", lost.slot) else 0
        assert lossy[key]["running_seconds"] == pytest.approx(columns["running_seconds"] - missing)
        assert lossy[key]["waiting_seconds"] == pytest.approx(columns["waiting_seconds"] + missing)


@pytest.mark.slow
@given(turns=st.integers(70, 300), mode=MODES)
def test_a_long_life_equals_the_sum_of_its_parts(turns: int, mode: ServiceMode) -> None:
    """Enough incarnations that most are folded."""
    events, at = [], 0.0
    for turn in range(turns):
        name = f"a{turn}"
        events += [waiting(at, name), started(at + turn % 5, name), ended(at + turn % 5 + 3, name)]
        at += turn % 5 + 3
    columns = by_slot(ledger_of(events, mode).standings(at))["web", "1"]
    ran = columns["running_seconds"] + columns["discarded_seconds"]
    assert ran == pytest.approx(turns * 3)
    assert columns["waiting_seconds"] == pytest.approx(at - turns * 3)


@given(events=service_events(), mode=MODES, turns=st.sampled_from([0, 100]))
def test_a_restored_ledger_is_the_same(events: list[LifecycleEvent], mode: ServiceMode, turns: int) -> None:
    events = [*events, *(each for turn in range(turns) for each in _turn(END + turn * 10.0))]
    ledger = ledger_of(events, mode)
    restored = Ledger(PROMISES)
    restored.set_service("web", "silver", mode)
    for _, slot in by_slot(ledger.standings(2 * END)):
        stored = msgspec.msgpack.encode(ledger.record("web", slot))
        restored.restore("web", slot, msgspec.msgpack.decode(stored, type=Record))
    for event in events:
        assert not restored.apply(event)
    for key, columns in by_slot(ledger.standings(2 * END)).items():
        again = by_slot(restored.standings(2 * END))[key]
        assert columns == pytest.approx(again, nan_ok=True)


def _turn(at: float) -> list[LifecycleEvent]:
    return [
        waiting(at, f"t{at}", "0"),
        started(at + 2, f"t{at}", "0", node="n2"),
        ended(at + 9, f"t{at}", "0"),
    ]

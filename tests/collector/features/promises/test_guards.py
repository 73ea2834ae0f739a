"""No policy breaks a promise, but the one that keeps them."""

from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.act.guards import GuardContext, first_refusal
from collector.act.records import Step, StepState
from collector.act.steps import planned_step
from collector.common.orchestrator import OrchestratorState, ServiceView, TaskView
from collector.config import ControlConfig
from collector.config.schedule import Schedule
from collector.decide.policies.actions import Action, Cut, Kill, Move, PowerOff, Start
from collector.decide.policies.interface import Policy
from collector.features.promises.guards import keeps_promises
from collector.features.promises.snapshot import TaskPromises
from collector.snapshot.tables import NOWHERE, Snapshot
from replay.contenders.table import POLICIES
from tests.collector.act.guards.builders import guard_context
from tests.collector.decide.policies.clusters import random_cluster, random_request
from tests.collector.features.promises.promised import BRONZE, GOLD, SILVER, Promised, with_promises
from wire.resources import Quantities

WHY = ("because",)
MOVE = Move(task="web1", name="web1", node="alpha", target="beta", reasons=WHY)
STOP = Kill(task="web1", name="web1", node="alpha", target=None, reasons=WHY)
RESTART = Kill(task="web1", name="web1", node="alpha", target="beta", reasons=WHY)
OFF = PowerOff(node="alpha", reasons=WHY)
STOPS_FIRST = ServiceView(name="web", replicas=2, stops_to_move=True)


def context(promised: Promised | None, *, service: ServiceView = STOPS_FIRST, **changes: Any) -> GuardContext:
    made = guard_context(**changes)
    snapshot = with_promises(made.snapshot, {} if promised is None else {"web1": promised})
    return replace(made, snapshot=snapshot, view=replace(made.view, services=(service,)))


def refusal(action: Action, promised: Promised | None, **changes: Any) -> str | None:
    return keeps_promises(Step(action=action, service="web"), context(promised, **changes))


@pytest.mark.parametrize("action", [MOVE, RESTART])
def test_container_is_stopped_only_for_less_time_than_its_promise_leaves(action: Action) -> None:
    assert refusal(action, None) is None
    assert refusal(action, Promised(slack_seconds=1.0, startup_seconds=4.0)) is None
    # The start-up time is taken off the slack.
    assert refusal(action, Promised(slack_seconds=-1.0, startup_seconds=4.0)) == (
        "web1 must not stop: the promise of 90% availability breaks after 3 s, and it would be down for 4 s"
    )
    assert refusal(action, Promised(promise=GOLD, slack_seconds=-4.0, startup_seconds=4.0)) == (
        "web1 must not stop: the promise of 100% availability leaves no time, or is broken already"
    )
    assert refusal(action, Promised(slack_seconds=inf)) is None


def test_stop_for_as_long_as_there_is_no_room_breaks_every_promise_that_can_break() -> None:
    assert refusal(STOP, Promised(promise=BRONZE, slack_seconds=5000.0)) == (
        "web1 must not stop: the promise of 50% availability breaks after 5000 s, and it would wait for room"
    )
    assert refusal(STOP, Promised(slack_seconds=inf)) is None
    assert refusal(STOP, None) is None


def test_move_whose_replacement_runs_first_breaks_no_promise() -> None:
    broken = Promised(slack_seconds=-100.0, startup_seconds=4.0)
    assert refusal(MOVE, broken, service=replace(STOPS_FIRST, stops_to_move=False)) is None
    assert refusal(MOVE, broken) is not None


def test_actions_that_stop_nothing_break_no_promise() -> None:
    broken = Promised(slack_seconds=-100.0, startup_seconds=4.0)
    for action in (
        Cut(task="web1", node="alpha", allocated=Quantities(0.1), reasons=WHY),
        Start(task="web1", target="beta", reasons=WHY),
        PowerOff(node="beta", reasons=WHY),
        PowerOff(node="unknown", reasons=WHY),
    ):
        assert refusal(action, broken) is None


def test_node_with_a_container_that_must_not_stop_stays_on() -> None:
    assert "web1 must not stop" in (refusal(OFF, Promised(slack_seconds=-1.0, startup_seconds=4.0)) or "")
    assert refusal(OFF, Promised(slack_seconds=10.0, startup_seconds=4.0)) is None


def test_policy_that_keeps_promises_stops_by_its_own_rules() -> None:
    for action in (MOVE, STOP, RESTART):
        step = Step(action=action, service="web", keeps_promises=True)
        assert keeps_promises(step, context(Promised(slack_seconds=-100.0))) is None


def test_only_a_policy_that_keeps_promises_stops_containers_that_the_orchestrator_restarts() -> None:
    for has_queue, keeps, guard in ((True, False, "queue"), (True, True, None), (False, False, None)):
        step = Step(action=STOP, service="web", keeps_promises=keeps)
        refused = first_refusal(step, context(None, has_queue=has_queue))
        assert (None if refused is None else refused[0]) == guard


def test_refusal_names_the_guard() -> None:
    stopped = first_refusal(Step(action=STOP, service="web"), context(Promised()))
    assert stopped is not None
    assert stopped[0] == "promise"


def test_limits_of_moves_neither_apply_to_promises_nor_count_them() -> None:
    tight = ControlConfig(max_moves_per_hour=2)
    now = guard_context().now
    done = [
        Step(
            action=Kill(task=f"c{number}", node="gamma", target=None, reasons=WHY),
            service=f"other{number}",
            state=StepState.VERIFIED,
            started_at=now - 30 * number,
            ended_at=now - 30 * number,
            keeps_promises=True,
        )
        for number in range(50)
    ]
    promise = Step(action=STOP, service="web", keeps_promises=True)
    assert first_refusal(promise, context(Promised(), settings=tight, earlier=done)) is None
    other = Step(action=MOVE, service="other")
    assert first_refusal(other, context(None, settings=tight, earlier=done)) is None


@pytest.mark.parametrize(
    ("ago", "replicas", "why"),
    [
        ((), 1, None),
        ((45.0,), 1, "web was stopped 45 s ago: wait another 15 s"),
        ((60.0,), 1, None),
        ((10.0,), 2, None),
        ((10.0, 45.0), 2, "web was stopped 45 s ago: wait another 15 s"),
        ((10.0, 70.0), 2, None),
    ],
)
def test_no_instance_is_stopped_twice_within_a_minute(
    ago: tuple[float, ...], replicas: int, why: str | None
) -> None:
    now = guard_context().now
    earlier = [
        Step(
            action=Kill(task=f"old{number}", node="beta", target=None, reasons=WHY),
            service="web",
            state=StepState.VERIFIED,
            started_at=now - each,
            keeps_promises=True,
        )
        for number, each in enumerate(ago)
    ]
    around = context(Promised(), service=replace(STOPS_FIRST, replicas=replicas), earlier=earlier)
    refused = first_refusal(Step(action=STOP, service="web", keeps_promises=True), around)
    assert refused == (None if why is None else ("rest", why))


def test_starts_on_a_node_where_most_fail_are_refused() -> None:
    now = guard_context().now

    def started(number: int, state: StepState) -> Step:
        action = Start(task=f"c{number}", target="alpha", reasons=WHY)
        return Step(action=action, state=state, started_at=now - number, keeps_promises=True)

    failed = [started(number, StepState.FAILED) for number in range(5)]
    done = [started(number, StepState.VERIFIED) for number in range(6)]
    promise = Step(action=STOP, service="web", keeps_promises=True)
    assert first_refusal(promise, context(Promised(), earlier=[*failed, *done])) is None
    stopped = first_refusal(promise, context(Promised(), earlier=failed))
    assert stopped == ("per_node", "5 moves from or to alpha failed in the last hour, limit 5")


SEEDS = st.integers(0, 999)


def promising(seed: int) -> Snapshot:
    """A random cluster in which most tasks have a promise."""
    generator = np.random.default_rng(seed)
    snapshot = random_cluster(seed, classes=4, calm=False).snapshot()
    return with_promises(
        snapshot,
        {
            task: Promised(
                promise=int(generator.choice([GOLD, SILVER, BRONZE])),
                slack_seconds=float(generator.choice([-50.0, -1.0, 0.0, 1.0, 500.0, inf])),
                startup_seconds=float(generator.choice([0.0, 3.0])),
            )
            for task in snapshot.tasks.ids
            if generator.random() < 0.8
        },
    )


def planned(policy: Policy, snapshot: Snapshot, seed: int) -> list[Action]:
    """What a policy plans, and what a placement needs first."""
    actions: list[Action] = []
    if policy.rebalance is not None:
        actions += policy.rebalance(snapshot, policy.settings()).actions
    if policy.place is not None:
        ranking = policy.place(snapshot, random_request(seed), policy.settings())
        actions += [action for row in ranking.rows for action in ranking.needs(int(row))]
    return actions


@pytest.mark.parametrize("policy", POLICIES.values(), ids=lambda policy: policy.name)
@given(seed=SEEDS)
@settings(max_examples=50)
def test_no_policy_stops_a_container_if_its_promise_would_break(policy: Policy, seed: int) -> None:
    snapshot = promising(seed)
    tasks, slo = snapshot.tasks, snapshot.part(TaskPromises)
    assert slo is not None
    names = [NOWHERE if each == NOWHERE else snapshot.services.names[each] for each in tasks.service]
    view = OrchestratorState(
        services=tuple(ServiceView(name=name, stops_to_move=True) for name in snapshot.services.names),
        tasks=tuple(
            TaskView(container=task, service=str(name), node="", state="running")
            for task, name in zip(tasks.ids, names, strict=True)
        ),
    )
    around = GuardContext(
        now=0.0,
        settings=ControlConfig(),
        schedule=Schedule.of("", "UTC"),
        snapshot=snapshot,
        view=view,
    )
    for action in planned(policy, snapshot, seed):
        step = planned_step(action, snapshot, keeps_promises=policy.keeps_promises)
        refused = keeps_promises(step, around) is not None
        if policy.keeps_promises:
            assert not refused
        elif isinstance(action, Move | Kill):
            row = tasks.index[action.task]
            left = slo.slack_seconds[row] + slo.startup_seconds[row]
            down = inf if action.target is None else slo.startup_seconds[row]
            breaks = slo.promise[row] != NOWHERE and left < inf and left <= down
            assert refused == breaks
        elif not isinstance(action, PowerOff):
            assert not refused

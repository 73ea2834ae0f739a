"""Whether a change is worth what it costs."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from collector.act.experience import experience_of
from collector.act.records import Step, StepState
from collector.decide.policies.actions import Action, Move, PowerOff, PowerOn
from collector.decide.policies.interface import Stability
from collector.decide.policies.least_watts.policy import LEAST_WATTS
from collector.decide.policies.least_watts.settings import LeastWattsSettings
from collector.decide.policies.planned import PlannedCluster
from collector.decide.policies.resolve import resolve
from collector.decide.policies.worth import (
    Measure,
    gained_time,
    move_joules,
    saved_power,
    switch_joules,
    weigh,
)
from collector.snapshot.experience import Experience
from collector.snapshot.tables import Snapshot
from tests.collector.decide.policies.clusters import CURVE, amount
from tests.collector.snapshot.builders import NodeFacts, TaskFacts, assemble
from wire.resources import Quantities

HOUR = Stability(payback_seconds=3600.0)
NEED = Quantities(1.0, 10**9)
WATTS = 15.0 + 8.0 * 10**9 / 10**12
"""What the container draws: a core of four, on a curve of 15 W for the first quarter, and its memory."""


def cluster(*, taught: Experience | None = None, curve: Any = CURVE, **facts: Any) -> Snapshot:
    """Return a node of four cores with one container, and an empty one."""
    size = {"capacity": Quantities(4.0, 10**12), "curve": curve}
    nodes = [NodeFacts(name="a", used=NEED, **size), NodeFacts(name="b", **size)]
    task = TaskFacts(id="1", node="a", service="api", used=NEED, envelope=NEED, mean=NEED, **facts)
    snapshot = assemble(nodes, [task])
    return snapshot if taught is None else replace(snapshot, experience=taught)


def test_a_gain_must_bring_in_the_cost_within_the_payback_time() -> None:
    def pays(gain: float, cost: float) -> bool:
        return weigh(Measure.POWER, gain, np.array([cost]), np.array([np.inf]), HOUR).pays

    assert pays(1.0, 3599.0)
    assert not pays(1.0, 3600.0)
    assert not pays(0.0, 0.0)


def test_a_gain_within_its_error_is_none() -> None:
    costs, stays = np.array([36.0]), np.array([np.inf])
    assert weigh(Measure.POWER, 3.0, costs, stays, HOUR, error=2.9).pays
    doubtful = weigh(Measure.POWER, 3.0, costs, stays, HOUR, error=3.0)
    assert not doubtful.pays
    assert doubtful.missing == pytest.approx(0.01)
    assert doubtful.sentence() == "gains 3 W ±3 for 36 J; it must gain more than 3.01 W"


def test_caution_multiplies_what_a_gain_must_exceed() -> None:
    costs, stays = np.array([3600.0]), np.array([np.inf])
    careful = Stability(payback_seconds=3600.0, caution=3.0)
    assert weigh(Measure.POWER, 2.0, costs, stays, HOUR).pays
    assert not weigh(Measure.POWER, 2.0, costs, stays, careful).pays


def test_a_policy_becomes_more_cautious_and_never_less() -> None:
    chosen = resolve("least-watts", {"caution": 2.0})
    assert chosen.with_caution(1.5) is chosen
    careful = chosen.with_caution(4.0)
    assert isinstance(careful.settings, LeastWattsSettings)
    assert careful.settings.caution == 4.0
    assert careful.policy is LEAST_WATTS


def test_a_container_that_was_moved_is_not_moved_again_for_less() -> None:
    """It stayed for six minutes, so its next move must pay within six, not within an hour."""
    settled, moved = cluster(), cluster(came_from="b", settled_seconds=360.0)
    needed = saved_power(settled, HOUR, 1.0, moved=[0]).needed
    assert needed == pytest.approx(8.0 * WATTS / 3600.0)
    assert saved_power(moved, HOUR, 1.0, moved=[0]).needed == pytest.approx(10 * needed)
    assert gained_time(settled, HOUR, 0.01, [0]).pays
    assert not gained_time(moved, HOUR, 0.01, [0]).pays


def test_a_move_costs_what_the_container_draws_while_it_runs_twice() -> None:
    """Until moves were observed, that is as long as its memory takes at 125 MB/s."""
    assert move_joules(cluster(), np.array([0])) == pytest.approx([8.0 * WATTS])
    assert move_joules(cluster(curve=None), np.array([0])).tolist() == [0.0]
    of_all = Experience(move_seconds=20.0)
    assert move_joules(cluster(taught=of_all), np.array([0])) == pytest.approx([20.0 * WATTS])
    of_service = Experience(move_seconds=20.0, move_seconds_of={"api": 60.0, "gone": 1.0})
    assert move_joules(cluster(taught=of_service), np.array([0])) == pytest.approx([60.0 * WATTS])


def test_switching_off_costs_the_shutdown_and_the_boot() -> None:
    taught = Experience(boot_seconds=100.0, shutdown_seconds=10.0)
    assert switch_joules(cluster(taught=taught), np.array([1])) == pytest.approx([20.0 * 10 + 60.0 * 100])


def test_a_node_that_was_just_switched_on_stays_on_until_it_has_paid_for_that() -> None:
    taught = Experience(boot_seconds=100.0)

    def step(since: float) -> PowerOff | None:
        snapshot = cluster(taught=taught)
        known = replace(
            snapshot, experience=Experience(boot_seconds=100.0, on_since={"b": snapshot.at - since})
        )
        planned = PlannedCluster(known, Stability())
        found = planned.switch_off(1, "nothing runs there")
        assert (found is None) == bool(planned.kept)
        return found

    assert step(since=299.0) is None
    found = step(since=301.0)
    assert found is not None
    assert (found.gain_watts, found.cost_joules) == (20.0, 6000.0)
    assert found.reasons[1].startswith("gains 20 W for 6000 J; it must gain more than 19.9 W")


def test_the_journal_teaches_how_long_actions_take() -> None:
    def done(action: Action, seconds: float, service: str | None = None) -> Step:
        return Step(
            action=action,
            service=service,
            state=StepState.VERIFIED,
            started_at=1000.0,
            done_at=1000.0 + seconds,
        )

    move = Move(task="1", node="a", target="b", reasons=())
    steps = [
        done(move, 10.0, "api"),
        done(move, 20.0, "api"),
        done(move, 60.0, "db"),
        done(PowerOn(node="b", reasons=()), 90.0),
    ]
    taught = experience_of(steps, power_seconds=300.0)
    assert taught == Experience(
        move_seconds=30.0,
        move_seconds_of={"api": 15.0, "db": 60.0},
        boot_seconds=90.0,
        shutdown_seconds=300.0,
        on_since={"b": 1090.0},
    )


def test_steps_that_were_interrupted_or_had_nothing_to_do_teach_no_times() -> None:
    """A collector that was away for a night would otherwise never move anything again."""
    night: dict[str, Any] = {
        "state": StepState.VERIFIED,
        "started_at": 1000.0,
        "done_at": 30_000.0,
        "is_timed": False,
    }
    steps = [
        Step(action=Move(task="1", node="a", target="b", reasons=()), service="api", **night),
        Step(action=PowerOn(node="b", reasons=()), **night),
    ]
    taught = experience_of(steps, power_seconds=300.0)
    assert taught == Experience(boot_seconds=300.0, shutdown_seconds=300.0, on_since={"b": 30_000.0})


def test_every_step_of_an_emptied_node_states_its_gain_and_its_cost() -> None:
    nodes = [NodeFacts(name=name, capacity=amount(4, 4), used=amount(1, 1), curve=CURVE) for name in "ab"]
    tasks = [
        TaskFacts(id=name, node=name, used=amount(1, 1), mean=amount(1, 1), envelope=amount(1, 1))
        for name in "ab"
    ]
    snapshot = replace(assemble(nodes, tasks), experience=Experience(boot_seconds=10.0))
    assert LEAST_WATTS.rebalance is not None
    move, off = LEAST_WATTS.rebalance(snapshot, LeastWattsSettings(overbooks=True)).actions
    assert isinstance(move, Move)
    assert isinstance(off, PowerOff)
    assert move.gain_watts > 0 < move.cost_joules
    assert any("it must gain more than" in reason for reason in move.reasons)
    assert off.cost_joules == 600.0

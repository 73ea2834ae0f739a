"""Which policy runs when: that of the timer, and beside it the one that answers alerts."""

from collections.abc import Callable
from itertools import pairwise

import msgspec
import pytest

from collector.decide.policies.actions import Move
from collector.decide.policies.interface import Plan
from collector.snapshot.tables import Snapshot
from replay.setup.scenario import parse_scenario
from replay.simulation.cluster import unix
from replay.simulation.policy_runs import resolve_runs
from replay.simulation.results import result_of
from tests.replay.setups import CALM, PLAIN, scripted, simulate, workload

MB = 1 << 20
_FULL = workload((1.0, 625 * MB), (0.5, 625 * MB), seconds=1500.0)
_HOSTS = [msgspec.structs.replace(PLAIN, name=name) for name in ("one", "three", "two")]
_PLACES = {"a": "one", "b": "two"}


def recorded(
    plan: Callable[[Snapshot], Plan] = lambda _: Plan(),
) -> tuple[Callable[[Snapshot], Plan], list[Snapshot]]:
    seen: list[Snapshot] = []

    def plans(snapshot: Snapshot) -> Plan:
        seen.append(snapshot)
        return plan(snapshot)

    return plans, seen


def away(snapshot: Snapshot) -> Plan:
    """Move a to the third node, if it is still on the first."""
    if "a" not in snapshot.tasks.ids:
        return Plan()
    return Plan(actions=(Move(task="a", node="one", target="three", reasons=()),))


def seconds(snapshots: list[Snapshot]) -> list[float]:
    return [each.at - unix(0.0) for each in snapshots]


def test_an_alert_is_answered_at_the_next_check_and_the_timer_keeps_its_time() -> None:
    timer, on_timer = recorded()
    alerts, on_alerts = recorded(away)
    outcome = simulate(
        scripted(_PLACES, timer), _HOSTS, _FULL, CALM, alerts=scripted({}, alerts, name="alerts")
    )
    assert seconds(on_timer) == [300.0, 600.0, 900.0, 1200.0]
    # Agents sample every minute here, so that the first full sample opens the alert.
    assert seconds(on_alerts)[0] == pytest.approx(60.0)
    assert on_alerts[0].nodes.bottleneck[0, 0]
    assert result_of(outcome).migrations == 1


def test_without_an_alert_only_the_timer_runs() -> None:
    alerts, on_alerts = recorded(away)
    timer, on_timer = recorded()
    calm = workload((0.5, 625 * MB), (0.5, 625 * MB), seconds=1500.0)
    simulate(scripted(_PLACES, timer), _HOSTS, calm, CALM, alerts=scripted({}, alerts, name="alerts"))
    assert (len(on_timer), len(on_alerts)) == (4, 0)


def test_an_alert_that_stays_open_is_looked_at_with_each_report_and_once_moves_have_settled() -> None:
    alerts, on_alerts = recorded()
    simulate(scripted(_PLACES), _HOSTS, _FULL, CALM, alerts=scripted({}, alerts, name="alerts"))
    asked = seconds(on_alerts)
    # Samples come every minute, and so do moves settle.
    assert asked[0] == pytest.approx(60.0)
    assert {round(later - earlier) for earlier, later in pairwise(asked)} == {60}


def test_the_timer_waits_for_the_answer_that_is_being_carried_out() -> None:
    timer, on_timer = recorded()
    slow = workload((1.0, 625 * MB), (0.5, MB), seconds=1500.0)
    alerts, _ = recorded(lambda now: away(now) if now.at >= unix(295.0) else Plan())
    simulate(scripted(_PLACES, timer), _HOSTS, slow, CALM, alerts=scripted({}, alerts, name="alerts"))
    # The move takes ten seconds from 300 s on; agents show it three seconds later.
    assert seconds(on_timer)[0] == pytest.approx(313.0)


HOSTS = '[[hosts]]\nname = "h"\ncpu_cores = 1\nmemory_mb = 1\nwatts = [1, 2]\n'


def test_policies_of_the_collector_are_replayed_with_the_one_that_answers_alerts_beside_them() -> None:
    own, theirs = resolve_runs(["least-watts:moves=7", "spread"], parse_scenario(HOSTS, "s"))
    assert own.timer is own.chosen
    assert own.alerts is not None
    assert own.alerts.policy.name == own.collector.control.policy
    # As live: the policy on the timer decides how full nodes are.
    assert not msgspec.to_builtins(own.alerts.settings)["usage_alerts"]
    assert (theirs.timer, theirs.alerts) == (None, None)


def test_a_scenario_says_which_policies_decide() -> None:
    text = """
        [policies.places]
        policy = "least-watts"
        control = { policy = "draps", timer_policy = "" }
        collector = { policies = { draps = { moves = 3 } } }
        [policies.alone]
        policy = "genpack"
        control = { policy = "" }
        [policies.cloudsim]
        policy = "least-watts"
        simulation = { exact = true }
        [policies.one]
        policy = "least-watts"
        settings = { moves = 9 }
        control = { policy = "least-watts" }
    """
    names = ["places", "alone", "cloudsim", "one"]
    places, alone, cloudsim, one = resolve_runs(names, parse_scenario(HOSTS + text, "s"))
    assert places.timer is None
    assert places.alerts is not None
    found = msgspec.to_builtins(places.alerts.settings)
    assert (found["moves"], found["usage_alerts"]) == (3, True)
    assert alone.timer is alone.chosen
    assert (alone.alerts, cloudsim.alerts) == (None, None)
    assert one.alerts is one.timer is one.chosen

"""No step brings the members of an application further apart than its bound."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.act.guards import GuardContext, first_refusal
from collector.act.records import Step, StepState
from collector.decide.policies.actions import Action, Kill, Move, Scale, Start
from collector.features.network.applications.distance import NearMembers
from collector.features.network.applications.table import Applications
from collector.features.network.guards import stays_near
from collector.features.network.mesh.delays import Delays
from collector.snapshot.tables import NOWHERE
from tests.collector.act.guards.builders import guard_context
from tests.collector.decide.policies.clusters import random_cluster
from tests.collector.features.network.applications.clusters import in_applications, random_applications
from tests.collector.snapshot.builders import NodeFacts, TaskFacts, assemble
from wire.resources import Quantities

REGIONS = ("us", "us", "eu-west")
WHY = ("because",)
NODES = [NodeFacts(name=name, capacity=Quantities(4.0, 1000)) for name in ("alpha", "beta", "gamma")]


def context(where: dict[str, str | None], regions: tuple[str, ...] = REGIONS, **changes: Any) -> GuardContext:
    """A web server and a database of one application; alpha and beta are near each other."""
    tasks = [TaskFacts(id=task, node=node, service=task.rstrip("0123456789")) for task, node in where.items()]
    snapshot = in_applications(assemble(NODES, tasks), {"shop": ["web", "db"]}, regions)
    return replace(guard_context(**changes), snapshot=snapshot)


def move(task: str, source: str, target: str, state: StepState = StepState.PLANNED) -> Step:
    return Step(action=Move(task=task, name=task, node=source, target=target, reasons=WHY), state=state)


@pytest.mark.parametrize(
    "action",
    [
        Move(task="web1", name="web1", node="alpha", target="gamma", reasons=WHY),
        Kill(task="web1", name="web1", node="alpha", target="gamma", reasons=WHY),
    ],
)
def test_a_member_does_not_go_further_than_the_bound(action: Action) -> None:
    now = context({"web1": "alpha", "db1": "alpha"})
    assert stays_near(Step(action=action), now) == (
        "web1 must not move to gamma: the round-trip time between gamma and alpha is 100 ms; the bound of"
        " application shop is 85 ms"
    )
    assert stays_near(move("web1", "alpha", "beta"), now) is None
    assert first_refusal(move("web1", "alpha", "gamma"), replace(now, view=replace(now.view, nodes=()))) == (
        "distance",
        stays_near(Step(action=action), now),
    )


def test_a_waiting_member_starts_near_the_others() -> None:
    now = context({"web1": None, "db1": "alpha"})
    assert stays_near(Step(action=Start(task="web1", target="beta", reasons=WHY)), now) is None
    assert "is 100 ms" in str(stays_near(Step(action=Start(task="web1", target="gamma", reasons=WHY)), now))


def scale(*nodes: str) -> Step:
    before = 1
    action = Scale(
        service="web", replicas=before + len(nodes), replicas_before=before, nodes=nodes, reasons=WHY
    )
    return Step(action=action, service="web")


def test_new_replicas_start_near_the_other_members_and_near_each_other() -> None:
    now = context({"web1": "alpha", "db1": "alpha"})
    assert stays_near(scale("beta"), now) is None
    assert stays_near(scale(), now) is None
    assert stays_near(scale("gamma"), now) == (
        "web must not start on gamma: the round-trip time between gamma and alpha is 100 ms; the bound of"
        " application shop is 85 ms"
    )
    empty = context({"web1": None, "db1": None})
    assert stays_near(scale("beta", "alpha"), empty) is None
    assert "web must not start on both: the round-trip time between" in str(
        stays_near(scale("beta", "gamma"), empty)
    )


def test_members_that_move_count_where_they_will_be() -> None:
    now = context({"web1": "alpha", "db1": "alpha"})
    under_way = move("db1", "alpha", "gamma", StepState.STARTED)
    assert stays_near(move("web1", "alpha", "gamma"), replace(now, own=[under_way])) is None
    failed = replace(now, own=[move("db1", "alpha", "gamma", StepState.FAILED)])
    assert stays_near(move("web1", "alpha", "gamma"), failed) is not None


def test_an_application_that_is_apart_may_come_together_but_not_further_apart() -> None:
    apart = context({"web1": "gamma", "db1": "alpha"})
    assert stays_near(move("web1", "gamma", "beta"), apart) is None
    further = context({"web1": "gamma", "db1": "alpha"}, ("us", "eu-north", "eu-west"))
    assert "is 135 ms" in str(stays_near(move("web1", "gamma", "beta"), further))


def test_without_measured_times_or_applications_nothing_is_refused() -> None:
    now = context({"web1": "alpha", "db1": "alpha"})
    for part in (Delays, Applications):
        blind = replace(now, snapshot=now.snapshot.without_part(part))
        assert stays_near(move("web1", "alpha", "gamma"), blind) is None


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_guard_refuses_exactly_what_policies_may_not_plan(seed: int) -> None:
    snapshot = random_applications(random_cluster(seed), seed)
    now = replace(guard_context(), snapshot=snapshot)
    members, tasks, names = NearMembers(snapshot), snapshot.tasks, snapshot.nodes.names
    for task in np.flatnonzero(tasks.node != NOWHERE)[:5].tolist():
        near = members.open_to(task, tasks.node)
        for target in range(len(names)):
            step = move(tasks.ids[task], names[tasks.node[task]], names[target])
            assert (stays_near(step, now) is None) == (near is None or bool(near[target]))

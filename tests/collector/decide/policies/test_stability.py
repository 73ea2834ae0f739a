"""The limits that keep plans stable."""

from typing import Any

import msgspec
import numpy as np
import pytest

from collector.common.liveness import Liveness
from collector.decide.policies.actions import Move
from collector.decide.policies.interface import FillLimits, Stability
from collector.decide.policies.planned import PlannedCluster
from collector.decide.policies.stability import (
    any_above,
    may_leave,
    may_receive,
    may_wake,
    no_return_nodes,
    reporting,
)
from collector.snapshot.tables import NOWHERE
from tests.collector.decide.policies.clusters import amount
from tests.collector.snapshot.builders import NodeFacts, TaskFacts, assemble
from wire.errors import UserError
from wire.resources import Quantities

RULES = Stability()


def node(name: str = "a", **facts: Any) -> NodeFacts:
    return NodeFacts(**{"name": name, "capacity": amount(4, 4), **facts})


@pytest.mark.parametrize(
    ("facts", "reports", "receives"),
    [
        ({}, True, True),
        ({"report_age_seconds": 121.0}, False, False),
        ({"liveness": Liveness.SUSPECT}, False, False),
        ({"on": False}, False, False),
        ({"accepts": False}, True, False),
        ({"capacity": Quantities()}, True, False),
    ],
)
def test_only_nodes_that_report_are_changed(facts: dict[str, Any], reports: bool, receives: bool) -> None:  # noqa: FBT001 - a column of the table
    snapshot = assemble([node(**facts)], [TaskFacts(id="1", node="a")])
    assert reporting(snapshot, RULES).tolist() == [reports]
    assert may_receive(snapshot, RULES).tolist() == [receives]
    assert may_leave(snapshot, RULES).tolist() == [reports]


@pytest.mark.parametrize(
    ("facts", "leaves"),
    [({"settled_seconds": 599.0}, False), ({"settled_seconds": 600.0}, True), ({"movable": False}, False)],
)
def test_a_container_settles_before_it_is_moved_again(facts: dict[str, Any], leaves: bool) -> None:  # noqa: FBT001 - a column of the table
    snapshot = assemble([node()], [TaskFacts(id="1", node="a", **facts)])
    assert may_leave(snapshot, RULES).tolist() == [leaves]


def test_only_nodes_that_are_off_and_open_can_be_switched_on() -> None:
    nodes = [node("a"), node("b", on=False), node("c", on=False, accepts=False)]
    snapshot = assemble([*nodes, node("d", on=False, capacity=Quantities())])
    assert may_wake(snapshot).tolist() == [False, True, False, False]


def test_a_container_that_waits_has_nothing_to_leave() -> None:
    assert may_leave(assemble([node()], [TaskFacts(id="1", node=None)]), RULES).tolist() == [False]
    assert may_leave(assemble([], [TaskFacts(id="1", node=None)]), RULES).tolist() == [False]


def test_a_container_may_not_return_for_a_while() -> None:
    tasks = [
        TaskFacts(id="1", node="b", came_from="a", settled_seconds=3599.0),
        TaskFacts(id="2", node="b", came_from="a", settled_seconds=3600.0),
        TaskFacts(id="3", node="b"),
    ]
    snapshot = assemble([node("a"), node("b"), node("c")], tasks)
    assert no_return_nodes(snapshot, RULES).tolist() == [0, NOWHERE, NOWHERE]
    with pytest.raises(AssertionError):
        PlannedCluster(snapshot, RULES).add(0, 0, ["why"])


def test_a_plan_runs_out_of_moves_and_moves_nothing_twice() -> None:
    snapshot = assemble([node("a"), node("b")], [TaskFacts(id=str(number), node="a") for number in range(3)])
    moves = PlannedCluster(snapshot, Stability(moves=2))
    moves.add(0, 1, ["why"], gain_watts=1.0, cost_joules=2.0)
    assert moves.may_leave.tolist() == [False, True, True]
    with pytest.raises(AssertionError):
        moves.add(0, 1, ["why"])
    moves.add(1, 1, ["why"])
    assert moves.room == 0
    with pytest.raises(AssertionError):
        moves.add(2, 1, ["why"])
    assert moves.actions[0] == Move(
        task="0", name="0", node="a", target="b", reasons=("why",), gain_watts=1.0, cost_joules=2.0
    )


def test_a_node_just_filled_is_not_relieved_at_once() -> None:
    with pytest.raises(UserError, match="moved off a node that was just filled"):
        FillLimits(fill_ratio=0.9, relieve_ratio=0.9)
    with pytest.raises((UserError, msgspec.ValidationError), match="moved off a node that was just filled"):
        msgspec.convert({"fill_ratio": 0.95}, FillLimits)


def test_one_resource_above_the_ratio_is_enough() -> None:
    taken = np.array([[0.5, 0.91, np.nan, 0.0], [0.9, 0.9, np.nan, 0.9]])
    assert any_above(taken, 0.9).tolist() == [True, False]

"""Rejected nodes, and the reasons."""

from typing import Any

import numpy as np
import pytest

from collector.common.liveness import Liveness
from collector.decide.policies.filters import eligible, free_of_load, without_room
from collector.decide.policies.interface import Rejection, Request
from collector.snapshot.constraints import Constraint, Operator
from tests.collector.decide.policies.clusters import amount
from tests.collector.snapshot.builders import NodeFacts, TaskFacts, assemble
from wire.resources import Quantities


def node(name: str = "a", **facts: Any) -> NodeFacts:
    return NodeFacts(**{"name": name, "capacity": amount(4, 4), **facts})


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, Rejection.NOT),
        ({"liveness": Liveness.SUSPECT}, Rejection.NOT),
        ({"liveness": Liveness.DOWN}, Rejection.DOWN),
        ({"on": False, "liveness": Liveness.DOWN}, Rejection.OFF),
        ({"accepts": False}, Rejection.CLOSED),
        ({"report_age_seconds": 121.0}, Rejection.STALE),
        ({"capacity": Quantities(cpu_cores=4.0)}, Rejection.UNKNOWN_CAPACITY),
        ({"capacity": Quantities()}, Rejection.UNKNOWN_CAPACITY),
    ],
)
def test_the_state_of_a_node_may_rule_it_out(facts: dict[str, Any], expected: Rejection) -> None:
    assert eligible(assemble([node(**facts)]), Request()).tolist() == [expected]


def test_node_that_is_off_may_be_switched_on_without_reports() -> None:
    asleep = node(on=False, liveness=Liveness.DOWN, report_age_seconds=1e6)
    closed = node("b", on=False, accepts=False)
    assert eligible(assemble([asleep, closed]), Request(), wake=True).tolist() == [
        Rejection.NOT,
        Rejection.CLOSED,
    ]


def test_the_caller_sets_the_maximum_age_of_reports() -> None:
    snapshot = assemble([node(report_age_seconds=300.0)])
    assert eligible(snapshot, Request(), stale_seconds=600.0).tolist() == [Rejection.NOT]


def test_a_rejection_for_one_request_does_not_affect_the_next() -> None:
    snapshot = assemble([node("a"), node("b", accepts=False)])
    first = eligible(snapshot, Request(exclude=frozenset({"a"})))
    assert first.tolist() == [Rejection.EXCLUDED, Rejection.CLOSED]
    assert eligible(snapshot, Request()).tolist() == [Rejection.NOT, Rejection.CLOSED]


@pytest.mark.parametrize(
    ("constraint", "fulfilled_by"),
    [
        (Constraint("disk", Operator.IS, "ssd"), ["a"]),
        (Constraint("disk", Operator.IS_NOT, "ssd"), ["b", "c"]),
        (Constraint("disk", Operator.IS, "tape"), []),
        (Constraint("disk", Operator.IS_NOT, "tape"), ["a", "b", "c"]),
        (Constraint("zone", Operator.IS, "x"), []),
        (Constraint("node", Operator.IS, "b"), ["b"]),
        (Constraint("node", Operator.IS_NOT, "b"), ["a", "c"]),
        (Constraint("node", Operator.IS, "nobody"), []),
    ],
)
def test_constraints_look_at_labels_and_at_the_name(constraint: Constraint, fulfilled_by: list[str]) -> None:
    nodes = [node("a", labels={"disk": "ssd"}), node("b", labels={"disk": "hdd"}), node("c")]
    snapshot = assemble(nodes)
    for _ in range(2):  # The second time, from the column that the first one made.
        refused = eligible(snapshot, Request(constraints=(constraint,)))
        found = [
            name for name, code in zip(snapshot.nodes.names, refused, strict=True) if code == Rejection.NOT
        ]
        assert found == fulfilled_by
        assert set(refused.tolist()) <= {Rejection.NOT, Rejection.CONSTRAINT}


@pytest.mark.parametrize(
    ("constraint", "fulfilled_by"),
    [
        (Constraint("cores", Operator.ABOVE, "4"), ["b"]),
        (Constraint("cores", Operator.BELOW, "16"), ["a"]),
        (Constraint("cores", Operator.BELOW, "16.5"), ["a", "b"]),
        (Constraint("cores", Operator.ABOVE, "-1"), ["a", "b"]),
        (Constraint("cores", Operator.ABOVE, "many"), []),
        (Constraint("node", Operator.ABOVE, "0"), []),
    ],
)
def test_labels_compare_as_numbers_and_other_values_do_not_match(
    constraint: Constraint, fulfilled_by: list[str]
) -> None:
    nodes = [
        node("a", labels={"cores": "4"}),
        node("b", labels={"cores": "16"}),
        node("c", labels={"cores": "many"}),
        node("d"),
    ]
    snapshot = assemble(nodes)
    for _ in range(2):  # The second time, from the column that the first one made.
        refused = eligible(snapshot, Request(constraints=(constraint,)))
        assert [snapshot.nodes.names[row] for row in np.flatnonzero(refused == 0)] == fulfilled_by


def test_services_can_be_avoided_and_nodes_excluded() -> None:
    tasks = [TaskFacts(id="1", node="a", service="db"), TaskFacts(id="2", node=None, service="db")]
    snapshot = assemble([node("a"), node("b"), node("c")], tasks)
    request = Request(avoid=("db", "nobody"), exclude=frozenset({"b", "elsewhere"}))
    assert eligible(snapshot, request).tolist() == [Rejection.AVOIDED, Rejection.EXCLUDED, Rejection.NOT]


def test_the_first_short_resource_is_named_and_unknown_room_refuses_nothing() -> None:
    free = np.array(
        [[1.0, 1.0, 1.0, 1.0], [2.0, 1.0, 1.0, 1.0], [2.0, 2.0, np.nan, np.nan], [2.0, 2.0, 1.0, 9.0]]
    )
    refused = without_room(np.zeros(4, dtype=np.int8), free, np.full(4, 2.0))
    assert refused.tolist() == [Rejection.CPU, Rejection.MEMORY, Rejection.NOT, Rejection.DISK]


def test_a_rounding_error_is_not_a_shortage() -> None:
    free = np.array([[0.1 + 0.2 - 0.3 + 0.3] * 4])
    assert without_room(np.zeros(1, dtype=np.int8), free - 1e-12, np.array([0.3])).tolist() == [Rejection.NOT]


def test_load_is_the_reported_one_or_the_sum_of_the_tasks() -> None:
    tasks = [TaskFacts(id="1", node="a", mean=amount(3, 1))]
    reported = assemble([node("a", used=amount(1, 2))], tasks)
    assert free_of_load(reported)[0, :2].tolist() == [1.0, 2 * 1024**3]
    assert free_of_load(assemble([node("a")], tasks))[0, 0] == 1.0


def test_every_rejection_has_a_description() -> None:
    assert len({Rejection(code).text for code in Rejection if code != Rejection.NOT}) == len(Rejection) - 1

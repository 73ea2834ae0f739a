"""Waiting tasks in a snapshot."""

from math import nan

from collector.snapshot.codec import pack, unpack
from collector.snapshot.constraints import Constraint, Operator, PlacementRules
from collector.snapshot.pending import WaitingTask, with_waiting
from collector.snapshot.tables import NOWHERE
from tests.collector.decide.policies.clusters import amount
from tests.collector.snapshot.builders import NodeFacts, TaskFacts, assemble

FAST = (Constraint("disk", Operator.IS, "ssd"), Constraint("cores", Operator.ABOVE, "4"))
SNAPSHOT = assemble(
    [NodeFacts(name="a", capacity=amount(4, 4)), NodeFacts(name="b", capacity=amount(4, 4))],
    [TaskFacts(id="1", node="a", service="db")],
)
WAITING = (
    WaitingTask(id="1", name="db.1", service="db", requested=(1.0, nan, nan, nan), task_class=1),
    WaitingTask(
        id="2", name="web.1", service="web", requested=(1.0, 1e9, nan, nan), task_class=2, constraints=FAST
    ),
    WaitingTask(
        id="3",
        name="web.2",
        service="web",
        requested=(1.0, 1e9, nan, nan),
        task_class=2,
        spread=True,
        last_node="b",
    ),
    WaitingTask(id="4", name="lone", service=None, requested=(nan, nan, nan, nan), task_class=1),
)


def test_waiting_tasks_come_after_all_others_and_those_that_run_are_left_out() -> None:
    snapshot = with_waiting(SNAPSHOT, WAITING)
    assert snapshot.tasks.ids == ("1", "2", "3", "4")
    assert snapshot.tasks.node.tolist() == [0, NOWHERE, NOWHERE, NOWHERE]
    assert snapshot.waiting.tolist() == [1, 2, 3]
    assert with_waiting(SNAPSHOT, WAITING[:1]) is SNAPSHOT


def test_a_waiting_task_brings_a_service_that_no_running_task_has() -> None:
    snapshot = with_waiting(SNAPSHOT, WAITING)
    web = snapshot.services.index["web"]
    assert snapshot.tasks.service.tolist() == [snapshot.services.index["db"], web, web, NOWHERE]


def test_the_rules_and_the_last_node_of_a_waiting_task_are_kept_also_as_bytes() -> None:
    for snapshot in (with_waiting(SNAPSHOT, WAITING), unpack(pack(with_waiting(SNAPSHOT, WAITING)))):
        assert snapshot.rules == {1: PlacementRules(constraints=FAST), 2: PlacementRules(spread=True)}
        assert snapshot.tasks.came_from.tolist()[1:] == [NOWHERE, 1, NOWHERE]

from math import nan

import numpy as np

from collector.snapshot.pending import PendingTask, with_pending
from collector.snapshot.tables import Snapshot
from tests.collector.snapshot.builders import NodeFacts, TaskFacts, assemble
from wire.resources import Quantities

ONE = (1.0, 2.0, nan, nan)


def cluster() -> Snapshot:
    has = Quantities(8.0, 16, 100.0, 100.0)
    nodes = [
        NodeFacts(name=name, capacity=has, used=Quantities(3.0, 4), labels={"disk": name}) for name in "ab"
    ]
    task = TaskFacts(
        id="t", node="a", service="web", mean=Quantities(2.0, 3), requested=Quantities(2.0, 3), task_class=3
    )
    return assemble(nodes, [task])


def sent(node: str = "b", service: str | None = "web", task_class: int = 2) -> PendingTask:
    variance = (0.5, 0.0, 0.0, 0.0)
    return PendingTask(
        node=node,
        service=service,
        allocated=ONE,
        envelope=ONE,
        mean=ONE,
        variance=variance,
        task_class=task_class,
    )


def test_pending_tasks_count_in_every_sum_of_their_node() -> None:
    before = cluster()
    after = with_pending(before, [sent(), sent("a", task_class=2)], turn=2)
    for column in ("used", "allocated", "envelope_sum", "mean"):
        more = np.nan_to_num(getattr(after.nodes, column)) - np.nan_to_num(getattr(before.nodes, column))
        assert more.tolist() == [[1.0, 2.0, 0.0, 0.0]] * 2, column
    assert (after.nodes.variance - before.nodes.variance)[:, 0].tolist() == [0.5, 0.5]
    assert after.nodes.tasks.tolist() == [2, 1]
    assert after.nodes.strictest_class.tolist() == [2, 2]
    assert after.turn == 2
    assert before.nodes.tasks.tolist() == [1, 0]
    assert before.nodes.strictest_class.tolist() == [3, 0]


def test_a_pending_task_is_an_instance_of_its_service_even_if_that_is_new() -> None:
    after = with_pending(cluster(), [sent(), sent("b", "new"), sent("a", None)], turn=3)
    instances = {name: after.instances(row).tolist() for name, row in after.services.index.items()}
    assert instances == {"web": [1, 1], "new": [0, 1]}
    assert after.tasks_of(after.services.index["new"]).tolist() == []
    assert after.tasks_of(after.services.index["web"]).tolist() == [0]
    assert after.tasks_on(1).tolist() == []


def test_pending_tasks_of_a_missing_node_do_not_count() -> None:
    before = cluster()
    assert with_pending(before, [sent("gone")], turn=before.turn) is before
    assert with_pending(before, [sent("gone")], turn=1).nodes.tasks.tolist() == [1, 0]


def test_cached_values_are_reused_with_pending_tasks() -> None:
    before = cluster()
    before.nodes.labelled("disk", "a")
    made = before.cached("something", object)
    after = with_pending(before, [sent()], turn=1)
    assert after.nodes.index is before.nodes.index
    assert after.cached("something", object) is made
    assert after.nodes_without_pending is before.nodes
    assert after.nodes.labelled("disk", "b").tolist() == [False, True]


def test_what_depends_on_pending_tasks_is_computed_again_after_each() -> None:
    before = cluster()
    made = before.cached_with_pending("something", object)
    one = with_pending(before, [sent()], turn=1)
    two = with_pending(one, [sent("a")], turn=2)
    found = [each.cached_with_pending("something", object) for each in (before, one, two, one)]
    assert found[0] is made
    assert found[1] is found[3]
    assert len(set(map(id, found))) == 3
    assert two.nodes_without_pending is before.nodes

"""Columns from facts about nodes and tasks, in any order."""

from math import isnan

import numpy as np
import pytest

from collector.common.liveness import Liveness
from collector.snapshot.columns import coalesce, four, square
from collector.snapshot.tables import NOWHERE
from tests.collector.snapshot.builders import NodeFacts, ServiceFacts, TaskFacts, assemble
from wire.resources import Quantities

NAN = float("nan")


def test_rows_are_in_the_order_of_names_however_they_come() -> None:
    nodes = [NodeFacts(name=name, capacity=Quantities(1.0, 1)) for name in "bca"]
    tasks = [TaskFacts(id=name, node=on, service="web") for name, on in (("2", "c"), ("1", "a"), ("3", "c"))]
    snapshot = assemble(nodes, tasks, [ServiceFacts(name="db")])
    assert snapshot.nodes.names == ("a", "b", "c")
    assert snapshot.tasks.ids == ("1", "2", "3")
    assert snapshot.tasks.node.tolist() == [0, 2, 2]
    assert snapshot.services.names == ("db", "web")
    assert snapshot.nodes.tasks.tolist() == [1, 0, 2]
    assert [snapshot.tasks_on(row).tolist() for row in range(3)] == [[0], [], [1, 2]]
    assert snapshot.tasks_of(1).tolist() == [0, 1, 2]
    assert snapshot.instances(1).tolist() == [1, 0, 2]
    assert snapshot.instances(0).tolist() == [0, 0, 0]


def test_a_task_without_a_node_or_on_an_unknown_one_waits() -> None:
    tasks = [TaskFacts(id="1", node=None), TaskFacts(id="2", node="gone"), TaskFacts(id="3", node="a")]
    snapshot = assemble([NodeFacts(name="a", capacity=Quantities())], tasks)
    assert snapshot.waiting.tolist() == [0, 1]
    assert snapshot.tasks.node.tolist() == [NOWHERE, NOWHERE, 0]
    assert snapshot.tasks.service.tolist() == [NOWHERE] * 3
    assert snapshot.nodes.tasks.tolist() == [1]


def test_missing_quantities_are_unknown_not_zero() -> None:
    row = assemble([NodeFacts(name="a", capacity=Quantities(4.0))]).nodes
    assert row.capacity[0, 0] == 4.0
    assert np.isnan(row.capacity[0, 1:]).all()
    assert np.isnan(row.used).all()
    assert four(Quantities(1.0), missing=0.0) == (1.0, 0.0, 0.0, 0.0)


def test_the_envelope_is_the_best_guess_available() -> None:
    facts = TaskFacts(
        id="1",
        node=None,
        envelope=Quantities(cpu_cores=3.0),
        used=Quantities(cpu_cores=2.0, memory_bytes=5),
        requested=Quantities(1.0, 4, 9.0),
    )
    tasks = assemble([], [facts]).tasks
    assert tasks.envelope.tolist() == [[3.0, 5.0, 9.0, 0.0]]
    assert tasks.mean.tolist() == [[2.0, 5.0, 9.0, 0.0]]
    assert tasks.allocated[0, :3].tolist() == [1.0, 4.0, 9.0]
    assert isnan(tasks.allocated[0, 3])


def test_coalesce_takes_the_first_known_value() -> None:
    assert coalesce(np.array([1.0, NAN, NAN]), np.array([2.0, 2.0, NAN])).tolist() == [1.0, 2.0, 0.0]


def test_a_node_has_the_sums_of_its_tasks() -> None:
    tasks = [
        TaskFacts(
            id="1", node="a", requested=Quantities(1.0, 10), variance=(1.0, 2.0, 0.0, 0.0), task_class=3
        ),
        TaskFacts(id="2", node="a", requested=Quantities(2.0), allocated=Quantities(0.5, 7), task_class=2),
        TaskFacts(id="3", node=None, requested=Quantities(9.0, 9), task_class=1),
    ]
    nodes = [NodeFacts(name=name, capacity=Quantities(4.0, 100)) for name in "ab"]
    table = assemble(nodes, tasks).nodes
    assert table.allocated.tolist() == [[1.5, 17.0, 0.0, 0.0], [0.0] * 4]
    assert table.envelope_sum.tolist() == [[3.0, 10.0, 0.0, 0.0], [0.0] * 4]
    assert table.variance.tolist() == [[1.0, 2.0, 0.0, 0.0], [0.0] * 4]
    assert table.strictest_class.tolist() == [2, 0]


def test_histories_end_at_the_same_moment() -> None:
    nodes = [
        NodeFacts(name="a", capacity=Quantities(), history=[(0.1, 0.2, NAN, NAN), (0.3, 0.4, NAN, NAN)]),
        NodeFacts(name="b", capacity=Quantities(), history=[(0.5, 0.6, NAN, NAN)]),
        NodeFacts(name="c", capacity=Quantities()),
    ]
    history = assemble(nodes).nodes.history
    assert history.shape == (3, 2, 4)
    assert history[0, :, 0].tolist() == [0.1, 0.3]
    assert np.isnan(history[1, 0]).all()
    assert history[1, 1, 0] == 0.5
    assert np.isnan(history[2]).all()


def test_a_cluster_without_nodes_is_valid() -> None:
    snapshot = assemble([])
    assert snapshot.nodes.capacity.shape == (0, 4)
    assert snapshot.nodes.bottleneck.shape == (0, 4)
    assert snapshot.nodes.watts.size == 0
    assert snapshot.waiting.size == 0


@pytest.mark.parametrize("liveness", Liveness)
def test_liveness_and_domain_are_stored_as_codes(liveness: Liveness) -> None:
    snapshot = assemble([NodeFacts(name="a", capacity=Quantities(), liveness=liveness, domain="east")])
    assert snapshot.nodes.liveness[0] == liveness
    assert snapshot.domain_names[snapshot.nodes.domain[0]] == "east"


def test_squares_of_absurd_amounts_are_finite() -> None:
    assert square(np.array([1e300, 2.0])).tolist() == [pytest.approx(1e300), 4.0]

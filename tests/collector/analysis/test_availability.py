import numpy as np
import pytest

from collector.analysis.availability import availability, node_score
from tests.collector.snapshot.builders import NodeFacts, TaskFacts, assemble
from wire.resources import Quantities


def test_availability_is_free_capacity_sorted_by_score() -> None:
    capacity = Quantities(8.0, 16_000, 1e6, None)
    need = Quantities(2.0, 4_000, 5e5, 1e3)
    found = availability(
        assemble(
            [
                NodeFacts(name="a", capacity=capacity, used=Quantities(1.0, 2_000)),
                NodeFacts(name="b", capacity=capacity),
                NodeFacts(name="c", capacity=Quantities()),
            ],
            [
                TaskFacts(
                    id="1", node="a", envelope=need, observed_seconds=9.0, requested=Quantities(3.0, 6_000)
                ),
                TaskFacts(id="2", node="a", envelope=need, observed_seconds=9.0),
                TaskFacts(id="3", node="a", envelope=need, observed_seconds=9.0),
            ],
        )
    )
    assert found.names == ("a", "b", "c")
    assert found.envelope_sum[0].tolist() == [6.0, 12_000, 1.5e6, 3e3]
    assert found.allocated[0, :2].tolist() == [3.0, 6_000]
    assert found.used[0, :2].tolist() == [1.0, 2_000]
    # Disk is promised half as much again as there is: nothing is free, not less than nothing.
    assert found.free[0, :3].tolist() == [2.0, 4_000, 0.0]
    assert np.isnan(found.free[:, 3]).all()
    assert found.score == pytest.approx([np.hypot(0.25, 0.25), np.sqrt(3), 0.0])


def test_an_empty_node_scores_two_and_a_full_one_nothing() -> None:
    capacity = np.array([[4.0, 8.0, 2.0, 1.0]])
    assert node_score(capacity, capacity).tolist() == [2.0]
    assert node_score(np.zeros((1, 4)), capacity).tolist() == [0.0]

"""GenPack's arithmetic: scores, classes, the blend, and first fit by availability."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.features.genpack.packing import FreeCapacity, blend, dominant, empty, scores
from collector.snapshot.tables import NOWHERE

CPU_HEAVY, MEMORY_HEAVY = (2.0, 1.0, 0.0, 0.0), (1.0, 2.0, 0.0, 0.0)


def room(*left: float, is_open: list[bool] | None = None, fill: float = 1.0) -> FreeCapacity:
    """Nodes of ten cores with so much left."""
    capacity = np.array([[10.0, np.nan, np.nan, np.nan]] * len(left)).reshape(-1, 4)
    taken = np.array([[10.0 - each, 0.0, 0.0, 0.0] for each in left]).reshape(-1, 4)
    opened = np.array([True] * len(left) if is_open is None else is_open, dtype=np.bool_)
    return FreeCapacity(np.arange(len(left)) + 100, capacity, taken, fill=fill, is_open=opened)


def cores(amount: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([amount, 0.0, 0.0, 0.0])


def test_the_score_is_the_share_in_the_sum_of_all_envelopes() -> None:
    envelopes = np.array([[3.0, 0.0, 0.0, 4.0], [1.0, 0.0, 0.0, 0.0]])
    assert scores(envelopes) == pytest.approx([np.hypot(0.75, 1.0), 0.25])


def test_the_dominant_resource_is_the_one_with_the_largest_share() -> None:
    envelopes = np.array([[9.0, 1e9, 0.0, 0.0], [1.0, 9e9, 0.0, 0.0], [0.0, 0.0, 0.0, 5.0]])
    assert dominant(envelopes).tolist() == [0, 1, 3]


def test_the_blend_takes_one_of_each_group_in_turn_the_largest_first() -> None:
    groups = np.array([0, 0, 0, 1, 2, 2], dtype=np.int8)
    score = np.array([1.0, 3.0, 2.0, 1.0, 5.0, 6.0])
    assert blend(groups, score).tolist() == [1, 3, 5, 2, 4, 0]


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 1)), max_size=50))
def test_blend_keeps_every_container(containers: list[tuple[int, float]]) -> None:
    groups = np.array([group for group, _ in containers], dtype=np.int8)
    order = blend(groups, np.array([score for _, score in containers]))
    assert sorted(order.tolist()) == list(range(len(containers)))
    turns = [groups[order[:place]].tolist().count(groups[each]) for place, each in enumerate(order)]
    assert turns == sorted(turns)


def test_the_least_available_node_that_fits_is_taken_and_moves_up() -> None:
    nodes = room(4.0, 2.0, 3.0)
    assert nodes.first_fit(cores(2.5)) == 102
    nodes.take(102, cores(2.5))
    assert nodes.first_fit(cores(0.5)) == 102
    assert nodes.first_fit(cores(1.0)) == 101
    assert nodes.first_fit(cores(5.0)) == NOWHERE
    nodes.give_back(102, cores(2.5))
    assert nodes.first_fit(cores(2.5)) == 102


def test_of_equals_the_first_by_name_is_taken() -> None:
    assert room(3.0, 3.0).first_fit(cores(1.0)) == 100


def test_forbidden_and_hidden_nodes_are_skipped() -> None:
    nodes = room(2.0, 3.0, 4.0)
    assert nodes.first_fit(cores(1.0), np.arange(103) != 100) == 101
    nodes.hide(100)
    nodes.give_back(100, cores(0.5))
    assert nodes.first_fit(cores(1.0)) == 101
    nodes.hide(100, hidden=False)
    assert nodes.first_fit(cores(1.0)) == 100


def test_a_closed_node_is_found_only_on_purpose_and_is_open_once_taken() -> None:
    nodes = room(1.0, 10.0, 10.0, is_open=[True, False, False])
    assert nodes.first_fit(cores(2.0)) == NOWHERE
    preference = np.array([0.0, 2.0, 1.0])
    assert nodes.closed_fit(cores(2.0), preference) == 102
    assert nodes.closed_fit(cores(2.0), preference, np.arange(103) != 102) == 101
    assert nodes.closed_fit(cores(11.0), preference) == NOWHERE
    nodes.take(102, cores(2.0))
    assert nodes.first_fit(cores(2.0)) == 102


def test_no_node_is_filled_beyond_what_is_allowed() -> None:
    assert room(3.0, fill=0.8).first_fit(cores(1.0)) == 100
    assert room(3.0, fill=0.8).first_fit(cores(1.1)) == NOWHERE


def test_without_nodes_nothing_fits() -> None:
    assert room().first_fit(cores(1.0)) == NOWHERE


def test_a_node_is_emptied_only_if_all_find_a_place() -> None:
    nodes = room(4.0, 3.0, 8.0)
    both = np.arange(2)
    assert empty(nodes, 102, both, np.array([cores(3.5), cores(3.5)])) is None
    assert nodes.first_fit(cores(3.5)) == 100  # What was tried has left no trace.
    found = empty(nodes, 102, both, np.array([cores(1.0), cores(4.0)]))
    assert found is not None
    assert found.tolist() == [101, 100]
    assert nodes.first_fit(cores(5.0)) == NOWHERE

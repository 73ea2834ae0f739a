"""The scores of other schedulers, by their own formulas and tests."""

import numpy as np
import pytest

from collector.decide.policies.interface import Request
from replay.contenders.peers import (
    RiskSettings,
    TargetSettings,
    balanced_allocation,
    least_allocated,
    most_allocated,
    nomad_points,
    place_by_risk,
    place_by_target,
    risk_points,
    target_points,
)
from replay.contenders.table import POLICIES
from tests.collector.decide.policies.clusters import amount
from tests.collector.snapshot.builders import NodeFacts, assemble
from wire.resources import Quantities

STEADY = [(0.5, 0.1, 0.0, 0.0)] * 4
SWINGING = [(0.1, 0.1, 0.0, 0.0), (0.9, 0.1, 0.0, 0.0)] * 2


def test_the_points_for_a_target_of_forty_percent() -> None:
    found = target_points(np.array([0.0, 0.2, 0.4, 0.5, 1.0, 1.01]), 0.4)
    assert found == pytest.approx([40, 70, 100, 33.33, 0, 0], abs=0.01)


def test_the_points_for_risk() -> None:
    found = risk_points(np.array([0.0, 0.5, 1.0, 0.5]), np.array([0.0, 0.1, 1.0, 0.25]), 1.0, 2.0)
    assert found == pytest.approx([100, 100 * (1 - (0.5 + 0.1**0.5) / 2), 0, 50])


def test_load_is_brought_to_the_target() -> None:
    nodes = [
        NodeFacts(name=f"{used}", capacity=amount(10, 10), used=amount(used, 0)) for used in (0, 3, 4, 9)
    ]
    snapshot = assemble(nodes)
    ranking = place_by_target(snapshot, Request(demand=amount(1, 0)), TargetSettings())
    assert [snapshot.nodes.names[row] for row in ranking.rows] == ["3", "0", "4", "9"]


def test_node_without_reports_does_not_count_as_idle() -> None:
    nodes = [
        NodeFacts(name="a", capacity=Quantities(10.0, 10)),
        NodeFacts(name="b", capacity=amount(10, 10), used=amount(3, 0)),
    ]
    assert place_by_target(assemble(nodes), Request(), TargetSettings()).rows.tolist() == [1, 0]


def test_of_two_with_the_same_load_the_steadier_is_better() -> None:
    nodes = [
        NodeFacts(name=name, capacity=amount(10, 10), used=amount(5, 1), history=history)
        for name, history in (("a", SWINGING), ("b", STEADY))
    ]
    ranking = place_by_risk(assemble(nodes), Request(), RiskSettings())
    assert ranking.rows.tolist() == [1, 0]
    assert ranking.scores == pytest.approx([75, 100 * (1 - (0.5 + 0.4) / 2)])


@pytest.mark.parametrize(
    ("score", "expected"),
    [(least_allocated, [37, 50]), (most_allocated, [62, 50]), (balanced_allocation, [87, 100])],
)
def test_kubernetes_points_are_those_of_its_own_tests(score: object, expected: list[float]) -> None:
    """A pod of 3 cores and 5000 bytes, on nodes of 4 and 6 cores with 10000 bytes each."""
    assert callable(score)
    requested = np.array([[3 / 4, 5000 / 10_000], [3 / 6, 5000 / 10_000]])
    assert score(requested).tolist() == expected


def test_kubernetes_gives_no_points_for_requests_above_the_capacity() -> None:
    over = np.array([[1.5, 0.5]])
    assert least_allocated(over).tolist() == [25]
    assert most_allocated(over).tolist() == [25]


def test_kubernetes_counts_a_pod_that_requests_nothing() -> None:
    small = NodeFacts(name="a", capacity=amount(0.5, 1))
    policy = POLICIES["least-allocated"]
    assert policy.place is not None
    ranking = policy.place(assemble([small]), Request(), policy.settings())
    # 0.1 of half a core, and 200 MiB of 1 GiB.
    assert ranking.scores.tolist() == [80]


def test_nomad_points_range_from_empty_to_full_nodes() -> None:
    points = nomad_points(np.array([[0.0, 0.0], [1.0, 1.0], [0.5, 0.5]]))
    assert points == pytest.approx([18, 0, 13.675], abs=1e-3)

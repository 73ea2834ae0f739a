"""The greedy: its placements are feasible, and place as much as possible."""

from hypothesis import given, settings
from hypothesis import strategies as st

from collector.features.network.applications import greedy
from collector.features.network.applications.problem import BuiltProblem, build
from replay.contenders.net_optimal.policy import is_feasible
from tests.collector.features.network.applications.states import random_state

SEEDS = st.integers(0, 9999)
many = settings(max_examples=100)


def problem_of(seed: int, *, nodes: int = 12, pods: int = 12, linked: bool = False) -> BuiltProblem:
    snapshot, requests = random_state(seed, nodes=nodes, pods=pods, linked=linked)
    return build(snapshot, requests, stale_seconds=120.0)


@given(seed=SEEDS, linked=st.booleans())
@many
def test_a_placement_is_always_feasible(seed: int, linked: bool) -> None:  # noqa: FBT001
    problem = problem_of(seed, linked=linked).problem
    placed = greedy.solve(problem)
    assert placed is None or is_feasible(problem, placed)


@given(seed=SEEDS)
@many
def test_as_many_pods_as_possible_are_placed_in_part(seed: int) -> None:
    problem = problem_of(seed).problem
    placed = greedy.solve_partly(problem)
    assert (placed.sum(axis=1) <= problem.counts).all()
    if greedy.solve(problem) is not None:
        assert (placed.sum(axis=1) == problem.counts).all()

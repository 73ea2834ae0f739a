"""The greedy and the exact solver against brute force, and the rules that hold for both."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.policies.net import exact, greedy
from collector.policies.net.build import BuiltProblem, build
from tests.collector.policies.net.states import brute_force, random_state

SEEDS = st.integers(0, 9999)
many = settings(max_examples=100)


def problem_of(seed: int, *, nodes: int = 12, pods: int = 12, linked: bool = False) -> BuiltProblem:
    snapshot, requests = random_state(seed, nodes=nodes, pods=pods, linked=linked)
    return build(snapshot, requests, stale_seconds=120.0)


@given(seed=SEEDS, linked=st.booleans())
@many
def test_the_optimum_is_that_of_brute_force(seed: int, linked: bool) -> None:  # noqa: FBT001
    built = problem_of(seed, nodes=6, pods=5, linked=linked)
    best = brute_force(built)
    if best is None:
        return
    found = exact.solve(built.problem, seconds=30.0)
    assert found.is_proven
    if found.placed is None:
        assert np.isinf(best)
    else:
        assert built.problem.objective(found.placed).value == pytest.approx(best)
        assert found.lower_bound == pytest.approx(best)


@given(seed=SEEDS, linked=st.booleans())
@many
def test_a_placement_is_always_feasible(seed: int, linked: bool) -> None:  # noqa: FBT001
    problem = problem_of(seed, linked=linked).problem
    for placed in (greedy.solve(problem), exact.solve(problem, seconds=30.0).placed):
        assert placed is None or problem.is_feasible(placed)


@given(seed=SEEDS)
@many
def test_no_placement_is_better_than_the_lower_bound(seed: int) -> None:
    problem = problem_of(seed).problem
    least, placed = exact.lower_bound(problem), greedy.solve(problem)
    if placed is not None:
        assert least is not None
        assert problem.objective(placed).value >= least - 1e-9


@given(seed=SEEDS)
@many
def test_as_many_pods_as_possible_are_placed_in_part(seed: int) -> None:
    problem = problem_of(seed).problem
    placed = greedy.solve_partly(problem)
    assert (placed.sum(axis=1) <= problem.counts).all()
    if greedy.solve(problem) is not None:
        assert (placed.sum(axis=1) == problem.counts).all()


def test_the_greedy_is_close_to_the_optimum() -> None:
    """Over the same states each time. The benchmark prints the exact figures."""
    ratios, missed, solved = [], 0, 0
    for seed in range(150):
        problem = problem_of(seed).problem
        best, placed = exact.solve(problem, seconds=30.0).placed, greedy.solve(problem)
        if best is None:
            assert placed is None
            continue
        solved += 1
        if placed is None:
            missed += 1
        elif (least := problem.objective(best).value) > 0:
            ratios.append(problem.objective(placed).value / least)
    assert np.mean(ratios) <= 1.05
    assert missed <= 0.03 * solved


def test_a_search_that_is_out_of_time_returns_the_greedy_and_a_bound() -> None:
    problem = next(
        problem
        for seed in range(50)
        if (problem := problem_of(seed, nodes=40, pods=40).problem).counts.sum() > 30
        and (placed := greedy.solve(problem)) is not None
        and problem.objective(placed).value > (exact.lower_bound(problem) or 0.0) + 1e-6
    )
    found = exact.solve(problem, seconds=1e-6)
    assert found.placed is not None
    assert problem.is_feasible(found.placed)
    assert found.lower_bound <= problem.objective(found.placed).value

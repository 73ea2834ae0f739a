"""The exact solver against brute force, and the greedy against the exact solver."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.features.network.applications import greedy
from collector.features.network.applications.problem import BuiltProblem, build
from collector.features.network.mesh.delays import Delays
from replay.contenders.net_optimal import policy as exact
from replay.contenders.net_optimal.policy import needed_nodes
from tests.collector.features.network.applications.states import brute_force, random_state
from tests.collector.features.network.applications.test_greedy import SEEDS, many, problem_of


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


def scattered(seed: int, nodes: int, pods: int) -> BuiltProblem:
    """The same where each node has neighbours of its own."""
    snapshot, requests = random_state(seed, nodes=nodes, pods=pods)
    draw = np.random.default_rng(seed)
    place = draw.uniform(0.0, 0.12, (nodes, 2))
    seconds = np.sqrt(np.square(place[:, np.newaxis] - place).sum(axis=2))
    snapshot = snapshot.with_part(Delays.of_matrix(seconds))
    return build(snapshot, requests, stale_seconds=120.0)


@given(seed=SEEDS)
@many
def test_the_optimum_is_that_of_brute_force_where_no_nodes_have_the_same_neighbours(seed: int) -> None:
    built = scattered(seed, 6, 5)
    best = brute_force(built)
    if best is not None:
        found = exact.solve(built.problem, seconds=30.0)
        assert found.is_proven
        value = np.inf if found.placed is None else built.problem.objective(found.placed).value
        assert value == pytest.approx(best)


@pytest.mark.slow
def test_the_optimum_is_the_same_without_nodes_that_are_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    problems = [problem_of(seed, nodes=24).problem for seed in range(60)]
    best = [exact.solve(problem, seconds=30.0) for problem in problems]
    kept = [len(needed_nodes(problem, each.placed)) for problem, each in zip(problems, best, strict=True)]
    assert np.mean(kept) < 20
    monkeypatch.setattr(exact, "_FEW_NODES", 0)
    for problem, optimum in zip(problems, best, strict=True):
        found = exact.solve(problem, seconds=30.0)
        assert found.is_proven
        assert (found.placed is None) == (optimum.placed is None)
        assert found.lower_bound == pytest.approx(optimum.lower_bound)


@pytest.mark.slow
def test_a_large_problem_is_searched_in_part_and_nothing_is_claimed_beyond_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problems = [scattered(seed, 12, 8).problem for seed in range(60)]
    best = [exact.solve(problem, seconds=30.0) for problem in problems]
    monkeypatch.setattr(exact, "_MOST_PAIRS", 0)
    monkeypatch.setattr(exact, "_AROUND", 4)
    for problem, optimum in zip(problems, best, strict=True):
        found = exact.solve(problem, seconds=30.0)
        if optimum.placed is None:
            assert found.placed is None
            continue
        least = problem.objective(optimum.placed).value
        assert found.lower_bound <= least + 1e-9
        if found.placed is not None:
            assert exact.is_feasible(problem, found.placed)
            assert problem.objective(found.placed).value >= least - 1e-9
            assert not found.is_proven or problem.objective(found.placed).value == pytest.approx(least)
        else:
            assert not found.is_proven


@given(seed=SEEDS, linked=st.booleans())
@many
def test_a_placement_is_always_feasible(seed: int, linked: bool) -> None:  # noqa: FBT001
    problem = problem_of(seed, linked=linked).problem
    placed = exact.solve(problem, seconds=30.0).placed
    assert placed is None or exact.is_feasible(problem, placed)


@given(seed=SEEDS)
@many
def test_no_placement_is_better_than_the_lower_bound(seed: int) -> None:
    for problem in (problem_of(seed).problem, scattered(seed, 12, 12).problem):
        least, placed = exact.lower_bound(problem), greedy.solve(problem)
        if placed is not None:
            assert least is not None
            assert problem.objective(placed).value >= least - 1e-9


@pytest.mark.slow
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
    assert exact.is_feasible(problem, found.placed)
    assert found.lower_bound <= problem.objective(found.placed).value

"""A collector that resolves a bottleneck on a real Swarm, and one that is killed during a move."""

import pytest

from bench.common.results import Figure
from bench.swarm import faults
from bench.swarm.benchmark import Scenario, run_scenario
from bench.swarm.hog import COMPRESSED, hog, judged, pinned
from tests.lab.engines.swarm import Swarm

pytestmark = [pytest.mark.lab, pytest.mark.slow]

_WATCHED_SECONDS = 5.0


def missed(figures: list[Figure]) -> list[str]:
    """Return the figures that miss their bounds, without durations, which depend on the machine."""
    assert figures
    return [
        str(figure)
        for figure in figures
        if figure.value is None or (not figure.ok and not figure.unit.startswith("s "))
    ]


def test_bottleneck_is_resolved_by_one_move_that_is_not_undone(swarm_nodes: Swarm) -> None:
    scenario = Scenario(lambda cluster, collector: hog(cluster, collector, _WATCHED_SECONDS))
    assert missed(run_scenario(scenario, swarm_nodes)) == []


def test_a_move_that_helped_gets_a_verdict_with_figures(swarm_nodes: Swarm) -> None:
    assert missed(run_scenario(Scenario(judged, COMPRESSED), swarm_nodes)) == []


def test_a_bottleneck_that_no_move_ends_is_explained_and_nothing_moves(swarm_nodes: Swarm) -> None:
    scenario = Scenario(lambda cluster, collector: pinned(cluster, collector, _WATCHED_SECONDS))
    assert missed(run_scenario(scenario, swarm_nodes)) == []


def test_a_collector_killed_during_a_move_loses_no_service_and_moves_nothing_twice(
    swarm_nodes: Swarm,
) -> None:
    assert missed(run_scenario(Scenario(faults.killed), swarm_nodes)) == []

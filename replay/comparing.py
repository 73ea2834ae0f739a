"""Several policies on the same workload."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from replay.choosing import contenders
from replay.hosts import build_hosts
from replay.prior import Prior
from replay.results import Point, Results, points_of, result_of
from replay.scenario import Scenario
from replay.simulation import run
from replay.workload import Workload

Progress = Callable[[str, float], AbstractContextManager[Callable[[float], None]]]
"""Shows a stretch of work of this name and length; what it gives is called with how much is done."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What every policy came to, at the end and over time."""

    results: Results
    points: dict[str, list[Point]]


def compare(
    names: Sequence[str], scenario: Scenario, workload: Workload, earlier: Workload | None, progress: Progress
) -> Comparison:
    """Replay the workload with each of these."""
    chosen = contenders(names, scenario)
    hosts = build_hosts(scenario.hosts, interleave=scenario.interleave)
    results, points = {}, {}
    for contender in chosen:
        prior = Prior(earlier, contender.learning)
        with progress(contender.name, workload.duration_seconds) as tell:
            outcome = run(contender, hosts, workload, prior, tell)
        results[contender.name] = result_of(outcome)
        points[contender.name] = points_of(outcome)
    return Comparison(Results(results), points)

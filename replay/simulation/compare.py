"""Several policies on the same workload."""

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import numpy as np

from replay.setup.applications import find_members, with_applications
from replay.setup.hosts import Hosts, build_hosts
from replay.setup.scenario import Scenario
from replay.setup.workload import Workload
from replay.simulation.policy_runs import resolve_runs
from replay.simulation.queue.run import run_queue
from replay.simulation.results import Point, Results, points_of, result_of
from replay.simulation.run import run

Show = Callable[[str, float], AbstractContextManager[Callable[[float], None]]]
"""Shows the progress of work of this name and length; call the function that it yields with the progress."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The results of every policy, at the end and over time."""

    results: Results
    points: dict[str, list[Point]]
    notes: dict[str, str]
    """Notes of the scenario on policies, to print with their figures."""

    def only(self, names: Collection[str]) -> "Comparison":
        """The comparison of these policies only."""
        return Comparison(
            Results({name: each for name, each in self.results.policies.items() if name in names}),
            {name: each for name, each in self.points.items() if name in names},
            self.notes,
        )


def compare(
    names: Sequence[str], scenario: Scenario, workload: Workload, earlier: Workload | None, progress: Show
) -> Comparison:
    """Replay the workload with each of these policies."""
    chosen = resolve_runs(names, scenario)
    hosts = build_hosts(scenario.hosts, interleave=scenario.interleave, network=scenario.network)
    applications = find_members(workload, scenario.applications)
    workload = with_applications(fit_reservations(workload, hosts), applications)
    results, points = {}, {}
    for policy_run in chosen:
        with progress(policy_run.name, workload.duration_seconds) as update:
            if workload.promised is None:
                outcome = run(policy_run, hosts, workload, earlier, update, applications)
            else:
                outcome = run_queue(policy_run, hosts, workload, scenario.startup, update)
        results[policy_run.name] = result_of(outcome)
        points[policy_run.name] = points_of(outcome)
    notes = {name: choice.note for name, choice in scenario.policies.items() if name in names and choice.note}
    return Comparison(Results(results), points, notes)


def fit_reservations(workload: Workload, hosts: Hosts) -> Workload:
    """Limit the reservations of a workload to the size of the largest host.

    A trace may come from larger hosts. A larger machine then reserves a whole host; otherwise, no policy that
    counts reservations could place it.
    """
    largest = np.nan_to_num(hosts.capacity, nan=np.inf).max(axis=0)
    # NaN means no reservation, and stays NaN.
    return replace(workload, requested=np.minimum(workload.requested, largest))

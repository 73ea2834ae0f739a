"""Several policies on the same workload."""

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Generic, Self, TypeVar

import msgspec
import numpy as np

from replay.contenders.priority import PRIORITY
from replay.setup.applications import find_members, with_applications
from replay.setup.hosts import Hosts, build_hosts
from replay.setup.scenario import Scenario
from replay.setup.workload import Workload
from replay.simulation.accounting import IntervalSums
from replay.simulation.policy_runs import resolve_runs
from replay.simulation.queue.contention import by_level, level_of
from replay.simulation.queue.run import run_queue
from replay.simulation.results import PolicyResult, result_of
from replay.simulation.run import run

Show = Callable[[str, float], AbstractContextManager[Callable[[float], None]]]
"""Shows the progress of work of this name and length; call the function that it yields with the progress."""


_BASELINE = PRIORITY.name
"""The policy whose run tells how contended a cluster was."""
_Result = TypeVar("_Result")
_Timed = TypeVar("_Timed")


@dataclass(frozen=True)
class Compared(Generic[_Result, _Timed]):
    """The results of every policy, at the end and over time."""

    policies: dict[str, _Result]
    points: dict[str, list[_Timed]]
    notes: dict[str, str]
    """Notes of the scenario on policies, to print with their figures."""

    def only(self, names: Collection[str]) -> Self:
        return replace(
            self,
            policies={name: each for name, each in self.policies.items() if name in names},
            points={name: each for name, each in self.points.items() if name in names},
        )


Comparison = Compared[PolicyResult, IntervalSums]


def compare(
    names: Sequence[str], scenario: Scenario, workload: Workload, earlier: Workload | None, progress: Show
) -> Comparison:
    """Replay the workload with each of these policies."""
    chosen = resolve_runs(names, scenario)
    hosts = build_hosts(scenario.hosts, interleave=scenario.interleave, network=scenario.network)
    applications = [find_members(workload, each) for each in scenario.applications]
    workload = with_applications(fit_reservations(workload, hosts), applications)
    results, points, intervals = {}, {}, {}
    for policy_run in chosen:
        with progress(policy_run.name, workload.duration_seconds) as update:
            if workload.promised is None:
                outcome = run(policy_run, hosts, workload, earlier, update, applications)
            else:
                outcome = run_queue(policy_run, hosts, workload, scenario.startup, update)
        results[policy_run.name] = result_of(outcome)
        intervals[policy_run.name] = outcome.availability
        # The charts leave out the time that does not count.
        points[policy_run.name] = [each for each in outcome.account.moments if each.seconds > 0]
    if workload.promised is not None and not workload.promised.by_service and _BASELINE in results:
        promises = workload.promised.promises
        levels = [level_of(each, promises) for each in intervals[_BASELINE]]
        for name, result in results.items():
            contention = by_level(levels, intervals[name], promises)
            results[name] = msgspec.structs.replace(result, contention=contention)
    return Comparison(results, points, notes_on(names, scenario))


def notes_on(names: Collection[str], scenario: Scenario) -> dict[str, str]:
    """The notes of a scenario on these policies."""
    return {name: choice.note for name, choice in scenario.policies.items() if name in names and choice.note}


def fit_reservations(workload: Workload, hosts: Hosts) -> Workload:
    """Limit the reservations of a workload to the size of the largest host.

    A trace may come from larger hosts. A larger machine then reserves a whole host; otherwise, no policy that
    counts reservations could place it.
    """
    largest = np.nan_to_num(hosts.capacity, nan=np.inf).max(axis=0)
    # NaN means no reservation, and stays NaN.
    return replace(workload, requested=np.minimum(workload.requested, largest))

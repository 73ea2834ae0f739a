"""Figures of `least-watts` with its default settings, on recorded workloads and shuffled copies of them.

A copy has other names, another order of containers and another time of day, all drawn from a seed. It shows
whether settings fit only the recording.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from bench.common.results import Figure
from replay.setup.scenario import Scenario
from replay.setup.workload import Recorded, Workload
from replay.simulation.compare import Show, compare
from replay.simulation.results import PolicyResult
from wire.resources import Resource

_OURS = "least-watts"
_REMOVING = "least-watts-removing"
_MOST_MOVES_PERCENT = 3.0
_LEAST_NODE_HOURS_SAVED, _LEAST_ENERGY_SAVED, _MOST_SHORT = 60.0, 30.0, 0.5
_LEAST_SAVED_OF_SPREAD = 23.0


def shuffled(workload: Workload, seed: int) -> Workload:
    """Copy a workload with other names, another order and another time of day."""
    assert isinstance(workload.use, Recorded)
    rng = np.random.default_rng(seed)
    count, steps = len(workload.ids), int(workload.use.steps[0])
    order = rng.permutation(count)
    values = workload.use.values.reshape(count, steps, -1)[order]
    values = np.roll(values, int(rng.integers(steps)), axis=1)
    names = tuple(f"container-{number:05}" for number in range(count))
    return replace(
        workload,
        ids=names,
        services=names,
        requested=workload.requested[order],
        use=Recorded.of_all(workload.use.step_seconds, values),
        arrival_seconds=workload.arrival_seconds[order],
        lifetime_seconds=workload.lifetime_seconds[order],
        task_class=workload.task_class[order],
        kind=workload.kind[order],
        constraints=tuple(workload.constraints[row] for row in order) if workload.constraints else (),
    )


def planetlab(
    key: str, scenario: Scenario, workload: Workload, earlier: Workload | None, show: Show
) -> Iterator[Figure]:
    """Compare energy, moves and time short of CPU with LR-MMT."""
    results = compare(["lr-mmt", _OURS], scenario, workload, earlier, show).policies
    theirs, ours = results["lr-mmt"], results[_OURS]
    yield from compare_with_lr(key, ours, theirs)


def compare_with_lr(key: str, ours: PolicyResult, theirs: PolicyResult) -> Iterator[Figure]:
    """Compare the results of a day with those of LR-MMT."""
    energy = (ours.energy_kwh / theirs.energy_kwh - 1) * 100
    yield Figure(name=f"{key}_energy", value=energy, unit="% more than lr-mmt", at_most=0)
    moves = ours.migrations / theirs.migrations * 100
    yield Figure(name=f"{key}_moves", value=moves, unit="% of lr-mmt's", at_most=_MOST_MOVES_PERCENT)
    short, bound = (each.overloaded_node_time_ratio[Resource.CPU] * 100 for each in (ours, theirs))
    yield Figure(name=f"{key}_short", value=short, unit="% of the time short of CPU", at_most=bound)


def same_work(
    key: str, theirs: PolicyResult, scenario: Scenario, workload: Workload, show: Show
) -> Iterator[Figure]:
    """Compare energy with LR-MMT on the same work: containers that CloudSim removes are removed for both."""
    ours = compare([_REMOVING], scenario, workload, None, show).policies[_REMOVING]
    energy = (ours.energy_kwh / theirs.energy_kwh - 1) * 100
    yield Figure(name=f"{key}_same_work_energy", value=energy, unit="% more than lr-mmt", at_most=0)


def bitbrains(key: str, scenario: Scenario, workload: Workload, show: Show) -> Iterator[Figure]:
    """Compare node hours and energy with `spread`, and measure the time short of any resource."""
    results = compare(["spread", _OURS], scenario, workload, None, show).policies
    theirs, ours = results["spread"], results[_OURS]
    hours = (1 - ours.node_hours / theirs.node_hours) * 100
    yield Figure(
        name=f"{key}_node_hours", value=hours, unit="% less than spread", at_least=_LEAST_NODE_HOURS_SAVED
    )
    energy = (1 - ours.energy_kwh / theirs.energy_kwh) * 100
    yield Figure(name=f"{key}_energy", value=energy, unit="% less than spread", at_least=_LEAST_ENERGY_SAVED)
    short = max(ours.overloaded_node_time_ratio.values()) * 100
    yield Figure(
        name=f"{key}_short", value=short, unit="% of the time short of any resource", at_most=_MOST_SHORT
    )


def borg(key: str, scenario: Scenario, workload: Workload, show: Show) -> Iterator[Figure]:
    """Compare energy with `spread` and GenPack."""
    results = compare(["spread", "genpack", _OURS], scenario, workload, None, show).policies
    energy = {name: result.energy_kwh for name, result in results.items()}
    saved = (1 - energy[_OURS] / energy["spread"]) * 100
    yield Figure(
        name=f"{key}_energy", value=saved, unit="% less than spread", at_least=_LEAST_SAVED_OF_SPREAD
    )
    more = (energy[_OURS] / energy["genpack"] - 1) * 100
    yield Figure(name=f"{key}_beside_genpack", value=more, unit="% more than genpack", at_most=0)

"""The elasticity of ge-kube's evaluation: five seeds of 350 minutes, and three days of our policy."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import mean

import msgspec

from bench.common.progress import Progress
from bench.common.results import Figure
from replay.setup.scenario import Scenario, read_scenario
from replay.simulation.elastic.compare import ElasticResult, compare_elastic
from replay.sources import arrivals_of

_SCENARIO = Path("scenarios/ge-kube-elastic.toml")
_SEEDS = 5
_DAYS = 3
_DAY_SECONDS = 86_400.0
_LEARNED_SEEDS = 2
_OURS, _PAPER, _BASELINE, _HPA = "queueing", "model-based", "q-learning", "threshold"


def measure(seed: int, progress: Progress) -> Iterator[Figure]:
    """Yield means over the seeds, and the violations of our policy after its first day."""
    scenario = read_scenario(_SCENARIO)
    names = (_OURS, _PAPER, _BASELINE, _HPA)
    runs = [replay_elastic(scenario, names, seed + number, progress) for number in range(_SEEDS)]
    results_by_name = {name: [run[name] for run in runs] for name in names}
    bounds: Mapping[str, Mapping[str, float]] = {
        _OURS: {"at_most": 0.05},
        _PAPER: {"at_most": 0.2276},
        _BASELINE: {"at_least": 0.8},
        _HPA: {},
    }
    most_cores = mean(each.core_minutes for each in results_by_name[_PAPER])
    for name, results in results_by_name.items():
        violations = [each.violations_ratio for each in results]
        progress.say(f"{name}: violations by seed {', '.join(f'{each:.3f}' for each in violations)}")
        key = f"paper_{name.replace('-', '_')}"
        yield Figure(name=f"{key}_violations_ratio", value=mean(violations), unit="", **bounds[name])
        yield Figure(
            name=f"{key}_core_minutes",
            value=mean(each.core_minutes for each in results),
            unit="core min",
            at_most=most_cores if name == _OURS else None,
        )
        yield Figure(name=f"{key}_energy_kwh", value=mean(each.energy_kwh for each in results), unit="kWh")
        yield Figure(name=f"{key}_actions_ratio", value=mean(each.actions_ratio for each in results), unit="")
    yield from _after_a_day(scenario, seed, progress)


def _after_a_day(scenario: Scenario, seed: int, progress: Progress) -> Iterator[Figure]:
    assert scenario.elastic is not None
    arrivals = {**scenario.elastic.arrivals, "seconds": _DAYS * _DAY_SECONDS}
    longer = msgspec.structs.replace(
        scenario, elastic=msgspec.structs.replace(scenario.elastic, arrivals=arrivals)
    )
    runs = [
        replay_elastic(longer, (_OURS,), seed + number, progress)[_OURS] for number in range(_LEARNED_SEEDS)
    ]
    later = [each.violations_after_day_ratio for each in runs if each.violations_after_day_ratio is not None]
    yield Figure(name="paper_queueing_after_a_day_ratio", value=mean(later), unit="", at_most=0.01)


def replay_elastic(
    scenario: Scenario, names: Sequence[str], seed: int, progress: Progress
) -> dict[str, ElasticResult]:
    """Replay these policies with a seed."""
    simulation = msgspec.structs.replace(scenario.simulation, seed=seed)
    seeded = msgspec.structs.replace(scenario, simulation=simulation)

    def show(name: str, total: float) -> AbstractContextManager[Callable[[float], None]]:
        return progress.track(f"{name}, seed {seed}", total, " s")

    arrivals = arrivals_of(seeded, _SCENARIO.parent)
    return compare_elastic(names, seeded, arrivals, show).policies

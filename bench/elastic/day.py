"""A day with a step, a spike and a quiet night: our policy compared with an autoscaler's thresholds."""

from collections.abc import Iterator
from pathlib import Path
from statistics import mean

from bench.common.progress import Progress
from bench.common.results import Figure
from bench.elastic.paper import replay_elastic
from replay.setup.scenario import read_scenario

_SCENARIO = Path("scenarios/elastic-day.toml")
_SEEDS = 3
_OURS = "queueing"
_MINUTES_PER_HOUR = 60.0


def measure(seed: int, progress: Progress) -> Iterator[Figure]:
    """Yield means over the seeds, and the number of thresholds with fewer violations and fewer core hours."""
    scenario = read_scenario(_SCENARIO)
    runs = [replay_elastic(scenario, scenario.run, seed + number, progress) for number in range(_SEEDS)]
    means = {}
    for name in scenario.run:
        results = [run[name] for run in runs]
        violations = mean(each.violations_ratio for each in results)
        hours = mean(each.core_minutes for each in results) / _MINUTES_PER_HOUR
        means[name] = violations, hours
        key = f"day_{name.replace('-', '_')}"
        yield Figure(name=f"{key}_violations_ratio", value=violations, unit="")
        yield Figure(name=f"{key}_core_hours", value=hours, unit="core h")
        yield Figure(name=f"{key}_energy_kwh", value=mean(each.energy_kwh for each in results), unit="kWh")
    ours = means.pop(_OURS)
    better = sum(violations < ours[0] and hours < ours[1] for violations, hours in means.values())
    yield Figure(name="day_thresholds_better_in_both", value=better, unit=f"of {len(means)}", at_most=0)

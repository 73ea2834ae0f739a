"""Replay of applications in four regions: response times and operations per second of each policy."""

from collections.abc import Iterator
from pathlib import Path

from msgspec import UnsetType

from bench.common.progress import Progress
from bench.common.results import Figure
from bench.scenarios.benchmark import figure_of
from replay.reporting.references import compare_figures
from replay.reporting.tables import application_rows_of
from replay.setup.scenario import read_scenario
from replay.simulation.compare import compare
from replay.sources import workloads
from wattpack.datasets.traces import locate_in
from wattpack.output.text import rows_table

_FOLDER = Path("scenarios")
SCENARIOS = ("ge-kube-placement", "ge-kube-redis")


def figures(progress: Progress) -> Iterator[Figure]:
    """Replay both scenarios, and compare their figures with the expected ones."""
    for name in SCENARIOS:
        scenario = read_scenario(_FOLDER / f"{name}.toml")
        workload, earlier = workloads(scenario, _FOLDER, locate_in([]))
        comparison = compare(
            list(scenario.run),
            scenario,
            workload,
            earlier,
            lambda policy, total: progress.track(policy, total, " s"),
        )
        print("\n".join(rows_table(application_rows_of(comparison.policies))))
        yield from (figure_of(name, each) for each in compare_figures(comparison.policies, scenario.expected))
        for policy, result in comparison.policies.items():
            assert not isinstance(result.applications, UnsetType)
            for application, each in result.applications.items():
                start = f"{name}_{policy}_{application}".replace("-", "_")
                yield Figure(name=f"{start}_mean", value=each.response_mean_ms, unit="ms, mean response time")
                yield Figure(name=f"{start}_p95", value=each.response_p95_ms, unit="ms, 95th percentile")

"""The scenarios in `scenarios/`: figures of papers and CloudSim, compared with ours."""

import argparse
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from time import process_time

from bench.common.progress import Progress
from bench.common.requirements import Need, dataset, is_left_out
from bench.common.results import Figure, Result
from bench.scenarios import report
from replay.reporting.references import FigureComparison, compare_figures
from replay.setup.scenario import Scenario, read_scenario
from replay.simulation.compare import Comparison, compare
from replay.simulation.elastic.compare import ElasticComparison, compare_elastic
from replay.sources import Locate, arrivals_of, with_data, workloads
from wattpack.datasets.catalogue import add_data_option, search_path
from wattpack.datasets.traces import locate_in
from wire.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_data_option(parser)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="run only these scenarios")
    parser.add_argument(
        "--write", type=Path, metavar="FOLDER", help=f"write {report.NAME}.json and .md there"
    )
    parser.add_argument("--keep", action="store_true", help="keep the results of other scenarios in FOLDER")


def needs(options: argparse.Namespace) -> list[Need]:
    """The data sets of each scenario: the trace, and the one to learn from."""
    return [
        dataset(each, options.data, name)
        for name, scenario in _chosen(options.only)
        for each in _datasets(scenario)
        if each is not None
    ]


def _datasets(scenario: Scenario) -> Iterator[str | None]:
    yield from (
        scenario.hosts_dataset,
        scenario.startup.same_host_dataset,
        scenario.startup.other_host_dataset,
    )
    if scenario.trace is not None and scenario.trace.dataset is not None:
        yield from (scenario.trace.dataset, scenario.trace.learn)


def run(options: argparse.Namespace, progress: Progress) -> Result:
    """Replay each scenario, and compare its figures with the expected ones."""
    kept = report.read(options.write) if options.keep and options.write else report.ScenarioResults({}, {})
    done, absent = dict(kept.scenarios), dict(kept.absent)
    figures: list[Figure] = []
    for name, scenario in _chosen(options.only):
        if is_left_out(options, name):
            absent[name] = options.left_out[name]
            continue
        began = process_time()
        locate = locate_in(search_path(options.data))
        complete = with_data(scenario, locate)
        comparison = _replay(complete, locate, progress)
        compared = compare_figures(comparison.policies, scenario.expected)
        done[name] = report.replayed(scenario, comparison, compared, process_time() - began)
        absent.pop(name, None)
        figures.extend(figure_of(name, each) for each in compared)
        if options.write:
            report.write(
                report.ScenarioResults(dict(sorted(done.items())), dict(sorted(absent.items()))),
                options.write,
            )
    if not figures:
        raise UserError(f"no scenario could be replayed: {'; '.join(absent.values())}")
    return Result(tuple(figures), settings={"absent": sorted(absent)})


def _chosen(only: list[str] | None) -> Iterator[tuple[str, Scenario]]:
    for path in sorted(report.FOLDER.glob("*.toml")):
        scenario = read_scenario(path)
        if path.stem in only if only else scenario.run and scenario.expected:
            yield path.stem, scenario


def _replay(scenario: Scenario, locate: Locate, progress: Progress) -> Comparison | ElasticComparison:
    def show(policy: str, total: float) -> AbstractContextManager[Callable[[float], None]]:
        return progress.track(policy, total, " s")

    names = list(scenario.run)
    if scenario.elastic is not None:
        return compare_elastic(names, scenario, arrivals_of(scenario, report.FOLDER), show)
    workload, earlier = workloads(scenario, report.FOLDER, locate)
    return compare(names, scenario, workload, earlier, show)


def figure_of(scenario: str, each: FigureComparison) -> Figure:
    """Make a figure of a scenario, with its expected bounds."""
    against = f"_against_{each.relative_to}" if each.relative_to else ""
    name = f"{scenario}_{each.policy}_{each.figure}{against}".replace("-", "_").replace(".", "_")
    return Figure(name=name, value=each.ours, unit="", at_most=each.at_most, at_least=each.at_least)

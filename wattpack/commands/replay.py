"""`wattpack replay`: compare policies on a recorded workload."""

import argparse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from replay.readers.history import read_history
from replay.readers.queues import read_hosts
from replay.reporting.charts import scatter_text
from replay.reporting.page import elastic_page, page
from replay.reporting.pareto import Pareto, dots_of, marked, pareto_of, pareto_rows_of, plan_sweep, summary
from replay.reporting.references import compare_figures, figure_rows_of, notes
from replay.reporting.tables import application_rows_of, elastic_rows_of, rows_of, slo_rows_of
from replay.setup.scenario import QUEUE_SIMULATION, Scenario, Trace, read_scenario
from replay.setup.workload import Workload
from replay.simulation.compare import Comparison, compare
from replay.simulation.elastic.compare import ElasticComparison, compare_elastic
from replay.simulation.results import csv_of
from replay.sources import FORMATS, arrivals_of, with_data, workloads
from wattpack.config.arguments import add
from wattpack.datasets.catalogue import add_data_option, search_path
from wattpack.datasets.traces import locate_in
from wattpack.output.text import print_result, progress_bar, rows_table, write_text
from wire.errors import UserError

_HISTORY = Path("/var/lib/wattpack/collector.db")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, "[SCENARIO.toml]", "scenario to replay", Path, dest="scenario")
    add(parser, "--trace FILE", "trace to replay: a file, folder or data set; needs --hosts", Path)
    add(parser, "--history [FILE]", "history of a collector to replay", Path, default=_HISTORY)
    days = (
        "replay the last N days of --history; those before the oldest stored sample from means over five"
        " minutes or an hour (default: all days with samples)"
    )
    add(parser, "--days N", days, float)
    add(parser, f"--format {'|'.join(FORMATS)}", "format of the trace")
    add(parser, "--learn FILE", "earlier trace that policies learn from", Path)
    add_data_option(parser)
    add(parser, "--hosts FILE", "hosts for a trace: a scenario, or a CSV for traces of requests", Path)
    add(parser, "--policies A,B", "policies to compare, as NAME or NAME:KEY=VALUE:KEY=VALUE")
    pareto = (
        "also run a policy with several values of the setting that trades energy against time short, and"
        " compare them with the other policies"
    )
    add(parser, "--pareto [POLICY]", pareto, default="least-watts")
    add(parser, "--seed SEED", "random seed, instead of that of the scenario", int)
    add(parser, "--json", "print the results as JSON")
    add(parser, "--csv FILE", "also write the results as CSV", Path)
    add(parser, "--html FILE", "also write a page with charts", Path)


def run(arguments: argparse.Namespace) -> int:
    _check(arguments)
    if arguments.scenario is not None:
        scenario = read_scenario(arguments.scenario)
        if scenario.elastic is not None:
            return _run_elastic(arguments, _seeded(scenario, arguments.seed))
    scenario, workload, earlier = _load(arguments)
    names = _policies(arguments, scenario)
    sweep = None if arguments.pareto is None else plan_sweep(arguments.pareto, scenario)
    runs = list(dict.fromkeys((*names, *(sweep.runs.values() if sweep is not None else ()))))
    everything = compare(runs, scenario, workload, earlier, _Progress(len(runs)))
    comparison = everything.only(names)
    pareto = None if sweep is None else pareto_of(sweep, everything.policies, names)
    _write(arguments, csv_of(everything.policies), lambda: page(comparison, scenario, pareto))
    found = {"policies": comparison.policies} | ({} if pareto is None else {"pareto": pareto})
    lines = () if pareto is None else ("", *_format_pareto(pareto))
    return print_result(arguments, found, (*_format(comparison, scenario), *lines))


def _run_elastic(arguments: argparse.Namespace, scenario: Scenario) -> int:
    """Compare elasticity policies on the elastic service of a scenario."""
    names = _policies(arguments, scenario)
    if arguments.pareto is not None:
        raise UserError("--pareto compares placement policies: leave it out for an elastic service")
    arrivals = arrivals_of(scenario, arguments.scenario.parent)
    comparison = compare_elastic(names, scenario, arrivals, _Progress(len(names)))
    _write(arguments, csv_of(comparison.policies), lambda: elastic_page(comparison, scenario))
    return print_result(arguments, {"policies": comparison.policies}, _format_elastic(comparison, scenario))


def _policies(arguments: argparse.Namespace, scenario: Scenario) -> list[str]:
    names = arguments.policies.split(",") if arguments.policies else list(scenario.run)
    if not names:
        raise UserError("no policies to compare: give them with --policies A,B")
    return names


def _write(arguments: argparse.Namespace, csv: str, html: Callable[[], str]) -> None:
    if arguments.csv:
        write_text(arguments.csv, csv)
    if arguments.html:
        write_text(arguments.html, html())


def _check(arguments: argparse.Namespace) -> None:
    """Refuse arguments that contradict each other, before any file is read."""
    if sum(each is not None for each in (arguments.scenario, arguments.trace, arguments.history)) != 1:
        raise UserError("give a scenario, or --trace with --format and --hosts, or --history")
    if arguments.days is not None and (arguments.history is None or not arguments.days > 0):
        raise UserError("--days needs --history and a number above 0")


def _load(arguments: argparse.Namespace) -> tuple[Scenario, Workload, Workload | None]:
    """The scenario with overrides, its workload, and the earlier workload to learn from."""
    if arguments.history is not None:
        scenario, workload = read_history(arguments.history, arguments.days)
        return _seeded(scenario, arguments.seed), workload, None
    if arguments.scenario is not None:
        scenario, base = read_scenario(arguments.scenario), arguments.scenario.parent
    else:
        if arguments.hosts is None:
            raise UserError("--trace needs --hosts; an example is --hosts scenarios/planetlab-hosts.toml")
        scenario, base = _hosts(arguments.hosts), Path()
        trace = _trace(arguments.trace, arguments.format, arguments.learn)
        scenario = msgspec.structs.replace(scenario, trace=trace)
    locate = locate_in(search_path(arguments.data))
    scenario = with_data(_seeded(scenario, arguments.seed), locate)
    return scenario, *workloads(scenario, base, locate)


def _hosts(path: Path) -> Scenario:
    """The hosts of a scenario file, or of a CSV with a host per line."""
    if path.name.removesuffix(".gz").endswith(".csv"):
        return Scenario(hosts=read_hosts(path), simulation=QUEUE_SIMULATION)
    return read_scenario(path)


def _trace(path: Path, format_name: str | None, learn: Path | None) -> Trace:
    """A file or folder in a format; without a format, a data set."""
    earlier = None if learn is None else str(learn)
    if format_name is not None:
        return Trace(file=str(path), format=format_name, learn=earlier)
    if path.exists():
        raise UserError(f"--trace {path} needs --format: one of {', '.join(FORMATS)}")
    return Trace(dataset=str(path), learn=earlier)


def _seeded(scenario: Scenario, seed: int | None) -> Scenario:
    if seed is None:
        return scenario
    simulation = msgspec.structs.replace(scenario.simulation, seed=seed)
    return msgspec.structs.replace(scenario, simulation=simulation)


def _format(comparison: Comparison, scenario: Scenario) -> Iterator[str]:
    promised = list(slo_rows_of(comparison.policies))
    yield from rows_table(promised or rows_of(comparison.policies))
    if applications := list(application_rows_of(comparison.policies)):
        yield ""
        yield from rows_table(applications)
    yield from _format_notes(comparison.notes, comparison.policies, scenario)


def _format_elastic(comparison: ElasticComparison, scenario: Scenario) -> Iterator[str]:
    yield from rows_table(elastic_rows_of(comparison.policies))
    yield from _format_notes(comparison.notes, comparison.policies, scenario)


def _format_notes(
    comments: Mapping[str, str], policies: Mapping[str, msgspec.Struct], scenario: Scenario
) -> Iterator[str]:
    yield from (f"{name}: {note}" for name, note in comments.items())
    if compared := compare_figures(policies, scenario.expected):
        yield ""
        yield from rows_table(figure_rows_of(compared))
        yield from notes(compared)


def _format_pareto(pareto: Pareto) -> Iterator[str]:
    points = marked(pareto)
    yield from rows_table(pareto_rows_of(points))
    yield summary(points)
    yield ""
    yield from scatter_text(dots_of(points, {}), "time short, %", "kWh")


class _Progress:
    """A progress bar over several runs, if standard error is a terminal."""

    def __init__(self, runs: int) -> None:
        self._runs, self._finished = runs, 0

    @contextmanager
    def __call__(self, name: str, total: float) -> Iterator[Callable[[float], None]]:
        """Show one run of this length."""
        finished, self._finished = self._finished, self._finished + 1
        label = f"{self._finished} of {self._runs}: {name}"
        with progress_bar(label, finished / self._runs) as show:
            yield lambda done: show((finished + min(1.0, done / total)) / self._runs)

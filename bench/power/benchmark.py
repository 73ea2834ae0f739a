"""Accuracy of the power models: three protocols on recordings of metered servers, and the prior."""

import argparse
from collections.abc import Iterator

from bench.common.progress import Progress
from bench.common.requirements import Need, dataset, is_left_out
from bench.common.results import Figure, Result
from bench.power.changes import MinuteErrors, follow_all
from bench.power.generated import MACHINES, generate, plain_error_ratio
from bench.power.prior import evaluate_prior
from powermodels.evaluate.run import PROTOCOLS, Evaluation, evaluate
from powermodels.fit.arrays import workloads_of
from powermodels.fit.fitting import expected_error_ratio
from wattpack.datasets.catalogue import add_data_option, require, search_path

_MACHINES = ("opteron-6140", "xeon-e5-2640", "xeon-x5650")
_MOST_PERCENT = {"unseen": 6.9, "blind20": 4.0}
_MOST_ACTUAL_OVER_STATED = 1.3
_MOST_OVER_PLAIN = 1.05
_FOLLOWED_RATIO = 0.03
_LEAST_FOLLOWED_PERCENT = 99.0
_MOST_POINTS_OVER_PERSISTENCE = 0.5
_MOST_PRIOR_PERCENT = 15.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_data_option(parser)
    parser.add_argument(
        "--machines", nargs="+", default=list(_MACHINES), help="machines whose recordings are evaluated"
    )


def needs(options: argparse.Namespace) -> list[Need]:
    """The recordings of each machine."""
    return [dataset(machine, options.data, machine) for machine in options.machines]


def run(options: argparse.Namespace, progress: Progress) -> Result:
    """Evaluate the default model and all baselines."""
    machines = [machine for machine in options.machines if not is_left_out(options, machine)]
    folders = search_path(options.data)
    paths = [require(machine, folders).path for machine in machines]
    figures: list[Figure] = []
    for protocol in PROTOCOLS if paths else ():
        progress.say(f"{protocol}: fit and predict every workload of {len(paths)} machines")
        figures.extend(_figures(evaluate(paths, protocol)))
    figures.extend(_following_figures(progress))
    figures.extend(_choice_figures(progress))
    figures.extend(_prior_figures())
    return Result(tuple(figures), settings={"machines": machines})


def _figures(evaluation: Evaluation) -> Iterator[Figure]:
    protocol = evaluation.protocol
    yield _percent(f"{protocol}_mape", evaluation.mean.mape, _MOST_PERCENT.get(protocol))
    yield _percent(f"{protocol}_p95", evaluation.mean.p95)
    yield _percent(f"{protocol}_dynamic_range_error", evaluation.mean.dynamic_range)
    for machine, result in evaluation.files.items():
        yield _percent(f"{protocol}_mape_{machine}", result.mean.mape)
        if result.stated:
            yield _percent(f"{protocol}_stated_{machine}", result.stated)
            yield Figure(
                name=f"{protocol}_actual_over_stated_{machine}",
                value=result.mean.mape / result.stated,
                unit="ratio",
                at_most=_MOST_ACTUAL_OVER_STATED,
                at_least=1 / _MOST_ACTUAL_OVER_STATED,
            )
    for name, means in (*evaluation.models.items(), *evaluation.baselines.items()):
        yield _percent(f"{protocol}_mape_of_{name.replace(' ', '_')}", means.mean.mape)
    if protocol == "metered":
        yield Figure(
            name="metered_over_persistence",
            value=evaluation.mean.mape - evaluation.baselines["persistence"].mean.mape,
            unit="points",
            at_most=_MOST_POINTS_OVER_PERSISTENCE,
        )
    yield Figure(
        name=f"{protocol}_outside_bounds", value=evaluation.outside_bounds, unit="guesses", at_most=0
    )


def _following_figures(progress: Progress) -> Iterator[Figure]:
    errors_by_change = follow_all(progress.say)
    for change, result in errors_by_change.items():
        yield _percent(f"adaptive_worst_minute_{change.replace(' ', '_')}", 100 * result.worst)
    everything = MinuteErrors(
        tuple(minute for result in errors_by_change.values() for minute in result.minutes)
    )
    yield _percent("adaptive_worst_minute", 100 * everything.worst)
    yield Figure(
        name="adaptive_minutes_under_3_percent",
        value=100 * everything.share_below(_FOLLOWED_RATIO),
        unit="%",
        at_least=_LEAST_FOLLOWED_PERCENT,
    )


def _choice_figures(progress: Progress) -> Iterator[Figure]:
    """Errors of the chosen and of the plain form, on generated machines."""
    progress.say(f"choice: {len(MACHINES)} generated machines")
    for machine in MACHINES:
        workloads = workloads_of(generate(machine, 1))
        plain, chosen = plain_error_ratio(workloads), expected_error_ratio(workloads, cycles_known=False)
        name = machine.name.replace(" ", "_")
        yield _percent(f"generated_{name}_plain", 100 * plain)
        yield _percent(f"generated_{name}", 100 * chosen, _MOST_OVER_PLAIN * 100 * plain)


def _prior_figures() -> Iterator[Figure]:
    prior = evaluate_prior()
    yield _percent("prior_error", prior.mean, _MOST_PRIOR_PERCENT)
    yield _percent("prior_error_of_straight_line", prior.straight_line)
    yield _percent("prior_error_of_cubic_formula", prior.cubic)


def _percent(name: str, value: float, at_most: float | None = None) -> Figure:
    return Figure(name=name, value=value, unit="%", at_most=at_most)

"""`python -m powermodels.evaluate.report FOLDER FILE...`: measure everything, and write the page about it.

Writes FOLDER/power-accuracy.json, what was measured, and FOLDER/power-accuracy.md, the same for people. The
page is made from the numbers alone, so that it can be made again from them.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from powermodels.evaluate.prior import PriorResult, cores_exponent_errors, evaluate_prior
from powermodels.evaluate.protocols import PROTOCOLS
from powermodels.evaluate.run import Evaluation, evaluate
from powermodels.evaluate.scores import Score
from powermodels.models.published import CORES_EXPONENT
from wire.errors import UserError

_EXPONENTS = (0.0, 0.5, CORES_EXPONENT, 0.8, 1.0)


class Report(msgspec.Struct, frozen=True):
    """Everything that was measured."""

    protocols: dict[str, Evaluation]
    prior: PriorResult
    cores_exponents: dict[str, float]


def measure(paths: Sequence[Path]) -> Report:
    """Run every protocol, and the prior."""
    return Report(
        protocols={protocol: evaluate(paths, protocol) for protocol in PROTOCOLS},
        prior=evaluate_prior(),
        cores_exponents={f"{key:g}": error for key, error in cores_exponent_errors(_EXPONENTS).items()},
    )


def write(report: Report, folder: Path) -> None:
    """Write the numbers and the page."""
    (folder / "power-accuracy.json").write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    (folder / "power-accuracy.md").write_text(page(report), encoding="utf-8")


def page(report: Report) -> str:
    """The page about these numbers."""
    return "\n".join(_page(report)) + "\n"


def _page(report: Report) -> Iterator[str]:
    yield from _INTRODUCTION
    for protocol, evaluation in report.protocols.items():
        yield from ("", f"## {_TITLES[protocol]}", "", _EXPLANATIONS[protocol], "")
        yield from _means(evaluation)
        yield from _stated(evaluation)
        yield from ("", f"Workload by workload, {evaluation.model}:", "")
        yield from _workloads(evaluation)
    yield from _bounds(report.protocols.values())
    yield from _prior(report)


_INTRODUCTION = (
    "# How far off the watts are",
    "",
    "Made by `python -m powermodels.evaluate.report` from `power-accuracy.json`; do not edit.",
    "",
    "Three servers with a power meter ran eight services of CloudSuite and two micro-benchmarks (M. Canuto",
    'et al., "power-modelling", Apache-2.0; not part of this project). Models see what any Linux tells: CPU',
    "time, memory, disk and network; no hardware counters. MAPE is the mean of |error| / watts over the",
    "samples of a workload; means are over the eight services, which count the same, and then over the",
    "machines. No fit has seen the samples it is asked about. The form of the curve and the error it states",
    "come from each machine's own workloads, left out in turn. Two things were decided with these machines",
    "in view: that a fit starts from the mean of formula and table, and how much more the correction of the",
    "adaptive model trusts offset and gain than shape (three times; one to nine times give 3.2-3.4 % below",
    "for a meter that goes away). Other machines may come out worse.",
    "`wattpack evaluate FILE... --protocol NAME` measures the same on your own recordings.",
)
_TITLES = {
    "unseen": "A workload that was never metered",
    "blind20": "A meter for the first fifth, then none",
    "metered": "A meter that is always on",
}
_EXPLANATIONS = {
    "unseen": "The model knows the machine's other workloads, and is asked about one it has not seen.",
    "blind20": (
        "The meter goes away after a fifth of the workload; only the rest counts. Our models know the\n"
        "machine's other workloads as well, as an agent does that was calibrated or has run for a while;\n"
        "`adaptive-alone` and the baselines know the first fifth alone."
    ),
    "metered": (
        "The next reading is to be told from the readings so far and the load. The last reading is hard to\n"
        "beat here, which is why models are to be judged blind."
    ),
}


def _means(evaluation: Evaluation) -> Iterator[str]:
    machines = list(evaluation.files)
    yield from _head(("MAPE %", *machines, "mean", "p95 %", "of the range %"))
    ours = {name: result.mean for name, result in evaluation.files.items()}
    yield _row(f"**{evaluation.model}**", ours, evaluation.mean)
    for name, means in (*evaluation.models.items(), *evaluation.baselines.items()):
        yield _row(name, means.files, means.mean)


def _stated(evaluation: Evaluation) -> Iterator[str]:
    stated = {name: result.stated for name, result in evaluation.files.items() if result.stated is not None}
    if not stated:
        return
    yield from (
        "",
        "The error that the models state about themselves, each fitted without that workload:",
        "",
    )
    yield from _head(("MAPE %", *stated))
    yield _line(("stated", *(f"{value:.1f}" for value in stated.values())))
    yield _line(("actual", *(f"{evaluation.files[name].mean.mape:.1f}" for name in stated)))


def _row(name: str, files: dict[str, Score], mean: Score) -> str:
    values = (*(score.mape for score in files.values()), mean.mape, mean.p95, mean.dynamic_range)
    return _line((name, *(f"{value:.1f}" for value in values)))


def _workloads(evaluation: Evaluation) -> Iterator[str]:
    machines = list(evaluation.files)
    yield from _head(("MAPE %", *machines))
    for workload in next(iter(evaluation.files.values())).workloads:
        scores = [evaluation.files[machine].workloads.get(workload) for machine in machines]
        yield _line((workload, *("" if score is None else f"{score.mape:.1f}" for score in scores)))


def _bounds(evaluations: Iterable[Evaluation]) -> Iterator[str]:
    outside = sum(evaluation.outside_bounds for evaluation in evaluations)
    yield from (
        "",
        "## Bounds",
        "",
        f"Guesses of our default model below 0, or more than a tenth above the highest reading: {outside}.",
    )


def _prior(report: Report) -> Iterator[str]:
    prior = report.prior
    yield from (
        "",
        "## Without any meter: the prior",
        "",
        "Mean error at 10-100 % load over published SPECpower curves, each machine left out of the prior's",
        "table while it is asked about. The shape of the curve was chosen with these machines in view; the",
        "levels were not. Machines in use differ more from the benchmark than from each other: on the three",
        "servers above the prior is off by a third, and it says ±40 % of itself.",
        "",
    )
    yield from _head(("", "mean error %"))
    yield _line(("**prior**", f"{prior.mean:.1f}"))
    yield _line(("straight line between the prior's idle and full power", f"{prior.straight_line:.1f}"))
    yield _line(("cubic formula, TDP * (0.1 + 0.9 u^3)", f"{prior.cubic:.1f}"))
    yield _line(("straight line between the machine's own idle and full power", f"{prior.own_line:.1f}"))
    yield _line(("the prior's curve between those", f"{prior.own_curve:.1f}"))
    yield ""
    yield from _head(("machine", "error %"))
    for name, error in prior.machines.items():
        yield _line((name, f"{error:.1f}"))
    yield from (
        "",
        "What load adds to a socket grows as its cores to some power. How far off that is when other makers'",
        f"machines of the generation tell it; {CORES_EXPONENT:g} is what the prior uses:",
        "",
    )
    yield from _head(("exponent", *report.cores_exponents))
    yield _line(("error %", *(f"{error:.1f}" for error in report.cores_exponents.values())))


def _head(cells: Sequence[str]) -> tuple[str, str]:
    return _line(cells), "|---" * len(cells) + "|"


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def main(arguments: Sequence[str]) -> int:
    """Measure and write; returns the exit status."""
    if len(arguments) < 2:  # noqa: PLR2004 - a folder and a file
        print("usage: python -m powermodels.evaluate.report FOLDER FILE...", file=sys.stderr)
        return 2
    folder, *files = map(Path, arguments)
    try:
        write(measure(files), folder)
    except UserError as complaint:
        print(f"report: {complaint}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

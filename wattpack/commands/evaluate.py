"""`wattpack evaluate`: how far off the power models are on recordings of metered machines."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from powermodels.evaluate.contenders import MODELS
from powermodels.evaluate.protocols import PROTOCOLS
from powermodels.evaluate.run import DEFAULT_MODEL, Evaluation, evaluate
from powermodels.evaluate.scores import Score


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a recording, CSV or CSV.gz")
    parser.add_argument(
        "--protocol",
        choices=tuple(PROTOCOLS),
        required=True,
        help="unseen: never metered on the workload; blind20: metered for its first fifth; "
        "metered: always, against the last reading",
    )
    parser.add_argument(
        "--model", choices=tuple(MODELS), default=DEFAULT_MODEL, help="whose errors (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON")


def run(arguments: argparse.Namespace) -> int:
    tell = _tell if sys.stderr.isatty() else _say_nothing
    evaluation = evaluate(arguments.files, arguments.protocol, arguments.model, tell)
    if arguments.json:
        print(msgspec.json.format(msgspec.json.encode(evaluation)).decode())
    else:
        print("\n".join(_table(evaluation)))
    return 0


def _tell(text: str) -> None:
    print(text, file=sys.stderr)


def _say_nothing(_: str) -> None:
    """Nobody watches."""


def _table(evaluation: Evaluation) -> Iterator[str]:
    yield f"{'':40} {'MAPE %':>8} {'MAE W':>8} {'p95 %':>8} {'range %':>8}"
    for name, result in evaluation.files.items():
        for workload, score in result.workloads.items():
            yield _line(f"{name}, {workload}", score)
    for name, result in evaluation.files.items():
        yield _line(f"{name}, mean of real services", result.mean)
    yield _line(f"{evaluation.model}, mean of all machines", evaluation.mean)
    for name, means in (*evaluation.models.items(), *evaluation.baselines.items()):
        yield _line(name, means.mean)


def _line(name: str, score: Score) -> str:
    return f"{name:40} {score.mape:8.1f} {score.mae:8.1f} {score.p95:8.1f} {score.dynamic_range:8.1f}"

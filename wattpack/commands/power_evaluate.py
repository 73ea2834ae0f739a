"""`wattpack power evaluate`: accuracy of power models on recordings of metered machines."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from powermodels.evaluate.contenders import MODELS
from powermodels.evaluate.run import DEFAULT_MODEL, PROTOCOLS, Evaluation, Score, evaluate
from wattpack.config.arguments import add
from wattpack.datasets.catalogue import DATASETS, RECORDING, add_data_option, find, require, search_path
from wattpack.output.text import print_result
from wire.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    files = (
        "a recording (CSV, CSV.gz), a folder of them, or a data set (default: all recordings that are found)"
    )
    add(parser, "FILE...", files, Path, dest="files")
    add_data_option(parser)
    protocols = (
        "unseen: no meter on the workload; blind20: a meter for its first fifth; metered: a meter"
        " throughout, compared with the last reading"
    )
    add(parser, f"--protocol {'|'.join(PROTOCOLS)}", protocols, required=True)
    add(parser, f"--model {'|'.join(MODELS)}", "the model to evaluate", default=DEFAULT_MODEL)
    add(parser, "--json", "print everything as JSON")


def run(arguments: argparse.Namespace) -> int:
    paths = _paths(arguments.files, search_path(arguments.data))
    evaluation = evaluate(paths, arguments.protocol, arguments.model, _show_progress)
    return print_result(arguments, evaluation, _lines(evaluation))


def _paths(files: Sequence[Path], folders: Sequence[Path]) -> list[Path]:
    """Given files, and the paths of named data sets; all recordings if none is named."""
    names = [str(file) for file in files if not file.exists()]
    if unknown := [name for name in names if name not in DATASETS]:
        raise UserError(f"no recording {unknown[0]}: give a file, or a data set from 'wattpack data'")
    found = {name: require(name, folders) for name in names}
    if not files:
        recordings = [each for each in DATASETS.values() if each.format == RECORDING]
        found = {each.name: where for each in recordings if (where := find(each.name, folders))}
        found = found or {recordings[0].name: require(recordings[0].name, folders)}
    return [found[str(file)].path if str(file) in found else file for file in files] or [
        each.path for each in found.values()
    ]


def _show_progress(text: str) -> None:
    if sys.stderr.isatty():
        print(text, file=sys.stderr)


def _lines(evaluation: Evaluation) -> Iterator[str]:
    yield f"{'':40} {'MAPE %':>8} {'MAE W':>8} {'p95 %':>8} {'range %':>8}"
    for name, result in evaluation.files.items():
        for workload, score in result.workloads.items():
            yield _line(f"{name}, {workload}", score)
    for name, result in evaluation.files.items():
        yield _line(f"{name}, mean of real services", result.mean)
        if result.stated is not None:
            yield f"{f'{name}, error stated by the models':40} {result.stated:8.1f}"
    yield _line(f"{evaluation.model}, mean of all machines", evaluation.mean)
    for name, means in (*evaluation.models.items(), *evaluation.baselines.items()):
        yield _line(name, means.mean)


def _line(name: str, score: Score) -> str:
    return f"{name:40} {score.mape:8.1f} {score.mae:8.1f} {score.p95:8.1f} {score.dynamic_range:8.1f}"

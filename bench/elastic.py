"""Elasticity: how many containers a service needs, and how large they are."""

import argparse
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from bench import elastic_sizes
from bench.frame import Figure, Progress, Result
from bench.requirements import Need, dataset, is_left_out
from wattpack.datasets.options import add_data_option
from wire.errors import UserError

Part = Callable[[Path | None, Progress], Iterator[Figure]]
_PARTS: Mapping[str, tuple[tuple[str, ...], Part]] = {
    "sizes": (elastic_sizes.DATASETS, elastic_sizes.measure),
}
"""Per name: the data sets that it needs, and what it measures. Each part is a module of its own."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_data_option(parser)
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", help=f"parts, instead of all: {', '.join(_PARTS)}"
    )


def needs(options: argparse.Namespace) -> list[Need]:
    """The data sets of each part; a part without its needs is left out."""
    return [dataset(name, options.data, part) for part in _chosen(options) for name in _PARTS[part][0]]


def run(options: argparse.Namespace, progress: Progress) -> Result:
    """Run each part, and print its figures as they come."""
    figures: list[Figure] = []
    for part in _chosen(options):
        if is_left_out(options, part):
            continue
        for figure in _PARTS[part][1](options.data, progress):
            progress.say(f"{figure}: {'ok' if figure.ok else 'missed'}")
            figures.append(figure)
    return Result(tuple(figures))


def _chosen(options: argparse.Namespace) -> list[str]:
    only = options.only or list(_PARTS)
    if unknown := [name for name in only if name not in _PARTS]:
        raise UserError(f"--only: there is no {unknown[0]!r}: choose of {', '.join(_PARTS)}")
    return [part for part in _PARTS if part in only]

"""Elasticity: how many containers a service needs, and how large they are."""

import argparse
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from bench import elastic_sizes
from bench.frame import Figure, Progress, Result
from bench.parts import choose_parts, run_parts
from bench.requirements import Need, dataset
from wattpack.datasets.options import add_data_option

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
    return run_parts(
        options, _chosen(options), lambda part: _PARTS[part][1](options.data, progress), progress
    )


def _chosen(options: argparse.Namespace) -> list[str]:
    return choose_parts(options.only, _PARTS)

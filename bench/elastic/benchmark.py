"""Elasticity: the number and the size of a service's containers."""

import argparse
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from bench.common.parts import choose_parts, run_parts
from bench.common.progress import Progress
from bench.common.requirements import Need, dataset, lab_part
from bench.common.results import Figure, Result
from bench.elastic import admission, day, paper, sizes, swarm
from wattpack.datasets.catalogue import add_data_option

Part = Callable[[Path | None, Progress], Iterator[Figure]]
_LAB = "swarm"
_PARTS: Mapping[str, tuple[tuple[str, ...], Part]] = {
    "sizes": (sizes.DATASETS, sizes.measure),
    "admission": (admission.DATASETS, admission.measure),
    _LAB: ((), swarm.measure),
}
"""Per part: the data sets that it needs, and its function. Each part is a module."""
_GENERATED: Mapping[str, Callable[[int, Progress], Iterator[Figure]]] = {
    "paper": paper.measure,
    "day": day.measure,
}
"""Parts with generated loads, from a seed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_data_option(parser)
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="NAME",
        help=f"run only these parts: {', '.join((*_PARTS, *_GENERATED))}",
    )
    parser.add_argument(
        "--seed", type=int, help="first seed of generated loads (default: a new one, which is printed)"
    )
    parser.add_argument("--lab", action="store_true", help=f"also run the part {_LAB}, on a real Swarm")


def needs(options: argparse.Namespace) -> list[Need]:
    """The data sets of each part, and a Swarm; a part whose needs are not met is left out."""
    chosen = _chosen(options)
    data = [
        dataset(name, options.data, part) for part in chosen if part in _PARTS for name in _PARTS[part][0]
    ]
    return [*data, *((lab_part(name, _LAB) for name in ("swarm", "web")) if _LAB in chosen else ())]


def run(options: argparse.Namespace, progress: Progress) -> Result:
    """Run each part, and print each figure when it is measured."""
    seed = int(time.time()) if options.seed is None else options.seed
    progress.say(f"seed {seed}")

    def figures_of(part: str) -> Iterator[Figure]:
        if part in _GENERATED:
            return _GENERATED[part](seed, progress)
        return _PARTS[part][1](options.data, progress)

    result = run_parts(options, _chosen(options), figures_of, progress)
    return replace(result, settings={**result.settings, "seed": seed})


def _chosen(options: argparse.Namespace) -> list[str]:
    parts = (*_PARTS, *_GENERATED)
    without_lab = [part for part in parts if options.lab or part != _LAB]
    return choose_parts(options.only or without_lab, parts)

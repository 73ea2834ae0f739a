"""How the costs of a collector grow with the number of containers; writes a page about it if asked."""

import argparse
import os
import platform
import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from bench.common.progress import Progress
from bench.common.results import Figure, Result
from bench.growth import report
from bench.growth.measure import CONTAINERS, measure
from wire.errors import UserError

SIZES = (1_000, 10_000, 100_000)
MOST_EXPONENT = 1.25
"""A cost that grows with the cluster may grow a little faster than it; what this forbids is a square."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--sizes", nargs="+", type=int, default=list(SIZES), metavar="CONTAINERS", help="sizes of clusters"
    )
    parser.add_argument(
        "--write", type=Path, metavar="FOLDER", help=f"write {report.NAME}.json and .md there"
    )


def run(options: argparse.Namespace, progress: Progress) -> Result:
    """Measure each size, each with a collector of its own."""
    sizes = sorted(set(options.sizes))
    if sizes[0] < CONTAINERS:
        raise UserError(f"a node has {CONTAINERS} containers: choose sizes from {CONTAINERS} on")
    growth = report.Growth(machine=_machine(), costs={})
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            progress.say(f"{size} containers on {size // CONTAINERS} nodes")
            growth.costs[size] = measure(size, Path(folder) / str(size), progress)
    if options.write:
        report.write(growth, options.write)
    return Result(
        tuple(_figures(growth, sizes)), settings={"sizes": sizes, "containers_per_node": CONTAINERS}
    )


def _machine() -> str:
    cores = len(os.sched_getaffinity(0))
    return f"{cores} cores, Python {platform.python_version()}"


def _figures(growth: report.Growth, sizes: Sequence[int]) -> Iterator[Figure]:
    for cost in report.COSTS:
        for size in sizes:
            yield Figure(name=f"{cost.name}_{size}", value=growth.cost(cost, size), unit=cost.unit)
        for smaller, larger in pairwise(sizes):
            yield Figure(
                name=f"{cost.name}_exponent_to_{larger}",
                value=growth.exponent(cost, smaller, larger),
                unit="power of the size",
                at_most=MOST_EXPONENT,
            )

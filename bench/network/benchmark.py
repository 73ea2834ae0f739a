"""The network between nodes: the mesh, and policies that place applications within a bound of delays.

Each part is a module with `figures(progress)`, and `needs(part)` if it needs a part of the lab.
"""

import argparse
import importlib
from collections.abc import Iterator, Mapping
from typing import Protocol, cast

from bench.common.parts import choose_parts, run_parts
from bench.common.progress import Progress
from bench.common.requirements import Need
from bench.common.results import Figure, Result

_PARTS: Mapping[str, str] = {
    "policies": "bench.network.policies",
    "swarm": "bench.network.swarm",
    "replay": "bench.network.replay",
    "mesh": "bench.network.mesh",
}
"""The module of each part, imported only when it runs."""


class _Part(Protocol):
    def figures(self, progress: Progress) -> Iterator[Figure]: ...


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", help=f"run only these parts: {', '.join(_PARTS)}"
    )


def needs(options: argparse.Namespace) -> list[Need]:
    """The needs of each part; a part whose needs are not met is left out."""
    needed: list[Need] = []
    for part in _chosen(options):
        module = importlib.import_module(_PARTS[part])
        if hasattr(module, "needs"):
            needed += module.needs(part)
    return needed


def run(options: argparse.Namespace, progress: Progress) -> Result:
    """Run each part, and print each figure when it is measured."""
    return run_parts(options, _chosen(options), lambda part: _load(part).figures(progress), progress)


def _chosen(options: argparse.Namespace) -> list[str]:
    return choose_parts(options.only, _PARTS)


def _load(part: str) -> _Part:
    return cast("_Part", importlib.import_module(_PARTS[part]))

"""Promises of availability: the ledger on recorded runs and its cost, and policies on published workloads."""

import argparse
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from bench.common.parts import choose_parts, run_parts
from bench.common.progress import Progress
from bench.common.requirements import Need, dataset, lab_part
from bench.common.results import Figure, Result
from bench.slo import ledger, recorded, replays, swarm
from wattpack.datasets.catalogue import add_data_option

Part = Callable[[Path | None, Progress], Iterator[Figure]]
_SAME_HOST, _OTHER_HOST = "startup-seconds-same-host", "startup-seconds-other-host"
_LAB = "swarm"
_PARTS: Mapping[str, tuple[tuple[str, ...], Part]] = {
    "recorded": (tuple(recorded.LOGS.values()), recorded.recorded),
    **{
        f"validation-{number}": (
            (f"validation{number}-workload", _SAME_HOST),
            partial(replays.validation, number),
        )
        for number in (1, 2)
    },
    "controllers": ((_SAME_HOST,), replays.controllers),
    **{
        f"google-{level}": (
            (f"google-1h-{level}", "google-620-hosts", _SAME_HOST, _OTHER_HOST),
            partial(replays.google_hour, level),
        )
        for level in ("lower", "medium", "higher")
    },
    "ledger": ((), lambda _, progress: ledger.figures(progress)),
    _LAB: ((), swarm.measure),
}
"""Per part: the data sets that it needs, and its function."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_data_option(parser)
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", help=f"run only these parts: {', '.join(_PARTS)}"
    )
    parser.add_argument("--lab", action="store_true", help=f"also run the part {_LAB}, on a real Swarm")


def needs(options: argparse.Namespace) -> list[Need]:
    """The data sets of each part, and a Swarm; a part whose needs are not met is left out."""
    chosen = _chosen(options)
    data = [dataset(name, options.data, part) for part in chosen for name in _PARTS[part][0]]
    return [*data, *([lab_part("swarm", _LAB)] if _LAB in chosen else [])]


def run(options: argparse.Namespace, progress: Progress) -> Result:
    """Run each part, and print each figure when it is measured."""
    return run_parts(
        options, _chosen(options), lambda part: _PARTS[part][1](options.data, progress), progress
    )


def _chosen(options: argparse.Namespace) -> list[str]:
    without_lab = [part for part in _PARTS if options.lab or part != _LAB]
    return choose_parts(options.only or without_lab, _PARTS)

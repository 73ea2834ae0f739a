"""Requirements of benchmarks: data sets, parts of the lab, programs of peers.

A benchmark declares its needs in `needs(options)`. Missing packages are installed. If a need with a
`comparison` is not met, only that comparison is left out, and `options.left_out` lists it; if any other
need is not met, the benchmark does not start.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.lab.install import install_packages
from tests.lab.parts import PARTS, find_program
from wattpack.datasets.catalogue import dataset_named, describe_missing, find, search_path
from wire.errors import UserError


@dataclass(frozen=True, slots=True)
class Need:
    """One requirement."""

    name: str
    why_not: Callable[[], str | None]
    """Returns the reason why it is not available, or None if it is."""
    comparison: str | None = None
    """The comparison to leave out without it; None if the whole benchmark needs it."""
    packages: tuple[str, ...] = ()
    """The Debian packages that contain it."""


def lab_part(name: str, comparison: str | None = None) -> Need:
    """Require a part of the lab, such as an engine."""
    part = PARTS[name]
    return Need(name, part.why_not, comparison, tuple(sorted(set(part.programs.values()))))


def program(name: str, packages: Sequence[str], comparison: str | None = None) -> Need:
    """Require a program from Debian packages."""
    reason = f"{name} is not installed (Debian: apt-get install {' '.join(packages)})"
    return Need(name, lambda: None if find_program(name) else reason, comparison, tuple(packages))


def dataset(name: str, folder: Path | None, comparison: str | None = None) -> Need:
    """Require a data set."""

    def why_not() -> str | None:
        folders = search_path(folder)
        return None if find(name, folders) else describe_missing(dataset_named(name), folders)

    return Need(name, why_not, comparison)


def check(needs: Sequence[Need], log: Callable[[str], None]) -> Mapping[str, str]:
    """Install missing packages; return the comparisons to leave out, each with the reason."""
    missing = [need for need in needs if need.why_not() is not None]
    if packages := sorted({package for need in missing for package in need.packages}):
        try:
            install_packages(packages)
        except UserError as error:
            log(f"not installed: {error}")
    left_out: dict[str, str] = {}
    unmet: list[str] = []
    for need in missing:
        reason = need.why_not()
        if reason is not None and need.comparison is None:
            unmet.append(f"{need.name}: {reason}")
        elif reason is not None:
            left_out[need.comparison or need.name] = reason
    if unmet:
        raise UserError("; ".join(unmet))
    for comparison, reason in left_out.items():
        log(f"left out: {comparison}: {reason}")
    return left_out


def is_left_out(options: argparse.Namespace, comparison: str) -> bool:
    """Whether a comparison cannot be made here."""
    return comparison in getattr(options, "left_out", {})

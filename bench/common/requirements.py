"""What a benchmark needs before it starts: data, parts of the lab, peers. Checked here, once, for all.

A benchmark declares its needs in `needs(options)`. What the lab can install is installed. Without a need that
has a `comparison`, only that comparison is left out, and the benchmark finds it in `options.left_out`;
without any other, the benchmark does not start.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.lab.install import install_packages
from tests.lab.parts import PARTS, find_program
from wattpack.datasets.search import absent, by_name, find, search_path
from wire.errors import UserError


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that must be there."""

    name: str
    why_not: Callable[[], str | None]
    """Why it cannot be had, as the rest of a sentence or one of its own; nothing if it is there."""
    comparison: str | None = None
    """What is left out without it; nothing where all of the benchmark needs it."""
    packages: tuple[str, ...] = ()
    """The Debian packages that bring it."""


def lab_part(name: str, comparison: str | None = None) -> Need:
    """A real part of the lab, such as an engine."""
    part = PARTS[name]
    return Need(name, part.why_not, comparison, tuple(sorted(set(part.programs.values()))))


def program(name: str, packages: Sequence[str], comparison: str | None = None) -> Need:
    """A program that Debian packages."""
    reason = f"{name} is not installed (Debian: apt-get install {' '.join(packages)})"
    return Need(name, lambda: None if find_program(name) else reason, comparison, tuple(packages))


def dataset(name: str, folder: Path | None, comparison: str | None = None) -> Need:
    """A data set; a generated sample does not count, since nothing in it was measured."""

    def why_not() -> str | None:
        folders = search_path(folder)
        found = find(name, folders)
        if found is None:
            return absent(by_name(name), folders)
        return f"{found.path} is a generated sample: get {name} itself" if found.is_sample else None

    return Need(name, why_not, comparison)


def check(needs: Sequence[Need], log: Callable[[str], None]) -> Mapping[str, str]:
    """Install what is missing, and give the comparisons to leave out, each with the reason."""
    missing = [need for need in needs if need.why_not() is not None]
    if packages := sorted({package for need in missing for package in need.packages}):
        try:
            install_packages(packages)
        except UserError as complaint:
            log(f"not installed: {complaint}")
    left_out: dict[str, str] = {}
    refused: list[str] = []
    for need in missing:
        reason = need.why_not()
        if reason is not None and need.comparison is None:
            refused.append(f"{need.name}: {reason}")
        elif reason is not None:
            left_out[need.comparison or need.name] = reason
    if refused:
        raise UserError("; ".join(refused))
    for comparison, reason in left_out.items():
        log(f"left out: {comparison}: {reason}")
    return left_out


def is_left_out(options: argparse.Namespace, comparison: str) -> bool:
    """Whether a comparison cannot be made here."""
    return comparison in getattr(options, "left_out", {})

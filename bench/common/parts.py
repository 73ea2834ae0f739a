"""Benchmarks of several parts that can be run one by one."""

import argparse
from collections.abc import Callable, Iterable, Sequence

from bench.common.progress import Progress
from bench.common.requirements import is_left_out
from bench.common.results import Figure, Result
from wire.errors import UserError


def choose_parts(only: Sequence[str] | None, parts: Iterable[str]) -> list[str]:
    """Return the parts that `--only` names, or all, in their own order; raises `UserError`."""
    known = list(parts)
    if unknown := [name for name in only or () if name not in known]:
        raise UserError(f"--only: there is no {unknown[0]!r}: choose of {', '.join(known)}")
    return [part for part in known if not only or part in only]


def run_parts(
    options: argparse.Namespace,
    chosen: Iterable[str],
    figures_of: Callable[[str], Iterable[Figure]],
    progress: Progress,
) -> Result:
    """Run each part that has what it needs, and print its figures as they come."""
    figures: list[Figure] = []
    for part in chosen:
        if is_left_out(options, part):
            continue
        for figure in figures_of(part):
            progress.say(f"{figure}: {'ok' if figure.ok else 'missed'}")
            figures.append(figure)
    return Result(tuple(figures))

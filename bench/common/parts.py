"""Benchmarks with several parts that `--only` selects."""

import argparse
from collections.abc import Callable, Iterable, Sequence

from bench.common.progress import Progress
from bench.common.requirements import is_left_out
from bench.common.results import Figure, Result
from wire.errors import UserError


def choose_parts(only: Sequence[str] | None, parts: Iterable[str]) -> list[str]:
    """Return the parts that `--only` names, or all, in their own order; raises `UserError`."""
    available = list(parts)
    if unknown := [name for name in only or () if name not in available]:
        raise UserError(f"--only: there is no part {unknown[0]!r}: choose from {', '.join(available)}")
    return [part for part in available if not only or part in only]


def run_parts(
    options: argparse.Namespace,
    chosen: Iterable[str],
    figures_of: Callable[[str], Iterable[Figure]],
    progress: Progress,
) -> Result:
    """Run each part whose requirements are met, and print each figure when it is measured."""
    figures: list[Figure] = []
    for part in chosen:
        if is_left_out(options, part):
            continue
        for figure in figures_of(part):
            progress.say(f"{figure}: {figure.verdict or 'no bound'}")
            figures.append(figure)
    return Result(tuple(figures))

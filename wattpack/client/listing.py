"""Lists for people and scripts: a table or JSON, at most `--limit` rows."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from wattpack.client.collector import Json, add_collector_options
from wattpack.config.arguments import add, count
from wattpack.output.table import table
from wattpack.output.text import print_result


def add_list_options(parser: argparse.ArgumentParser, default_limit: int | None = None) -> None:
    """The options of `add_collector_options`, and `--limit`."""
    limit = "show at most N" if default_limit else "show at most N (default: all)"
    add(parser, "--limit N", limit, count, default=default_limit)
    add_collector_options(parser)


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a table, and a note below it."""

    header: Sequence[str]
    row: Callable[[Json], Sequence[str]]
    note: str = ""


def print_list(arguments: argparse.Namespace, found: list[Json], columns: Columns, empty: str) -> int:
    """Print entries as JSON or as a table; `empty` if there are none. Returns the exit status."""
    shown = found[: arguments.limit]
    rows = table(columns.header, [columns.row(each) for each in shown])
    lines = (*rows, *more_lines(found, shown), *filter(None, (columns.note,))) if shown else (empty,)
    return print_result(arguments, shown, lines)


def more_lines(found: Sequence[object], shown: Sequence[object]) -> Iterator[str]:
    """The number of entries that the limit leaves out."""
    if len(shown) < len(found):
        yield f"... and {len(found) - len(shown)} more"

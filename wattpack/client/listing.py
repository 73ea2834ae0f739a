"""Lists for people and scripts: a table or JSON, at most `--limit` rows."""

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from wattpack.client.collector import Json, add_collector_options
from wattpack.config.arguments import add
from wattpack.output.table import table
from wattpack.output.text import print_result


def add_list_options(parser: argparse.ArgumentParser, default_limit: int | None = None) -> None:
    """The options of `add_collector_options`, and `--limit`."""
    shown = "all" if default_limit is None else str(default_limit)
    add(parser, "--limit N", f"show at most N (default: {shown})", parse_limit, default=default_limit)
    add_collector_options(parser)


def parse_amount(text: str) -> float:
    """A number of 0 or more."""
    try:
        amount = float(text)
    except ValueError:
        amount = -1.0
    if not 0 <= amount < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 0 or more")
    return amount


def parse_limit(text: str) -> int:
    """A number of rows."""
    if not text.isascii() or not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a table, and a note below it."""

    header: tuple[str, ...]
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

"""Results for people and scripts: numbers with their units, times, tables, lines, and JSON."""

import argparse
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from wire.errors import UserError, os_reason
from wire.text import printable

Columns = Mapping[str, Callable[[Any], str]]
"""The columns of a table: by title, the cell of an entry."""
_UNKNOWN = "-"
_CELLS = 30
"""Width of a progress bar."""
_SEPARATOR, _INDENT = "  ", "    "
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB")
_STEP = 1024
_ENERGY = (("MWh", 3.6e9), ("kWh", 3.6e6), ("Wh", 3600.0), ("mWh", 3.6))


def bytes_text(number: float | None, per: str = "") -> str:
    """`1.5 GiB`, or `-` if unknown."""
    if number is None:
        return _UNKNOWN
    unit = _BINARY[0]
    for unit in _BINARY:
        if number < _STEP or unit == _BINARY[-1]:
            break
        number /= _STEP
    return f"{number:.0f} {unit}{per}" if unit == _BINARY[0] else f"{number:.1f} {unit}{per}"


def count_text(number: int, noun: str) -> str:
    """`1 node`, `2 nodes`, `no nodes`."""
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def watts_text(watts: float, error_ratio: float) -> str:
    """`12.3 W ±4.5`: watts are never shown without their error."""
    return f"{watts:.2f} W ±{watts * error_ratio:.2f}"


def energy_text(joules: float | None) -> str:
    """`12.30 kWh`, `1.20 Wh`, `33.3 mWh`, `2.50 J`, or `-` if unknown."""
    if joules is None:
        return _UNKNOWN
    for unit, size in _ENERGY:
        if joules >= size:
            return f"{joules / size:.2f} {unit}"
    return f"{joules:.2f} J"


def json_text(value: object) -> str:
    """Indented JSON."""
    return msgspec.json.format(msgspec.json.encode(value)).decode()


def print_result(arguments: argparse.Namespace, found: object, lines: Iterable[str]) -> int:
    """Print a result: as JSON with `--json`, otherwise the lines. Returns the exit status."""
    print(json_text(found) if arguments.json else "\n".join(lines))
    return 0


def write_text(path: Path, text: str) -> None:
    """Write a file that an option names; raises `UserError` if that is not possible."""
    with writing(path, "choose another path"):
        path.write_text(text, encoding="utf-8")


@contextmanager
def writing(path: Path, hint: str) -> Iterator[None]:
    """Raise a `UserError` with this hint if the block cannot write the file."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot write {path} ({os_reason(error)}): {hint}") from None


def time_text(at: float | None) -> str:
    """`2026-05-01 12:00:00`, or `-` if unknown."""
    return _UNKNOWN if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")


def seconds_text(seconds: float) -> str:
    """`40 s`, `12 min`, `3 h`, `2 d`."""
    for unit, size in (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def milliseconds_text(seconds: float | None) -> str:
    """`85 ms`, or `-` if unknown."""
    return _UNKNOWN if seconds is None else f"{1000 * seconds:.3g} ms"


def number_text(number: float | None, digits: int = 2) -> str:
    """`1.25`, or `-` if unknown."""
    return _UNKNOWN if number is None else f"{number:.{digits}f}"


def cores_text(cores: float | None) -> str:
    """`0.125`, or `-` if unknown."""
    return number_text(cores, digits=3)


def percent_text(ratio: float | None) -> str:
    """`45%`, or `-` if unknown."""
    return _UNKNOWN if ratio is None else f"{ratio:.0%}"


def at(path: str, text: Callable[[Any], str] = str) -> Callable[[Any], str]:
    """The cell of an entry in JSON, from a value such as `power.watts`; `-` if it is empty or missing."""

    def cell(entry: Any) -> str:  # noqa: ANN401 - a value of JSON
        for part in path.split("."):
            entry = None if entry is None else entry.get(part)
        return _UNKNOWN if entry in (None, "") else text(entry)

    return cell


def columns_table(
    columns: Columns, entries: Sequence[Any], below: Callable[[Any], Iterable[str]] = lambda _: ()
) -> Iterator[str]:
    """A row per entry, with the lines about it below."""
    header, *rows = table(tuple(columns), [[cell(each) for cell in columns.values()] for each in entries])
    yield header
    for row, entry in zip(rows, entries, strict=True):
        yield row
        yield from (f"{_INDENT}{line}" for line in below(entry))


def table(header: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None) -> list[str]:
    """Align columns: the first to the left, the others to the right.

    A row that is wider than `width`, by default the terminal, continues on an indented line.
    """
    if width is None and sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
    rows = [header, *([printable(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    lines = list(_column_lines(widths, width))
    aligned = (
        [
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        for row in rows
    )
    return [f"\n{_INDENT}".join(_SEPARATOR.join(row[line]).rstrip() for line in lines) for row in aligned]


def rows_table(rows: Iterable[Mapping[str, str]]) -> list[str]:
    """A table of rows that have their cells by title, at least one."""
    found = list(rows)
    return table(tuple(found[0]), [tuple(row.values()) for row in found])


def _column_lines(widths: Sequence[int], width: int | None) -> Iterator[slice]:
    """The columns of each line of a row."""
    first, used = 0, -len(_SEPARATOR)
    for column, needed in enumerate(widths):
        used += len(_SEPARATOR) + needed
        if width is not None and used > width and column > first:
            yield slice(first, column)
            first, used = column, len(_INDENT) + needed
    yield slice(first, len(widths))


@contextmanager
def progress_bar(what: str, done: float = 0.0) -> Iterator[Callable[[float], None]]:
    """Show which share of the work is done, until the block ends."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return

    def show(done: float) -> None:
        filled = round(_CELLS * min(1.0, done))
        bar = "#" * filled + "." * (_CELLS - filled)
        print(f"\r\033[K[{bar}] {what}", end="", file=sys.stderr, flush=True)

    show(done)
    try:
        yield show
    finally:
        print("\r\033[K", end="", file=sys.stderr, flush=True)

"""Tables for people."""

import shutil
import sys
from collections.abc import Iterator, Sequence

from wire.text import printable

_SEPARATOR, _INDENT = "  ", "    "


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


def _column_lines(widths: Sequence[int], width: int | None) -> Iterator[slice]:
    """The columns of each line of a row."""
    first, used = 0, -len(_SEPARATOR)
    for column, needed in enumerate(widths):
        used += len(_SEPARATOR) + needed
        if width is not None and used > width and column > first:
            yield slice(first, column)
            first, used = column, len(_INDENT) + needed
    yield slice(first, len(widths))

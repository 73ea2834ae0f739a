"""Tables of numbers, read fast; an error names the line of an invalid number."""

import gzip
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from collector.common.arrays import Flags, Floats
from replay.readers.files import is_gzip, open_lines
from wire.errors import UserError


def read_numbers(path: Path, columns: Sequence[int], *, fields: int) -> Floats:
    """Read columns of a file without a header whose fields are all numbers; an empty field is NaN.

    `fields` is the minimum number of fields of a line.
    """
    return _read(path, _Layout(",", columns, fields, first_line=1))


def read_columns(
    path: Path, names: Sequence[str], *, optional: Sequence[str] = (), fallback: Sequence[str] = ()
) -> Floats:
    """Read columns by their names in the header, in any order and among others; an empty field is NaN.

    Fields are separated by commas or semicolons, and may have blanks around them. A missing
    optional column is all NaN. `fallback` names the columns of a file without a header.
    """
    header = next((line for _, line in open_lines(path)), "")
    separator = ";" if ";" in header else ","
    cells = [" ".join(cell.lower().split()) for cell in header.split(separator)]
    is_header = not _is_number(cells[0])
    found = _by_name(cells, names) if is_header else _by_name(list(fallback), names)
    if missing := [name for name in names if name not in found and name not in optional]:
        raise UserError(
            f"{path}, line 1: the columns {', '.join(missing)} are missing: expected {', '.join(names)}"
        )
    present = [name for name in names if name in found]
    layout = _Layout(separator, [found[name] for name in present], len(names), first_line=1 + is_header)
    layout = replace(layout, fields=max(layout.columns) + 1)
    table = _read(path, layout)
    whole = np.full((len(table), len(names)), np.nan)
    whole[:, [names.index(name) for name in present]] = table
    return whole


@dataclass(frozen=True, slots=True)
class _Layout:
    """The format of a file."""

    separator: str
    columns: Sequence[int]
    """The columns to read."""
    fields: int
    first_line: int


def _by_name(cells: Sequence[str], names: Sequence[str]) -> dict[str, int]:
    """The index of each column; a header may have a unit after the name, such as `timestamp [ms]`."""
    return {
        name: next(place for place, cell in enumerate(cells) if _is_called(cell, name))
        for name in names
        if any(_is_called(cell, name) for cell in cells)
    }


def _is_called(cell: str, name: str) -> bool:
    return cell == name or cell.startswith(f"{name} [")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read(path: Path, layout: _Layout) -> Floats:
    try:
        with (
            gzip.open(path, "rt", encoding="utf-8")
            if is_gzip(path)
            else path.open(encoding="utf-8") as lines,
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")  # the caller reports missing data
            table: Floats = np.loadtxt(
                lines,
                delimiter=layout.separator,
                usecols=layout.columns,
                ndmin=2,
                comments=None,
                skiprows=layout.first_line - 1,
            )
    except (ValueError, UnicodeDecodeError):
        return _read_slowly(path, layout)
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(
            f"cannot read the trace {path} ({reason}): check its name, and that it is complete"
        ) from None
    return table.reshape(-1, len(layout.columns))


def _read_slowly(path: Path, layout: _Layout) -> Floats:
    """Field by field: for files with empty fields, and to name the line of an invalid number."""
    rows = []
    for number, line in open_lines(path):
        if number < layout.first_line or not line.strip():
            continue
        cells = line.rstrip("\r\n").split(layout.separator)
        if len(cells) < layout.fields:
            raise UserError(
                f"{path}, line {number}: has {len(cells)} fields where {layout.fields} are expected"
            )
        try:
            rows.append([float(cells[each]) if cells[each].strip() else np.nan for each in layout.columns])
        except ValueError as error:
            raise UserError(f"{path}, line {number}: {error}") from None
    return np.array(rows).reshape(-1, len(layout.columns))


def refuse_bad(path: Path, bad: Flags, why: str, *, first_line: int) -> None:
    """Raise an error for the first bad row, with its line."""
    if bad.any():
        raise UserError(f"{path}, line {int(np.argmax(bad)) + first_line}: {why}")

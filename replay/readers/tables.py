"""Comma-separated numbers, quickly; and when one of them is none, the line that it is in."""

import gzip
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from collector.snapshot.power_curves import Floats
from collector.snapshot.tables import Flags
from replay.readers.lines import is_packed, open_lines
from wire.errors import UserError


def read_numbers(path: Path, columns: Sequence[int], *, header: str | None, fields: int) -> Floats:
    """Some columns of a file whose fields are all numbers; an empty field is not known (NaN).

    `header` is what the first line must be, `fields` how many fields a line has at least.
    """
    try:
        with (
            gzip.open(path, "rt", encoding="utf-8")
            if is_packed(path)
            else path.open(encoding="utf-8") as lines
        ):
            if header is not None and (found := lines.readline().strip()) != header:
                raise UserError(f"{path}, line 1: expected {header!r}, and found {found[:80]!r}")
            table: Floats = np.loadtxt(lines, delimiter=",", usecols=columns, ndmin=2)
    except (ValueError, UnicodeDecodeError) as error:
        if isinstance(error, UserError):
            raise
        return _read_slowly(path, columns, skip=header is not None, fields=fields)
    except (OSError, EOFError) as error:
        raise UserError(f"cannot read the trace {path}: {error}") from None
    if not table.size:
        raise UserError(f"{path} has no samples in it")
    return table


def _read_slowly(path: Path, columns: Sequence[int], *, skip: bool, fields: int) -> Floats:
    """Field by field: for files with empty fields, and to name the line of what is not a number."""
    rows = []
    for number, line in open_lines(path):
        if (skip and number == 1) or not line.strip():
            continue
        cells = line.rstrip("\r\n").split(",")
        if len(cells) < fields:
            raise UserError(f"{path}, line {number}: has {len(cells)} fields where {fields} are expected")
        try:
            rows.append([float(cells[column]) if cells[column].strip() else np.nan for column in columns])
        except ValueError as error:
            raise UserError(f"{path}, line {number}: {error}") from None
    return np.array(rows).reshape(-1, len(columns))


def refuse_bad(path: Path, bad: Flags, why: str, *, first_line: int) -> None:
    """Complain of the first row for which something does not hold."""
    if bad.any():
        raise UserError(f"{path}, line {int(np.argmax(bad)) + first_line}: {why}")

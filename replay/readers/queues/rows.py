"""The rows of a CSV whose fields are not all numbers, by the names in its header."""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from replay.readers.files import open_lines
from wire.errors import UserError

T = TypeVar("T")


def read_rows(path: Path, names: Sequence[str], parse: Callable[[Mapping[str, str]], T]) -> Iterator[T]:
    """Read each row with `parse`; the file needs at least these columns. An error names the line."""
    lines = open_lines(path)
    header = [cell.strip() for cell in next((line for _, line in lines), "").split(",")]
    if missing := [name for name in names if name not in header]:
        raise UserError(
            f"{path}, line 1: the columns {', '.join(missing)} are missing: expected {', '.join(names)}"
        )
    for number, line in lines:
        if not line.strip():
            continue
        cells = next(csv.reader([line.rstrip("\r\n")]))
        if len(cells) != len(header):
            raise UserError(
                f"{path}, line {number}: has {len(cells)} fields where {len(header)} are expected"
            )
        try:
            yield parse(dict(zip(header, cells, strict=True)))
        except ValueError as error:
            raise UserError(f"{path}, line {number}: {error}") from None


def not_negative(text: str) -> float:
    """Parse a finite number that is not below 0."""
    number = float(text)
    if not 0 <= number < float("inf"):
        raise ValueError(f"{text} is not a number of 0 or more")
    return number

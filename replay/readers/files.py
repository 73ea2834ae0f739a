"""The files of a trace: plain or gzip, one file, or a folder with one file per machine.

An error in a file names its line.
"""

import csv
import gzip
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO, TypeVar

import msgspec
import numpy as np

from collector.common.arrays import Flags, Floats
from wire.errors import UserError

_GZIP = b"\x1f\x8b"
_GZIP_SUFFIX = ".gz"
_T = TypeVar("_T")
_Row = TypeVar("_Row", bound=msgspec.Struct)


@contextmanager
def _open_text(path: Path) -> Iterator[TextIO]:
    try:
        with path.open("rb") as file:
            is_gzip = file.read(len(_GZIP)) == _GZIP
        with gzip.open(path, "rt", encoding="utf-8") if is_gzip else path.open(encoding="utf-8") as lines:
            yield lines
    except (UnicodeDecodeError, csv.Error):
        raise UserError(f"{path} is not text: give a trace, plain or gzip") from None
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(
            f"cannot read the trace {path} ({reason}): check its name, and that it is complete"
        ) from None


def open_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Each line with its number, counted from 1."""
    with _open_text(path) as lines:
        yield from enumerate(lines, start=1)


def parse_lines(
    path: Path,
    parse: Callable[[list[str]], _T],
    *,
    fields: int,
    separator: str = ",",
    first_line: int = 1,
) -> Iterator[_T]:
    """Parse the fields of each line that is not empty; a line has at least this many."""
    with _open_text(path) as lines:
        reader = csv.reader(lines, delimiter=separator)
        for cells in reader:
            if reader.line_num < first_line or not cells:
                continue
            where = f"{path}, line {reader.line_num}"
            if len(cells) < fields:
                raise UserError(f"{where}: has {len(cells)} fields where {fields} are expected")
            try:
                yield parse(cells)
            except ValueError as error:
                raise UserError(f"{where}: {error}") from None


def _first_line(path: Path) -> str:
    return next((line for _, line in open_lines(path)), "")


def _refuse_missing(path: Path, missing: Sequence[str], names: Sequence[str]) -> None:
    if missing:
        raise UserError(
            f"{path}, line 1: the columns {', '.join(missing)} are missing: expected {', '.join(names)}"
        )


def read_rows(path: Path, kind: type[_Row]) -> Iterator[_Row]:
    """Read each row as a struct; its fields without a default are the columns that the file needs."""
    header = [cell.strip() for cell in _first_line(path).split(",")]
    names = [each.encode_name for each in msgspec.structs.fields(kind) if each.required]
    _refuse_missing(path, [name for name in names if name not in header], names)

    def parse(cells: list[str]) -> _Row:
        if len(cells) > len(header):
            raise ValueError(f"has {len(cells)} fields where {len(header)} are expected")
        texts = {name: cell.strip() for name, cell in zip(header, cells, strict=True)}
        return msgspec.convert(texts, kind, strict=False)

    return parse_lines(path, parse, fields=len(header), first_line=2)


def read_columns(
    path: Path, names: Sequence[str], *, optional: Sequence[str] = (), fallback: Sequence[str] = ()
) -> Floats:
    """Read columns of numbers by their names in the header, in any order; an empty field is NaN.

    Fields are separated by commas or semicolons, and may have blanks around them. A missing
    optional column is all NaN. `fallback` names the columns of a file without a header.
    """
    first = _first_line(path)
    separator = ";" if ";" in first else ","
    header = [" ".join(cell.lower().split()) for cell in first.split(separator)]
    is_header = not _is_number(header[0])
    found = _by_name(header if is_header else fallback, names)
    _refuse_missing(path, [name for name in names if name not in found and name not in optional], names)
    places = list(found.values())
    with _open_text(path) as lines, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the caller reports missing data
        try:
            columns = np.loadtxt(
                lines, delimiter=separator, usecols=places, ndmin=2, comments=None, skiprows=int(is_header)
            )
        except ValueError:
            # Field by field: for files with empty fields, and to name the line of an invalid number.
            rows = parse_lines(
                path,
                lambda cells: [float(cells[each]) if cells[each].strip() else np.nan for each in places],
                fields=max(places) + 1,
                separator=separator,
                first_line=1 + is_header,
            )
            columns = np.array(list(rows))
    whole = np.full((len(columns), len(names)), np.nan)
    whole[:, [names.index(name) for name in found]] = columns.reshape(-1, len(places))
    return whole


def _by_name(cells: Sequence[str], names: Sequence[str]) -> dict[str, int]:
    """The index of each column; a header may have a unit after the name, such as `timestamp [ms]`."""
    found = {}
    for name in names:
        places = [place for place, cell in enumerate(cells) if cell == name or cell.startswith(f"{name} [")]
        if places:
            found[name] = places[0]
    return found


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def refuse_bad(path: Path, bad: Flags, why: str, *, first_line: int) -> None:
    """Raise an error for the first bad row, with its line."""
    if bad.any():
        raise UserError(f"{path}, line {int(np.argmax(bad)) + first_line}: {why}")


def machine_files(folder: Path, suffixes: Sequence[str] = ()) -> Iterator[tuple[str, Path]]:
    """Each machine's name and file, in the order of the names; hidden files are ignored.

    With `suffixes`, only files that end in one of them count, and the name is without it.
    """
    found: dict[str, Path] = {}
    for path in folder.iterdir():
        name = path.name.removesuffix(_GZIP_SUFFIX)
        suffix = next((each for each in suffixes if name.lower().endswith(each)), "")
        if path.name.startswith(".") or not path.is_file() or (suffixes and not suffix):
            continue
        name = " ".join(name[: len(name) - len(suffix)].split())
        if name in found:
            raise UserError(f"{folder} has two files for the machine {name!r}: remove one of them")
        found[name] = path
    if not found:
        raise UserError(f"{folder} has no files of machines: give the folder with one file per machine")
    yield from sorted(found.items())

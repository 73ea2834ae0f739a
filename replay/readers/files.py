"""The files of a trace: plain or gzip, one file, or a folder with one file per machine."""

import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path

from wire.errors import UserError

_GZIP = b"\x1f\x8b"
_GZIP_SUFFIX = ".gz"


def is_gzip(path: Path) -> bool:
    """Whether a file is gzip, by its first bytes."""
    with path.open("rb") as file:
        return file.read(len(_GZIP)) == _GZIP


def open_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Each line with its number, counted from 1."""
    try:
        gzipped = is_gzip(path)
        with gzip.open(path, "rt", encoding="utf-8") if gzipped else path.open(encoding="utf-8") as lines:
            yield from enumerate(lines, start=1)
    except UnicodeDecodeError:
        raise UserError(f"{path} is not text: give a trace, plain or gzip") from None
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(
            f"cannot read the trace {path} ({reason}): check its name, and that it is complete"
        ) from None


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

"""Traces that are published as a folder: one file per machine, named after it."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from wire.errors import UserError

_GZIP_SUFFIX = ".gz"


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

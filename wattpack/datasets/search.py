"""Find a data set on this machine: the first match in the folders of the search path."""

import argparse
import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from wattpack.config.options import add
from wattpack.datasets.catalogue import DATASETS, Dataset
from wire.errors import UserError

VARIABLE = "WATTPACK_DATA"
_DEFAULTS = (Path("data"), Path("../shared/data"))
_PACKED = ".gz"


@dataclass(frozen=True, slots=True)
class Found:
    """An installed set."""

    dataset: Dataset
    path: Path
    is_published: bool
    """Whether it has the published format instead of our own."""


def add_data_option(parser: argparse.ArgumentParser) -> None:
    """`--data DIR`."""
    searched = f"a folder with data sets; searched after it: {VARIABLE}, ./data, ../shared/data"
    add(parser, "--data DIR", searched, Path)


def search_path(
    given: Path | None = None, environment: Mapping[str, str] | None = None, base: Path = Path()
) -> list[Path]:
    """The folders to search, in order: `--data`, `WATTPACK_DATA`, `./data`, `../shared/data`."""
    variable = (os.environ if environment is None else environment).get(VARIABLE)
    named = [given] if given is not None else []
    if variable:
        named += [Path(each) for each in variable.split(os.pathsep) if each]
    return [*named, *(base / each for each in _DEFAULTS)]


def find(name: str, folders: Sequence[Path]) -> Found | None:
    """The first match of a set."""
    dataset = dataset_named(name)
    for folder in folders:
        for path, is_published in _candidates(dataset, folder):
            if path.exists():
                return Found(dataset, path, is_published)
    return None


def require(name: str, folders: Sequence[Path]) -> Found:
    """The first match of a set. Raise a `UserError` that says what to download if there is none."""
    found = find(name, folders)
    if found is None:
        raise UserError(describe_missing(dataset_named(name), folders))
    return found


def describe_missing(dataset: Dataset, folders: Sequence[Path]) -> str:
    """The error for a missing set: its source, and where to put it."""
    target = folders[0] if folders else _DEFAULTS[0]
    name = dataset.published[0] if dataset.published else dataset.packed
    return (
        f"the data set {dataset.name} is not installed: "
        f"download it from {dataset.source.url} and put it at {target / (name or dataset.name)}"
    )


def dataset_named(name: str) -> Dataset:
    """A set of the table; the error for an unknown name suggests the nearest."""
    if name not in DATASETS:
        near = difflib.get_close_matches(name, DATASETS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "'wattpack data' lists them all"
        raise UserError(f"there is no data set {name!r}: {hint}")
    return DATASETS[name]


def _candidates(dataset: Dataset, folder: Path) -> Iterator[tuple[Path, bool]]:
    """Every possible path of the set in a folder, which may itself be the first part of its name."""
    names = [] if dataset.packed is None else [(dataset.packed, False)]
    for name, is_published in (*names, *((each, True) for each in dataset.published)):
        for variant in (name, name.partition("/")[2]):
            if variant:
                yield folder / variant, is_published
                yield folder / f"{variant}{_PACKED}", is_published

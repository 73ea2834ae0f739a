"""`wattpack data`: the data sets that commands and benchmarks read, and which of them are here."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

from wattpack.config.arguments import add
from wattpack.datasets.catalogue import DATASETS, Dataset, Found, add_data_option, find, search_path
from wattpack.output.text import print_result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, "--json", "print JSON")
    add_data_option(parser)


def run(arguments: argparse.Namespace) -> int:
    folders = search_path(arguments.data)
    shown = [_as_json(each, find(each.name, folders)) for each in DATASETS.values()]
    return print_result(arguments, shown, _list_lines(folders))


def _as_json(dataset: Dataset, found: Found | None) -> dict[str, object]:
    return {
        "name": dataset.name,
        **asdict(dataset.source),
        "size": dataset.size,
        "format": dataset.format,
        "published": list(dataset.published),
        "packed": dataset.packed,
        "used_by": list(dataset.used_by),
        "path": None if found is None else str(found.path),
    }


def _list_lines(folders: Sequence[Path]) -> Iterator[str]:
    width, size_width = (
        max(map(len, texts)) for texts in (DATASETS, (each.size for each in DATASETS.values()))
    )
    for source, datasets in groupby(DATASETS.values(), key=lambda each: each.source):
        yield source.about
        yield f"  from {source.url}"
        yield f"  licence: {source.licence}"
        for each in datasets:
            found = find(each.name, folders)
            state = "absent" if found is None else "present"
            yield f"  {each.name:<{width}}  {each.size:>{size_width}}  {state}"
            target = folders[0] / (*each.published, each.packed or "")[0]
            yield f"      at {found.path}" if found is not None else f"      put it at {target}"
            yield f"      used by {', '.join(each.used_by)}"
        yield ""
    yield f"searched: {', '.join(map(str, folders))}"

"""The parts of the benchmark of elasticity: chosen by name, each with its data."""

import argparse
from pathlib import Path

import pytest

from bench.elastic import benchmark as elastic
from wire.errors import UserError


def options(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    elastic.add_arguments(parser)
    return parser.parse_args(arguments)


def test_a_part_names_the_data_that_it_needs(tmp_path: Path) -> None:
    found = elastic.needs(options("--only", "sizes", "--data", str(tmp_path)))
    assert "bitbrains-rnd-2013-08-week" in {need.name for need in found}
    assert {need.comparison for need in found} == {"sizes"}


def test_an_unknown_part_is_an_error() -> None:
    with pytest.raises(UserError, match="there is no part 'size'"):
        elastic.needs(options("--only", "size"))

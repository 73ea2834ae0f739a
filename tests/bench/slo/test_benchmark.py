"""The parts of the benchmark of promises: chosen by name, each with its data."""

import argparse
from pathlib import Path

import pytest

from bench.slo import benchmark as slo
from wire.errors import UserError


def options(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    slo.add_arguments(parser)
    return parser.parse_args(arguments)


def test_a_part_names_the_data_that_it_needs(tmp_path: Path) -> None:
    found = slo.needs(options("--only", "google-higher", "--data", str(tmp_path)))
    assert {need.name for need in found} == {
        "google-1h-higher",
        "google-620-hosts",
        "startup-seconds-same-host",
        "startup-seconds-other-host",
    }
    assert {need.comparison for need in found} == {"google-higher"}


def test_the_lab_is_needed_only_with_its_option() -> None:
    assert "swarm" not in {need.comparison for need in slo.needs(options())}
    assert "swarm" in {need.comparison for need in slo.needs(options("--lab"))}


def test_an_unknown_part_is_an_error() -> None:
    with pytest.raises(UserError, match="there is no part 'google'"):
        slo.needs(options("--only", "google"))

"""What all tests share: the list of what was left out, and the parts of the lab that are worth sharing."""

from collections.abc import Iterator

import pytest

from tests.lab.docker import Engine, docker_engine

pytest_plugins = ["pytester", "tests.lab.left_out"]


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """A real Docker engine, shared by all tests: each removes the containers it ran."""
    with docker_engine() as shared:
        yield shared

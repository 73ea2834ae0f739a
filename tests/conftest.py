"""Fixtures and plugins of all tests: the list of skipped tests, and a shared Docker engine."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.lab.engines.docker import Engine, docker_engine

# No deadline, because a busy machine is slow; CI uses the same examples each time, to reproduce failures.
settings.register_profile("person", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None)
settings.register_profile("fast", deadline=None, max_examples=20)
settings.load_profile(
    os.environ.get("WATTPACK_TESTS") or ("ci" if os.environ.get("CI") == "true" else "person")
)

pytest_plugins = ["pytester", "tests.lab.left_out"]


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """Run a Docker engine for all tests; each test removes its containers."""
    with docker_engine() as shared:
        yield shared

"""Fixtures and plugins of all tests: the list of skipped tests, a shared Docker engine and a shared Swarm."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.lab.engines.docker import Engine, docker_engine
from tests.lab.engines.swarm import Swarm, swarm

# No deadline, because a busy machine is slow; CI uses the same examples each time, to reproduce failures.
settings.register_profile("person", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None)
settings.register_profile("fast", deadline=None, max_examples=10)
_profile = os.environ.get("WATTPACK_TESTS") or ("ci" if os.environ.get("CI") == "true" else "person")
settings.load_profile(_profile)

_LAB = b"mark.lab"

pytest_plugins = ["pytester", "tests.lab.left_out"]

# Every core runs tests of its own; threads of the numeric libraries would only wait for each other.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

# Thousands of tests and modules are kept until the end: the garbage collector need not look at them.
gc.disable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A run of lab tests need not import the files without any: those are nine of ten."""
    wanted = str(config.getoption("markexpr")).split()
    if wanted[:1] != ["lab"] or "or" in wanted or collection_path.suffix != ".py":
        return None
    return _LAB not in collection_path.read_bytes() or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Fail if a run of lab tests would not find one of them."""
    files = {item.path for item in items if item.get_closest_marker("lab") is not None}
    if hidden := [str(path) for path in files if _LAB not in path.read_bytes()]:
        raise pytest.UsageError(f"write the marker as pytest.mark.lab in {', '.join(hidden)}")


def pytest_itemcollected(item: pytest.Item) -> None:
    """With the fast profile, no test tries more examples than that has, whatever the test asks for."""
    function = getattr(item, "function", None)
    asked = getattr(function, "_hypothesis_internal_use_settings", None)
    if _profile == "fast" and isinstance(asked, settings):
        count = min(asked.max_examples, settings.get_profile("fast").max_examples)
        vars(function)["_hypothesis_internal_use_settings"] = settings(asked, max_examples=count)


def pytest_collection_finish() -> None:
    """Let the garbage collector look only at what the tests make."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """Run a Docker engine for all tests; each test removes its containers."""
    with docker_engine() as shared:
        yield shared


@pytest.fixture(scope="session")
def swarm_nodes() -> Iterator[Swarm]:
    """Run a Swarm of three nodes for all tests; use it through `cluster` or `bench.swarm.cluster`."""
    with swarm(nodes=3) as shared:
        yield shared


@pytest.fixture(scope="module")
def cluster(swarm_nodes: Swarm) -> Iterator[Swarm]:
    """The shared Swarm for the tests of a module, each of which removes its services and containers."""
    yield swarm_nodes
    swarm_nodes.clear()

"""The reader against this machine's own cgroups, with a process that knows what it used."""

import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from agent.cgroups.layout import detect
from agent.read import Reader
from agent.readings import ContainerReading, Reading
from agent.sample import sample

pytestmark = pytest.mark.lab

HELD_BYTES = 48 << 20

WORKER = f"""
import sys, time
for line in sys.stdin:
    if line == "hold\\n":
        held = b"x" * {HELD_BYTES}
    if line == "burn\\n":
        end = time.process_time() + 0.5
        while time.process_time() < end:
            pass
    print(time.process_time(), flush=True)
"""


class Worker:
    """A process in a cgroup, which does as it is told and says how much CPU time it has used."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def do(self, order: str) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{order}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())


def hierarchies() -> set[Path]:
    layout = detect(Path("/proc"), Path("/sys"))
    return {Path(directory) for directory in (*layout.v1.values(), layout.v2) if directory is not None}


@contextmanager
def cgroup(path: str) -> Iterator[str]:
    """A cgroup in every hierarchy; empty again when it is left."""
    with ExitStack() as stack:
        for root in hierarchies():
            (root / path).mkdir()
            stack.callback((root / path).rmdir)
        yield path


@contextmanager
def worker_in(path: str, *before: str) -> Iterator[Worker]:
    process = subprocess.Popen(
        [*before, sys.executable, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        try:
            worker = Worker(process)
            worker.do("begin")
            for root in hierarchies():
                (root / path / "cgroup.procs").write_text(str(process.pid))
            yield worker
        finally:
            process.kill()
            process.wait()


@pytest.fixture
def parent() -> Iterator[str]:
    with cgroup(f"wattpack-test-{uuid.uuid4().hex[:8]}") as path:
        yield path


@pytest.fixture
def identifier() -> str:
    return uuid.uuid4().hex + uuid.uuid4().hex


def find(reading: Reading, identifier: str) -> ContainerReading | None:
    return next((container for container in reading.containers if container.id == identifier), None)


def test_cpu_memory_and_network_are_what_the_process_used(parent: str, identifier: str) -> None:
    reader = Reader(Path("/proc"), Path("/sys"))
    with cgroup(f"{parent}/{identifier}") as path, worker_in(path, "unshare", "--net") as worker:
        worker.do("hold")
        used_before, first = worker.do("tell"), reader.read()
        used_after, second = worker.do("burn"), reader.read()
        container = find(second, identifier)
        assert container is not None
        assert container.runtime == "docker"
        assert container.network_bytes == 0
        assert container.memory_working_set_bytes is not None
        assert HELD_BYTES <= container.memory_working_set_bytes <= 2 * HELD_BYTES

        (rates,) = (c for c in sample(first, second).containers if c.id == identifier)
        before = find(first, identifier)
        assert before is not None
        assert rates.used.cpu_cores is not None
        seconds = container.monotonic_seconds - before.monotonic_seconds
        assert rates.used.cpu_cores * seconds == pytest.approx(used_after - used_before, rel=0.02, abs=0.005)
    assert find(reader.read(), identifier) is None


def test_a_container_in_the_hosts_network_has_no_network_of_its_own(parent: str, identifier: str) -> None:
    with cgroup(f"{parent}/{identifier}") as path, worker_in(path):
        container = find(Reader(Path("/proc"), Path("/sys")).read(), identifier)
        assert container is not None
        assert container.network_bytes is None


def test_the_quota_of_a_parent_is_the_limit_of_its_containers(parent: str, identifier: str) -> None:
    layout = detect(Path("/proc"), Path("/sys"))
    if "cpu" in layout.v1:
        Path(layout.v1["cpu"], parent, "cpu.cfs_quota_us").write_text("150000")
    else:
        Path(str(layout.v2), parent, "cpu.max").write_text("150000 100000")
    with cgroup(f"{parent}/{identifier}"):
        container = find(Reader(Path("/proc"), Path("/sys")).read(), identifier)
    assert container is not None
    assert container.cpu_limit_cores == 1.5
    assert container.memory_limit_bytes is None

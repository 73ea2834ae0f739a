"""The reader against this machine's own cgroups, with a process that knows what it used."""

import multiprocessing
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from agent.sampling.rates import compute_rates
from agent.sources.cgroups.layout import detect_layout
from agent.sources.reader import Reader
from agent.sources.readings import ContainerReading, Reading

pytestmark = pytest.mark.lab

HELD_BYTES = 48 << 20
NOBODY = 65534

Result = TypeVar("Result")

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
    """A process in a cgroup, which obeys commands and returns the CPU time that it has used."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def do(self, order: str) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{order}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())


def hierarchies() -> set[Path]:
    layout = detect_layout(Path("/proc"), Path("/sys"))
    return {Path(directory) for directory in (*layout.v1.values(), layout.v2) if directory is not None}


@contextmanager
def cgroup(path: str) -> Iterator[str]:
    """A cgroup in every hierarchy; empty again when it is left."""
    with ExitStack() as stack:
        for root in hierarchies():
            (root / path).mkdir()
            stack.callback((root / path).rmdir)
            if "cpuset" in root.name:
                # Version 1 takes no process into a cgroup before it has cores and memory nodes.
                for name in ("cpuset.cpus", "cpuset.mems"):
                    (root / path / name).write_text((root / path).parent.joinpath(name).read_text())
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


def limit(controller: str, path: str, v1_name: str, v2_name: str, value: str) -> None:
    layout = detect_layout(Path("/proc"), Path("/sys"))
    if controller in layout.v1:
        Path(layout.v1[controller], path, v1_name).write_text(value)
    else:
        Path(str(layout.v2), path, v2_name).write_text(value)


def as_nobody(work: Callable[[], Result]) -> Result:
    """Do it in a child without any privilege."""
    receiver, sender = multiprocessing.Pipe(duplex=False)

    def child() -> None:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        sender.send(work())

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    try:
        assert receiver.poll(30)
        result: Result = receiver.recv()
    finally:
        process.join()
    return result


def found(reading: Reading, identifier: str) -> ContainerReading:
    container = find(reading, identifier)
    assert container is not None
    return container


def find(reading: Reading, identifier: str) -> ContainerReading | None:
    return next((container for container in reading.containers if container.id == identifier), None)


def test_cpu_memory_and_network_are_what_the_process_used(parent: str, identifier: str) -> None:
    reader = Reader(Path("/proc"), Path("/sys"))
    with cgroup(f"{parent}/{identifier}") as path, worker_in(path, "unshare", "--net") as worker:
        worker.do("hold")
        used_before, first = worker.do("tell"), reader.read()
        used_after, second = worker.do("burn"), reader.read()
        container = found(second, identifier)
        assert container.runtime == "docker"
        assert container.network == (0, 0)
        assert container.cgroup.pids == 1
        memory = container.cgroup.memory
        assert memory.working_set_bytes is not None
        assert HELD_BYTES <= memory.working_set_bytes <= 2 * HELD_BYTES
        assert memory.anon_bytes is not None
        assert HELD_BYTES <= memory.anon_bytes <= 2 * HELD_BYTES
        assert memory.oom_kills == 0

        (rates,) = (c for c in compute_rates(first, second).containers if c.id == identifier)
        before = found(first, identifier)
        assert rates.used.cpu_cores is not None
        seconds = container.monotonic_seconds - before.monotonic_seconds
        assert rates.used.cpu_cores * seconds == pytest.approx(used_after - used_before, rel=0.02, abs=0.005)
        cpu = container.cgroup.cpu
        assert cpu.user_seconds is not None
        assert cpu.system_seconds is not None
        # The kernel counts the two in ticks of its clock.
        assert cpu.user_seconds + cpu.system_seconds == pytest.approx(cpu.seconds, abs=0.05)
    assert find(reader.read(), identifier) is None


def test_recreated_container_of_the_same_name_is_read_again(parent: str, identifier: str) -> None:
    reader = Reader(Path("/proc"), Path("/sys"))
    with cgroup(f"{parent}/{identifier}") as path, worker_in(path) as worker:
        worker.do("burn")
        assert found(reader.read(), identifier).cgroup.cpu.seconds > 0.4
    with cgroup(f"{parent}/{identifier}") as path, worker_in(path):
        again = found(reader.read(), identifier).cgroup
        assert again.cpu.seconds < 0.4
        assert again.pids == 1


def test_oom_kill_is_counted(parent: str, identifier: str) -> None:
    limit("memory", parent, "memory.limit_in_bytes", "memory.max", str(HELD_BYTES // 2))
    reader = Reader(Path("/proc"), Path("/sys"), subtree=parent)
    with cgroup(f"{parent}/{identifier}") as path, worker_in(path) as worker:
        before = reader.read()
        with pytest.raises((ValueError, BrokenPipeError)):
            worker.do("hold")
        after = reader.read()
        assert (found(before, identifier).cgroup.memory.oom_kills, before.host.oom_kills) == (0, 0)
        assert (found(after, identifier).cgroup.memory.oom_kills, after.host.oom_kills) == (1, 1)


def test_a_quota_throttles_and_that_is_counted(parent: str, identifier: str) -> None:
    with cgroup(f"{parent}/{identifier}") as path:
        limit("cpu", path, "cpu.cfs_quota_us", "cpu.max", "20000")
        with worker_in(path) as worker:
            worker.do("burn")
            cgroup_reading = found(Reader(Path("/proc"), Path("/sys")).read(), identifier).cgroup
    assert cgroup_reading.limits.cpu_cores == 0.2
    assert cgroup_reading.cpu.throttled_seconds is not None
    assert cgroup_reading.cpu.throttled_seconds > 0


def test_a_container_in_the_hosts_network_has_no_network_of_its_own(parent: str, identifier: str) -> None:
    with cgroup(f"{parent}/{identifier}") as path, worker_in(path):
        assert found(Reader(Path("/proc"), Path("/sys")).read(), identifier).network is None


def test_unprivileged_user_can_distinguish_network_namespaces(parent: str, identifier: str) -> None:
    shared, own = f"f{identifier[1:]}", f"0{identifier[1:]}"
    with (
        cgroup(f"{parent}/{own}") as first,
        worker_in(first, "unshare", "--net"),
        cgroup(f"{parent}/{shared}") as second,
        worker_in(second),
    ):
        reading = as_nobody(lambda: Reader(Path("/proc"), Path("/sys")).read())
    assert found(reading, own).network == (0, 0)
    assert found(reading, shared).network is None
    assert "container network" not in {gap.what for gap in reading.gaps}


def test_the_quota_of_a_parent_is_the_limit_of_its_containers(parent: str, identifier: str) -> None:
    limit("cpu", parent, "cpu.cfs_quota_us", "cpu.max", "150000")
    with cgroup(f"{parent}/{identifier}"):
        limits = found(Reader(Path("/proc"), Path("/sys")).read(), identifier).cgroup.limits
    assert limits.cpu_cores == 1.5
    assert limits.memory_bytes is None


def test_cores_that_a_container_is_bound_to_are_its_limit(parent: str, identifier: str) -> None:
    layout = detect_layout(Path("/proc"), Path("/sys"))
    root, name = (layout.v1["cpuset"], "cpuset.cpus") if "cpuset" in layout.v1 else (layout.v2, "cpuset.cpus")
    Path(str(root), parent, name).write_text("0")
    with cgroup(f"{parent}/{identifier}") as path:
        Path(str(root), path, name).write_text("0")
        limits = found(Reader(Path("/proc"), Path("/sys")).read(), identifier).cgroup.limits
    assert limits.cpu_cores == (1.0 if (os.cpu_count() or 1) > 1 else None)


def test_a_cgroup_taken_as_the_host(parent: str, identifier: str) -> None:
    limit("cpu", parent, "cpu.cfs_quota_us", "cpu.max", "150000")
    limit("memory", parent, "memory.limit_in_bytes", "memory.max", str(4 * HELD_BYTES))
    reader = Reader(Path("/proc"), Path("/sys"), subtree=f"/{parent}")
    with cgroup(f"{parent}/{identifier}") as path, worker_in(path) as worker:
        worker.do("hold")
        used_before, first = worker.do("tell"), reader.read()
        used_after, second = worker.do("burn"), reader.read()
    assert [container.id for container in second.containers] == [identifier]
    result = compute_rates(first, second)
    assert result.capacity.cpu_cores == 1.5
    assert result.capacity.memory_bytes == 4 * HELD_BYTES
    assert result.used.cpu_cores is not None
    assert result.used.cpu_cores * result.interval_seconds == pytest.approx(
        used_after - used_before, rel=0.05, abs=0.01
    )
    assert result.used.memory_bytes is not None
    assert HELD_BYTES <= result.used.memory_bytes <= 2 * HELD_BYTES


def test_the_host_may_vanish_and_come_back(parent: str) -> None:
    with cgroup(f"{parent}/node") as path:
        reader = Reader(Path("/proc"), Path("/sys"), subtree=path)
        assert reader.read().host.cpu_seconds == 0.0
    gone = reader.read()
    assert gone.host.cpu_seconds is None
    assert "host" in {gap.what for gap in gone.gaps}
    with cgroup(f"{parent}/node"):
        back = reader.read()
    assert back.host.cpu_seconds == 0.0
    assert "host" not in {gap.what for gap in back.gaps}

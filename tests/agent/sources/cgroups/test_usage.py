from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.sources.cgroups.layout import detect_layout
from agent.sources.cgroups.usage import LIMITS_KEPT_SECONDS, LimitsReader, UsageReader
from agent.sources.files import OpenFileBudget
from agent.sources.readings import CgroupReading, CpuTotals, DiskTotals, Limits, MemoryLevels, PressureTotals
from tests.agent.trees import (
    THE_CONTAINER,
    V1_CONTROLLERS,
    Host,
    container_id,
    make_host,
    make_unified,
    make_v1,
    make_v2,
    pressure,
    v1_container,
    v2_container,
    write,
)

PATH = f"system.slice/docker-{container_id(7)}.scope"
WITHOUT_PRESSURE = replace(THE_CONTAINER, pressure=PressureTotals())


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return make_host(tmp_path)


class Passes:
    """One pass after the other over a host's container."""

    def __init__(self, host: Host, budget: OpenFileBudget | None = None) -> None:
        self._layout = detect_layout(host.proc, host.sys)
        self._usage = UsageReader(self._layout, budget or OpenFileBudget(100))

    def read(self, monotonic_seconds: float = 0.0, path: str = PATH) -> CgroupReading | None:
        limits = LimitsReader(self._layout, 2.0)
        return self._usage.read(path, monotonic_seconds, limits, frozenset({b"253:0"}))

    def keep_only(self, *paths: str) -> None:
        self._usage.keep_only(paths)


def read(host: Host) -> CgroupReading | None:
    return Passes(host).read()


def test_v1(host: Host) -> None:
    make_v1(host)
    v1_container(host, PATH)
    assert read(host) == WITHOUT_PRESSURE


def test_v1_with_controllers_together(host: Host) -> None:
    make_v1(host, together=True)
    v1_container(host, PATH, cpu="cpu,cpuacct", cpuacct="cpu,cpuacct")
    assert read(host) == WITHOUT_PRESSURE


def test_v2(host: Host) -> None:
    make_v2(host)
    v2_container(host, PATH)
    assert read(host) == THE_CONTAINER


def test_hybrid_takes_pressure_from_v2(host: Host) -> None:
    make_v1(host)
    make_unified(host)
    v1_container(host, PATH)
    for resource, microseconds in (("cpu", 500_000), ("memory", 0), ("io", 250_000)):
        write(host.cgroup, {f"unified/{PATH}/{resource}.pressure": pressure(microseconds)})
    assert read(host) == replace(THE_CONTAINER, pressure=PressureTotals(0.5, 0.0, 0.25))


def test_hybrid_takes_from_v2_what_v1_does_not_have(host: Host) -> None:
    make_v1(host, controllers="blkio")
    make_unified(host, controllers="cpu memory")
    v1_container(host, PATH)
    write(
        host.cgroup,
        {
            f"unified/{PATH}/cpu.stat": "usage_usec 2500000\n",
            f"unified/{PATH}/cpu.weight": "100\n",
            f"unified/{PATH}/memory.current": "1000\n",
            f"unified/{PATH}/memory.max": "2000\n",
        },
    )
    assert read(host) == CgroupReading(
        cpu=CpuTotals(2.5),
        memory=MemoryLevels(1000),
        disk=DiskTotals(12288, 3, written_bytes=8192),
        limits=Limits(None, 2000),
        cpu_weight=1.0,
    )


@pytest.mark.parametrize(
    ("left_out", "lost"),
    [
        ("cpu", {"cpu", "limits", "cpu_weight"}),
        ("cpuset", set()),
        ("memory", {"memory", "limits"}),
        ("blkio", {"disk"}),
        ("pids", {"pids"}),
    ],
)
def test_a_v1_controller_that_is_not_mounted_loses_only_its_own(
    host: Host, left_out: str, lost: set[str]
) -> None:
    make_v1(host, controllers=" ".join(name for name in V1_CONTROLLERS.split() if name != left_out))
    v1_container(host, PATH)
    assert differences(read(host), WITHOUT_PRESSURE) == lost


V1_FILES = [
    ("cpuacct/{}/cpuacct.stat", {"cpu"}),
    ("cpu/{}/cpu.stat", {"cpu"}),
    ("cpu/{}/cpu.cfs_quota_us", {"limits"}),
    ("cpu/{}/cpu.cfs_period_us", {"limits"}),
    ("cpu/{}/cpu.shares", {"cpu_weight"}),
    ("cpuset/{}/cpuset.cpus", set()),
    ("memory/{}/memory.usage_in_bytes", {"memory"}),
    ("memory/{}/memory.stat", {"memory", "limits"}),
    ("memory/{}/memory.oom_control", {"memory"}),
    ("blkio/{}/blkio.throttle.io_service_bytes_recursive", {"disk"}),
    ("blkio/{}/blkio.throttle.io_serviced_recursive", {"disk"}),
    ("pids/{}/pids.current", {"pids"}),
]
V2_FILES = [
    ("{}/cpu.max", {"limits"}),
    ("{}/cpu.weight", {"cpu_weight"}),
    ("{}/cpuset.cpus.effective", set()),
    ("{}/memory.current", {"memory"}),
    ("{}/memory.max", {"limits"}),
    ("{}/memory.stat", {"memory"}),
    ("{}/memory.swap.current", {"memory"}),
    ("{}/memory.events", {"memory"}),
    ("{}/io.stat", {"disk"}),
    ("{}/pids.current", {"pids"}),
    ("{}/memory.pressure", {"pressure"}),
]


def differences(now: CgroupReading | None, whole: CgroupReading | None) -> set[str]:
    assert now is not None
    return {
        field for field in CgroupReading.__struct_fields__ if getattr(now, field) != getattr(whole, field)
    }


@pytest.mark.parametrize(("name", "lost"), [*V1_FILES, *V2_FILES])
@pytest.mark.parametrize("fault", ["missing", "rubbish"])
def test_invalid_file_affects_only_its_own_values(host: Host, name: str, lost: set[str], fault: str) -> None:
    if (name, lost) in V1_FILES:
        make_v1(host)
        v1_container(host, PATH)
    else:
        make_v2(host)
        v2_container(host, PATH)
    whole = read(host)
    path = host.cgroup / name.format(PATH)
    if fault == "missing":
        path.unlink()
    else:
        path.write_bytes(b"\xff?!\n")
    assert differences(read(host), whole) == lost


@pytest.mark.parametrize("make", [make_v1, make_v2], ids=["v1", "v2"])
def test_a_container_that_went_away_is_not_there(host: Host, make: Callable[[Host], None]) -> None:
    make(host)
    assert read(host) is None


def test_counters_are_read_in_every_pass_and_limits_twice_a_minute(host: Host) -> None:
    make_v2(host)
    v2_container(host, PATH)
    passes = Passes(host)
    passes.read(0.0)
    write(host.cgroup, {f"{PATH}/cpu.stat": "usage_usec 1600000\n", f"{PATH}/memory.max": "1000\n"})

    after = [passes.read(float(second)) for second in range(1, 2 * int(LIMITS_KEPT_SECONDS) + 1)]

    assert {each.cpu.seconds for each in after if each} == {1.6}
    limits = [each.limits.memory_bytes for each in after if each]
    changes = limits.index(1000)
    assert changes < LIMITS_KEPT_SECONDS
    assert limits[changes:] == [1000] * len(limits[changes:])

    write(host.cgroup, {f"{PATH}/memory.max": "2000\n"})
    last = passes.read(3 * LIMITS_KEPT_SECONDS + 1)
    assert last is not None
    assert last.limits.memory_bytes == 2000


def test_the_limits_of_many_do_not_all_come_due_in_one_pass(host: Host) -> None:
    make_v2(host)
    paths = [f"docker/{container_id(number)}" for number in range(20)]
    for path in paths:
        v2_container(host, path)
    passes = Passes(host)
    for path in paths:
        passes.read(0.0, path)
        write(host.cgroup, {f"{path}/memory.max": "1000\n"})

    def renewed(second: float) -> int:
        return sum(
            reading.limits.memory_bytes == 1000
            for path in paths
            if (reading := passes.read(second, path)) is not None
        )

    counts = [renewed(float(second)) for second in range(1, int(LIMITS_KEPT_SECONDS) + 1)]
    assert counts[-1] == len(paths)
    assert all(later - sooner <= 5 for sooner, later in zip([0, *counts], counts, strict=False))


def test_files_are_kept_open_only_for_containers_that_are_there(host: Host) -> None:
    make_v2(host)
    v2_container(host, PATH)
    budget = OpenFileBudget(100)
    passes = Passes(host, budget)
    passes.read()
    assert budget.left < 100
    passes.keep_only()
    assert budget.left == 100


def test_without_a_budget_the_same_is_read(host: Host) -> None:
    make_v2(host)
    v2_container(host, PATH)
    passes = Passes(host, OpenFileBudget(0))
    assert passes.read() == passes.read() == THE_CONTAINER

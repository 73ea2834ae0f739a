from collections.abc import Callable
from pathlib import Path

import pytest

from agent.cgroups.counters import Counters, Limits
from agent.cgroups.layout import detect
from agent.cgroups.usage import UsageReader
from agent.readings import PressureTotals
from tests.agent.trees import (
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

POD = "kubepods.slice/kubepods-pod1b4e28ba_2fa1_11d2_883f_0016d3cca427.slice"
PATH = f"{POD}/cri-containerd-{container_id(7)}.scope"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return make_host(tmp_path)


def read(host: Host) -> Counters | None:
    return UsageReader(detect(host.proc, host.sys), frozenset({b"253:0"})).read(PATH)


WITHOUT_PRESSURE = Counters(1.5, 20 << 20, 4 << 20, 12288, Limits(0.5, 64 << 20))


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
    counters = read(host)
    assert counters is not None
    assert counters.cpu_seconds == 1.5
    assert counters.pressure == PressureTotals(0.1, 0.2, 0.3)


def test_hybrid_takes_pressure_from_v2(host: Host) -> None:
    make_v1(host)
    make_unified(host)
    v1_container(host, PATH)
    for resource, microseconds in (("cpu", 500_000), ("memory", 0), ("io", 250_000)):
        write(host.cgroup, {f"unified/{PATH}/{resource}.pressure": pressure(microseconds)})
    counters = read(host)
    assert counters is not None
    assert counters.pressure == PressureTotals(0.5, 0.0, 0.25)
    assert counters.cpu_seconds == 1.5
    assert counters.limits == Limits(0.5, 64 << 20)


def test_hybrid_takes_from_v2_what_v1_does_not_have(host: Host) -> None:
    make_v1(host, controllers="blkio")
    make_unified(host, controllers="cpu memory")
    v1_container(host, PATH)
    write(
        host.cgroup,
        {
            f"unified/{PATH}/cpu.stat": "usage_usec 2500000\n",
            f"unified/{PATH}/memory.current": "1000\n",
            f"unified/{PATH}/memory.max": "2000\n",
        },
    )
    counters = read(host)
    assert counters == Counters(2.5, 1000, None, 12288, Limits(None, 2000))


def test_v2_limits_above_a_container_bind_it(host: Host) -> None:
    make_v2(host)
    v2_container(host, PATH)
    write(host.cgroup, {f"{POD}/cpu.max": "25000 100000\n", f"{POD}/memory.max": "max\n"})
    write(host.cgroup, {"kubepods.slice/cpu.max": "max 100000\n", "kubepods.slice/memory.max": "1000000\n"})
    counters = read(host)
    assert counters is not None
    assert counters.limits == Limits(0.25, 1_000_000)


def test_v1_quota_above_a_container_binds_it(host: Host) -> None:
    make_v1(host)
    v1_container(host, PATH)
    write(host.cgroup, {f"cpu/{POD}/cpu.cfs_quota_us": "10000\n", f"cpu/{POD}/cpu.cfs_period_us": "100000\n"})
    counters = read(host)
    assert counters is not None
    assert counters.limits == Limits(0.1, 64 << 20)


def test_inside_a_container_its_own_limits_bind_those_nested_in_it(host: Host) -> None:
    make_v2(host)
    v2_container(host, PATH)
    write(host.cgroup, {"cpu.max": "20000 100000\n"})
    counters = read(host)
    assert counters is not None
    assert counters.limits.cpu_cores == 0.2


@pytest.mark.parametrize("make", [make_v1, make_v2], ids=["v1", "v2"])
def test_a_container_that_went_away_is_not_there(host: Host, make: Callable[[Host], None]) -> None:
    make(host)
    assert read(host) is None

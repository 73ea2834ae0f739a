import itertools
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.sampling.rates import compute_rates
from agent.sources.reader import OomKillCounter, Reader
from agent.sources.readings import (
    CgroupReading,
    ContainerReading,
    CpuTotals,
    DiskTotals,
    HostMemory,
    HostReading,
    MemoryLevels,
    PressureTotals,
)
from tests.agent.trees import (
    HOST_NAMESPACE,
    NET_DEV,
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
from wire.errors import UserError
from wire.resources import Quantities

NODE_NAMESPACE = 4026532999


def v1(host: Host) -> None:
    make_v1(host)
    for path in ("node1", f"node1/{container_id(1)}", "node2", f"node2/{container_id(2)}"):
        v1_container(host, path)
    v1_container(host, f"docker/{container_id(3)}")


def hybrid(host: Host) -> None:
    v1(host)
    make_unified(host)
    for resource, microseconds in (("cpu", 100_000), ("memory", 200_000), ("io", 300_000)):
        write(host.cgroup, {f"unified/node1/{resource}.pressure": pressure(microseconds)})


def v2(host: Host) -> None:
    make_v2(host)
    for path in ("node1", f"node1/{container_id(1)}", "node2", f"node2/{container_id(2)}"):
        v2_container(host, path)
    v2_container(host, f"docker/{container_id(3)}")


@pytest.fixture
def host(tmp_path: Path) -> Host:
    host = make_host(tmp_path)
    host.process("self", HOST_NAMESPACE)
    return host


def reader_of(host: Host, subtree: str = "/node1") -> Reader:
    return Reader(host.proc, host.sys, itertools.count(100.0, 30.0).__next__, lambda: 1.7e9, subtree)


@pytest.mark.parametrize(
    ("make", "oom_kills", "has_pressure"), [(v1, 8, False), (hybrid, 8, True), (v2, 4, True)]
)
def test_usage_and_limits_of_the_cgroup_are_those_of_the_host(
    host: Host, make: Callable[[Host], None], oom_kills: int, *, has_pressure: bool
) -> None:
    make(host)
    reading = reader_of(host).read()
    assert reading.host == HostReading(
        cores=0.5,
        cpu_seconds=1.5,
        frequency_hertz=2500.25e6,
        memory=HostMemory(
            total_bytes=64 << 20, available_bytes=48 << 20, cache_bytes=6 << 20, swap_used_bytes=12288
        ),
        oom_kills=oom_kills,
        disks={"node1": DiskTotals(12288, 3, written_bytes=8192)},
        pressure=PressureTotals(0.1, 0.2, 0.3) if has_pressure else PressureTotals(),
    )
    assert [container.id for container in reading.containers] == [container_id(1)]


def test_values_of_the_whole_machine_are_a_gap(host: Host) -> None:
    v2(host)
    assert [gap.what for gap in reader_of(host).read().gaps] == [
        "host I/O wait, stolen time, load, busy disks",
        "host network",
    ]


def test_rates_of_a_cgroup_host(host: Host) -> None:
    v2(host)
    reader = reader_of(host)
    first = reader.read()
    stat = "usage_usec 13500000\n"
    write(host.cgroup, {"node1/cpu.stat": stat, f"node1/{container_id(1)}/cpu.stat": stat})
    write(host.cgroup, {"node1/io.stat": "8:0 rbytes=612288 wbytes=0 rios=603 wios=0\n"})
    result = compute_rates(first, reader.read())
    assert result.interval_seconds == 60.0
    assert result.used == Quantities(0.2, 16 << 20, 10_000.0, None)
    assert result.capacity == Quantities(0.5, 64 << 20, None, None)
    assert result.disk_operations_per_second == 10.0
    assert [container.used.cpu_cores for container in result.containers] == [0.2]


def test_without_limits_the_machine_is_the_capacity(host: Host) -> None:
    v2(host)
    write(host.cgroup, {"node1/cpu.max": "max 100000\n", "node1/memory.max": "max\n"})
    reading = reader_of(host).read().host
    assert reading.cores == 2
    assert reading.memory.total_bytes == 8_000_000 * 1024


def test_cpuset_of_the_cgroup_is_its_capacity(host: Host) -> None:
    v2(host)
    write(host.cgroup, {"node1/cpu.max": "max 100000\n", "node1/cpuset.cpus.effective": "1\n"})
    assert reader_of(host).read().host.cores == 1


def test_links_in_a_network_namespace_of_its_own_are_read(host: Host) -> None:
    v2(host)
    host.process("self", NODE_NAMESPACE, NET_DEV.replace("1000000", "5000000"))
    reading = reader_of(host).read()
    assert reading.host.links == {"eth0": (5_200_000, 200_000), "eth1": (7_000, 4_000)}
    assert "host network" not in {gap.what for gap in reading.gaps}


def test_network_namespace_without_an_external_link_is_a_gap(host: Host) -> None:
    v2(host)
    host.process("self", NODE_NAMESPACE, "\n".join(NET_DEV.splitlines()[:3]) + "\n")
    reading = reader_of(host).read()
    assert reading.host.links == {}
    assert [gap.why for gap in reading.gaps if gap.what == "host network"] == [
        "this host has no external network link"
    ]


def test_description_names_the_cgroup_that_is_the_host(host: Host) -> None:
    v2(host)
    assert reader_of(host).describe() == [
        "cgroup /node1 as the host: 0.5 cores, 0.1 GiB of memory",
        "disks: node1; links: none",
        "cgroup v2, 1 container (1 docker)",
    ]


def test_container_as_the_host_of_its_nested_containers(host: Host) -> None:
    make_v2(host)
    outer = f"docker/{container_id(1)}"
    for path in (outer, f"{outer}/docker/{container_id(2)}"):
        v2_container(host, path)
    reading = reader_of(host, f"/{outer}").read()
    assert [container.id for container in reading.containers] == [container_id(2)]
    assert reading.host.cores == 0.5


@pytest.mark.parametrize("root", ["", "/", "//"])
def test_the_root_of_the_tree_is_the_whole_machine(host: Host, root: str) -> None:
    v2(host)
    reading = reader_of(host, root).read()
    assert reading.host.load_1m == 1.25
    assert len(reading.containers) == 3


@pytest.mark.parametrize("make", [v1, v2])
def test_missing_cgroup_is_a_user_error(host: Host, make: Callable[[Host], None]) -> None:
    make(host)
    with pytest.raises(UserError, match=r"host\.cgroup: there is no cgroup /node9 .* create it first"):
        reader_of(host, "/node9")


def test_path_outside_the_cgroup_root_is_a_user_error(host: Host) -> None:
    v2(host)
    with pytest.raises(UserError, match=r"host\.cgroup: /\.\./net is not below the cgroup root"):
        reader_of(host, "/../net")


def test_host_cgroup_without_mounted_cgroups_is_a_user_error(host: Host) -> None:
    with pytest.raises(UserError, match=r"host\.cgroup: .* no cgroup file system is mounted"):
        reader_of(host)


def test_removed_cgroup_is_a_gap(host: Host) -> None:
    v2(host)
    reader = reader_of(host)
    reader.read()
    # An open file of a real cgroup that is gone cannot be read any more; one of this tree can.
    write(host.cgroup, {"node1/cpu.stat": ""})
    shutil.rmtree(host.cgroup / "node1")
    gone = reader.read()
    assert gone.host == HostReading()
    assert gone.containers == ()
    assert [gap.what for gap in gone.gaps] == ["host"]


def killed(identifier: str, kills: int | None) -> ContainerReading:
    cgroup = CgroupReading(cpu=CpuTotals(1.0), memory=MemoryLevels(oom_kills=kills))
    return ContainerReading(id=identifier, runtime="docker", monotonic_seconds=0.0, cgroup=cgroup)


def test_oom_kills_of_ended_containers_stay_counted() -> None:
    kills = OomKillCounter()
    assert kills.add([killed("a", 2), killed("b", 0)]) == 2
    assert kills.add([killed("a", 3), killed("b", 1)]) == 4
    assert kills.add([killed("b", 1)]) == 4
    assert kills.add([killed("b", 1), killed("c", 1)]) == 5


def test_counts_of_a_restarted_container_start_again() -> None:
    kills = OomKillCounter()
    kills.add([killed("a", 3)])
    assert kills.add([killed("a", 1)]) == 4

import itertools
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.sources.reader import Reader
from agent.sources.readings import ContainerReading, LinkTotals, PressureTotals
from tests.agent.trees import (
    THE_CONTAINER,
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


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return make_host(tmp_path)


def reader_of(host: Host) -> Reader:
    return Reader(
        host.proc, host.sys, monotonic=itertools.count(100.0).__next__, unix=lambda: 1_700_000_000.0
    )


def v1_cgroupfs(host: Host) -> None:
    make_v1(host)
    v1_container(host, f"docker/{container_id(1)}", pid=100)


def v1_systemd(host: Host) -> None:
    make_v1(host, together=True)
    path = f"system.slice/docker-{container_id(1)}.scope"
    v1_container(host, path, cpu="cpu,cpuacct", cpuacct="cpu,cpuacct", pid=100)


def hybrid_cgroupfs(host: Host) -> None:
    v1_cgroupfs(host)
    make_unified(host)
    with_pressure(host, f"docker/{container_id(1)}")


def hybrid_systemd(host: Host) -> None:
    v1_systemd(host)
    make_unified(host)
    with_pressure(host, f"system.slice/docker-{container_id(1)}.scope")


def with_pressure(host: Host, path: str) -> None:
    for resource, microseconds in (("cpu", 100_000), ("memory", 200_000), ("io", 300_000)):
        write(host.cgroup, {f"unified/{path}/{resource}.pressure": pressure(microseconds)})


def v2_cgroupfs(host: Host) -> None:
    make_v2(host)
    v2_container(host, f"docker/{container_id(1)}", pid=100)


def v2_systemd(host: Host) -> None:
    make_v2(host)
    v2_container(host, f"system.slice/docker-{container_id(1)}.scope", pid=100)


@pytest.mark.parametrize(
    ("make", "version", "has_pressure"),
    [
        (v1_cgroupfs, "cgroup v1", False),
        (v1_systemd, "cgroup v1", False),
        (hybrid_cgroupfs, "cgroup v1 (hybrid)", True),
        (hybrid_systemd, "cgroup v1 (hybrid)", True),
        (v2_cgroupfs, "cgroup v2", True),
        (v2_systemd, "cgroup v2", True),
    ],
)
def test_the_same_container_reads_the_same_however_cgroups_are_laid_out(
    host: Host, make: Callable[[Host], None], version: str, *, has_pressure: bool
) -> None:
    make(host)
    host.process(100, 5001)
    reader = reader_of(host)
    reading = reader.read()
    assert reading.unix_seconds == 1_700_000_000.0
    assert reading.monotonic_seconds == 100.0
    assert reading.host.cores == 2
    cgroup = THE_CONTAINER if has_pressure else replace(THE_CONTAINER, pressure=PressureTotals())
    assert reading.containers == (
        ContainerReading(
            id=container_id(1),
            runtime="docker",
            monotonic_seconds=101.0,
            cgroup=cgroup,
            network=LinkTotals(1_200_000 + 7_000 + 15_000 + 15_000, 200_000 + 4_000 + 8_000 + 8_000),
        ),
    )
    assert [gap.what for gap in reading.gaps] == ([] if has_pressure else ["container pressure"])
    assert reader.describe() == [
        "2 cores, 7.6 GiB of memory",
        "disks: sda, sdb; links: eth0, eth1",
        f"{version}, 1 container (1 docker)",
    ]


def test_each_container_has_its_own_time(host: Host) -> None:
    make_v2(host)
    for number in (2, 1, 3):
        v2_container(host, f"docker/{container_id(number)}")
    readings = reader_of(host).read().containers
    assert [(c.id, c.monotonic_seconds) for c in readings] == [
        (container_id(n), 100.0 + n) for n in (1, 2, 3)
    ]


def test_containers_come_and_go(host: Host) -> None:
    make_v2(host)
    v2_container(host, f"docker/{container_id(1)}")
    reader = reader_of(host)
    assert [c.id for c in reader.read().containers] == [container_id(1)]
    v2_container(host, f"docker/{container_id(2)}")
    shutil.rmtree(host.cgroup / "docker" / container_id(1))
    assert [c.id for c in reader.read().containers] == [container_id(2)]


def test_container_that_ends_during_a_pass_is_left_out(host: Host) -> None:
    make_v2(host)
    v2_container(host, f"docker/{container_id(1)}")
    v2_container(host, f"docker/{container_id(2)}")
    ticks = itertools.count()

    def monotonic() -> float:
        tick = next(ticks)
        if tick == 2:
            shutil.rmtree(host.cgroup / "docker" / container_id(2))
        return float(tick)

    reading = Reader(host.proc, host.sys, monotonic, lambda: 0.0).read()
    assert [c.id for c in reading.containers] == [container_id(1)]


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda _host: None, "containers"),
        (lambda host: make_v1(host, controllers="cpu memory blkio"), "containers"),
        (lambda host: make_v1(host, controllers="cpu cpuacct blkio"), "container memory"),
        (lambda host: make_v1(host, controllers="cpu cpuacct memory"), "container disk"),
        (lambda host: make_v2(host, controllers="cpu io"), "container memory"),
        (lambda host: make_v2(host, controllers="cpu memory"), "container disk"),
    ],
)
def test_values_that_no_container_has_are_a_gap(host: Host, make: Callable[[Host], None], what: str) -> None:
    make(host)
    reader = reader_of(host)
    first, second = reader.read(), reader.read()
    assert [gap.what for gap in first.gaps] == [what]
    assert first.gaps == second.gaps


def test_cgroups_without_permission_are_one_gap(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    make_v2(host)
    write(host.cgroup, {"secret/one/": "", "secret/two/": ""})
    v2_container(host, f"docker/{container_id(1)}")
    scandir = os.scandir

    def guarded(path: str) -> object:
        if "secret/" in path:
            raise PermissionError
        return scandir(path)

    monkeypatch.setattr(os, "scandir", guarded)
    reading = reader_of(host).read()
    assert [c.id for c in reading.containers] == [container_id(1)]
    assert [gap.what for gap in reading.gaps] == ["containers"]


def test_cgroups_that_are_mounted_later_are_found(host: Host) -> None:
    reader = reader_of(host)
    assert reader.describe()[-1] == "no cgroups, 0 containers"
    make_v2(host)
    v2_container(host, f"docker/{container_id(1)}")
    v2_container(host, f"machine.slice/libpod-{container_id(2)}.scope")
    assert reader.describe()[-1] == "cgroup v2, 2 containers (1 docker, 1 podman)"


def test_pod_is_found_from_the_path(host: Host) -> None:
    make_v2(host)
    pod = "kubepods.slice/kubepods-pod1b4e28ba_2fa1_11d2_883f_0016d3cca427.slice"
    v2_container(host, f"{pod}/cri-containerd-{container_id(1)}.scope")
    (container,) = reader_of(host).read().containers
    assert (container.runtime, container.pod) == ("containerd", "1b4e28ba-2fa1-11d2-883f-0016d3cca427")


@pytest.mark.parametrize(
    ("broken", "what"),
    [
        ("agent.sources.reader.find_containers", "containers"),
        ("agent.sources.processes.NetworkReader.read", "container network"),
        ("agent.sources.cgroups.usage.UsageReader.read", "containers"),
    ],
)
def test_a_source_that_breaks_is_a_gap_and_the_host_is_read(
    host: Host, monkeypatch: pytest.MonkeyPatch, broken: str, what: str
) -> None:
    make_v2(host)
    v2_container(host, f"docker/{container_id(1)}")
    reader = reader_of(host)

    def fail(*_: object) -> None:
        raise RuntimeError("out of order")

    monkeypatch.setattr(broken, fail)
    reading = reader.read()
    assert [(gap.what, gap.why) for gap in reading.gaps] == [
        (what, "cannot be read (RuntimeError: out of order)")
    ]
    assert reading.host.cores == 2
    monkeypatch.undo()
    assert [c.id for c in reader.read().containers] == [container_id(1)]


def test_failure_replaces_the_gap_of_the_same_source(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("out of order")

    make_v2(host)
    monkeypatch.setattr("agent.sources.host.read_disks", fail)
    assert [gap.what for gap in reader_of(host).read().gaps] == ["host disk"]

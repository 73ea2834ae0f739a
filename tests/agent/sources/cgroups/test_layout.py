from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.sources.cgroups.layout import detect_layout, parse_mountinfo
from tests.agent.trees import V1_CONTROLLERS, Host, make_host, make_unified, make_v1, make_v2, write


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return make_host(tmp_path)


def test_v2_alone(host: Host) -> None:
    make_v2(host)
    layout = detect_layout(host.proc, host.sys)
    assert layout.version == "cgroup v2"
    assert layout.v2 == layout.walk_root == str(host.cgroup)
    assert layout.v2_controllers >= {"cpu", "memory", "io"}
    assert not layout.v1


def test_v1_with_a_hierarchy_per_controller(host: Host) -> None:
    make_v1(host)
    layout = detect_layout(host.proc, host.sys)
    assert layout.version == "cgroup v1"
    assert layout.v1 == {name: str(host.cgroup / name) for name in V1_CONTROLLERS.split()}
    assert layout.walk_root == str(host.cgroup / "cpuacct")
    assert layout.v2 is None


def test_v1_with_controllers_mounted_together(host: Host) -> None:
    make_v1(host, together=True)
    layout = detect_layout(host.proc, host.sys)
    assert layout.v1["cpu"] == layout.v1["cpuacct"] == str(host.cgroup / "cpu,cpuacct")


def test_hybrid(host: Host) -> None:
    make_v1(host, together=True)
    make_unified(host)
    layout = detect_layout(host.proc, host.sys)
    assert layout.version == "cgroup v1 (hybrid)"
    assert layout.v2 == str(host.cgroup / "unified")
    assert layout.v2_controllers == frozenset()
    assert layout.walk_root == str(host.cgroup / "cpu,cpuacct")


def test_pressure_is_looked_for_only_where_the_kernel_measures_it(host: Host) -> None:
    make_v2(host)
    assert "pressure" in detect_layout(host.proc, host.sys).in_v2
    (host.proc / "pressure/cpu").unlink()
    assert "pressure" not in detect_layout(host.proc, host.sys).in_v2


def test_cpu_time_stands_in_every_v2_cgroup(host: Host) -> None:
    make_v2(host, controllers="memory")
    assert detect_layout(host.proc, host.sys).in_v2.keys() == {"cpu", "memory", "pressure"}


def test_a_controller_that_is_off_is_not_listed(host: Host) -> None:
    make_v1(host, controllers="cpu cpuacct blkio")
    assert "memory" not in detect_layout(host.proc, host.sys).v1


def test_an_unusual_mount_point_with_a_blank_in_it(host: Host, tmp_path: Path) -> None:
    elsewhere = tmp_path / "my cgroups" / "acct"
    write(elsewhere, {"cgroup.procs": ""})
    host.mounted(f"cgroup {str(elsewhere).replace(' ', chr(92) + '040')} rw,cpuacct")
    assert detect_layout(host.proc, host.sys).v1 == {"cpuacct": str(elsewhere)}


def test_a_mount_that_is_listed_but_out_of_reach_is_passed_over(host: Host) -> None:
    make_v2(host)
    host.mounted("cgroup /nowhere/cpuacct rw,cpuacct", "cgroup2 /sys/fs/cgroup rw")
    layout = detect_layout(host.proc, host.sys)
    assert not layout.v1
    assert layout.v2 == str(host.cgroup)


def test_inside_a_container_the_whole_hierarchy_goes_before_a_part_of_it(host: Host, tmp_path: Path) -> None:
    part, whole = tmp_path / "part", tmp_path / "whole"
    for directory in (part, whole):
        write(directory, {"cgroup.procs": ""})
    table = (
        f"31 27 0:31 /docker/abc {part} rw - cgroup cgroup rw,cpuacct\n"
        f"32 27 0:31 / {whole} rw - cgroup cgroup rw,cpuacct\n"
    )
    write(host.proc, {"self/mountinfo": table})
    assert detect_layout(host.proc, host.sys).v1 == {"cpuacct": str(whole)}


def test_inside_a_container_a_part_is_better_than_nothing(host: Host) -> None:
    write(host.cgroup, {"cpuacct/cgroup.procs": ""})
    table = "31 27 0:31 /docker/abc /sys/fs/cgroup/cpuacct ro - cgroup cgroup rw,cpuacct\n"
    write(host.proc, {"self/mountinfo": table})
    assert detect_layout(host.proc, host.sys).v1 == {"cpuacct": str(host.cgroup / "cpuacct")}


def test_the_host_mounted_under_our_sys_goes_before_our_own_cgroups(host: Host, tmp_path: Path) -> None:
    own = tmp_path / "own"
    for directory in (own, host.cgroup):
        write(directory, {"cgroup.procs": "", "cgroup.controllers": ""})
    table = (
        f"31 27 0:31 / {own} rw - cgroup2 cgroup rw\n32 27 0:31 /../.. {host.cgroup} rw - cgroup2 cgroup rw\n"
    )
    write(host.proc, {"self/mountinfo": table})
    assert detect_layout(host.proc, host.sys).v2 == str(host.cgroup)


@pytest.mark.parametrize("make", [make_v1, make_v2], ids=["v1", "v2"])
def test_without_a_mount_table_the_usual_place_is_looked_at(host: Host, make: Callable[[Host], None]) -> None:
    make(host)
    by_table = detect_layout(host.proc, host.sys)
    (host.proc / "self/mountinfo").unlink()
    assert detect_layout(host.proc, host.sys) == by_table


def test_without_a_mount_table_hybrid_and_links_are_recognised(host: Host) -> None:
    make_v1(host, together=True)
    make_unified(host)
    by_table = detect_layout(host.proc, host.sys)
    (host.proc / "self/mountinfo").unlink()
    assert detect_layout(host.proc, host.sys) == by_table


def test_no_cgroups_at_all(host: Host) -> None:
    layout = detect_layout(host.proc, host.sys)
    assert layout.is_empty
    assert layout.walk_root is None
    assert layout.version == "no cgroups"


@given(st.binary())
def test_any_bytes_are_a_mount_table(text: bytes) -> None:
    parse_mountinfo(text)
    parse_mountinfo(b"31 27 0:31 / " + text + b" rw - cgroup cgroup " + text)

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.cgroups import v2
from agent.cgroups.counters import Counters, Limits
from agent.readings import PressureTotals
from tests.agent.trees import Host, container_id, make_host, make_v2, v2_container

PATH = f"system.slice/docker-{container_id(7)}.scope"
ALL = frozenset({"cpu", "memory", "io"})


@pytest.fixture
def host(tmp_path: Path) -> Host:
    host = make_host(tmp_path)
    make_v2(host)
    v2_container(host, PATH)
    return host


def read(host: Host, controllers: frozenset[str] = ALL) -> Counters:
    return v2.read_counters(str(host.cgroup / PATH), controllers, frozenset({b"253:0"}))


def test_every_field(host: Host) -> None:
    assert read(host) == Counters(
        cpu_seconds=1.5,
        memory_usage_bytes=20 << 20,
        memory_inactive_file_bytes=4 << 20,
        disk_bytes=4096 + 8192,
        limits=Limits(cpu_cores=0.5, memory_bytes=64 << 20),
        pressure=PressureTotals(cpu_seconds=0.1, memory_seconds=0.2, disk_seconds=0.3),
    )


@pytest.mark.parametrize(
    ("name", "lost"),
    [
        ("cpu.stat", {"cpu_seconds"}),
        ("memory.current", {"memory_usage_bytes"}),
        ("memory.stat", {"memory_inactive_file_bytes"}),
        ("io.stat", {"disk_bytes"}),
        ("cpu.max", {"limits"}),
        ("memory.max", {"limits"}),
        ("memory.pressure", {"pressure"}),
    ],
)
@pytest.mark.parametrize("fault", ["missing", "rubbish"])
def test_a_bad_file_loses_only_its_own_fields(host: Host, name: str, lost: set[str], fault: str) -> None:
    whole = read(host)
    path = host.cgroup / PATH / name
    if fault == "missing":
        path.unlink()
    else:
        path.write_bytes(b"\xff?!\n")
    now = read(host)
    assert {field for field in Counters.__slots__ if getattr(now, field) != getattr(whole, field)} == lost


def test_only_the_named_controllers_are_read(host: Host) -> None:
    counters = read(host, frozenset())
    assert counters == Counters(pressure=PressureTotals(0.1, 0.2, 0.3))


def test_max_is_no_limit(host: Host) -> None:
    (host.cgroup / PATH / "cpu.max").write_text("max 100000\n")
    (host.cgroup / PATH / "memory.max").write_text("max\n")
    assert read(host).limits == Limits()


def test_a_line_without_figures_or_end_belongs_to_nobody() -> None:
    text = b"253:10 253:5 rbytes=10 wbytes=20 rios=1\n8:0 rbytes=1 wbytes=2\n8:16 \n"
    assert v2.parse_io_bytes(text, frozenset()) == 33
    assert v2.parse_io_bytes(text, frozenset({b"253:5"})) == 3
    assert v2.parse_io_bytes(text, frozenset({b"253:10"})) == 33


def test_a_container_that_has_done_no_io_has_done_zero_bytes() -> None:
    assert v2.parse_io_bytes(b"", frozenset()) == 0


@given(st.binary())
def test_any_bytes_are_survived(text: bytes) -> None:
    v2.parse_cpu_seconds(text)
    v2.parse_cpu_seconds(b"usage_usec " + text)
    v2.parse_cpu_limit_cores(text)
    v2.parse_io_bytes(text, frozenset())
    v2.parse_io_bytes(b"8:0 rbytes=" + text, frozenset())

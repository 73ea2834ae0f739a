from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.cgroups import v1
from agent.cgroups.counters import Counters, Limits
from tests.agent.trees import V1_NO_LIMIT, Host, container_id, make_host, make_v1, v1_container

PATH = f"docker/{container_id(7)}"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    host = make_host(tmp_path)
    make_v1(host)
    v1_container(host, PATH)
    return host


def read(host: Host, controllers: str = "cpu cpuacct memory blkio") -> Counters:
    hierarchies = {name: str(host.cgroup / name) for name in controllers.split()}
    return v1.read_counters(hierarchies, PATH, frozenset({b"253:0"}))


def test_every_field(host: Host) -> None:
    assert read(host) == Counters(
        cpu_seconds=1.5,
        memory_usage_bytes=20 << 20,
        memory_inactive_file_bytes=4 << 20,
        disk_bytes=4096 + 8192,
        limits=Limits(cpu_cores=0.5, memory_bytes=64 << 20),
    )


@pytest.mark.parametrize(
    ("name", "lost"),
    [
        ("cpuacct/{}/cpuacct.usage", {"cpu_seconds"}),
        ("memory/{}/memory.usage_in_bytes", {"memory_usage_bytes"}),
        ("memory/{}/memory.stat", {"memory_inactive_file_bytes", "limits"}),
        ("blkio/{}/blkio.throttle.io_service_bytes_recursive", {"disk_bytes"}),
        ("cpu/{}/cpu.cfs_quota_us", {"limits"}),
        ("cpu/{}/cpu.cfs_period_us", {"limits"}),
    ],
)
@pytest.mark.parametrize("fault", ["missing", "rubbish"])
def test_a_bad_file_loses_only_its_own_fields(host: Host, name: str, lost: set[str], fault: str) -> None:
    whole = read(host)
    path = host.cgroup / name.format(PATH)
    if fault == "missing":
        path.unlink()
    else:
        path.write_bytes(b"\xff?!\n")
    now = read(host)
    assert {field for field in Counters.__slots__ if getattr(now, field) != getattr(whole, field)} == lost


def test_a_controller_that_is_not_mounted_loses_only_its_own_fields(host: Host) -> None:
    assert read(host, "cpuacct") == Counters(cpu_seconds=1.5)


def test_without_the_recursive_file_the_plain_one_is_read(host: Host) -> None:
    directory = host.cgroup / "blkio" / PATH
    (directory / "blkio.throttle.io_service_bytes_recursive").rename(
        directory / "blkio.throttle.io_service_bytes"
    )
    assert read(host).disk_bytes == 4096 + 8192


@pytest.mark.parametrize("limit", [V1_NO_LIMIT, "9223372036854710272", "18446744073709551615"])
def test_the_largest_number_is_no_limit_whatever_the_page_size(limit: str) -> None:
    assert v1.parse_memory_limit_bytes(f"hierarchical_memory_limit {limit}\n".encode()) is None


def test_no_quota_is_no_limit(host: Host) -> None:
    (host.cgroup / "cpu" / PATH / "cpu.cfs_quota_us").write_text("-1\n")
    assert read(host).limits.cpu_cores is None


def test_a_container_that_has_done_no_io_has_done_zero_bytes() -> None:
    assert v1.parse_service_bytes(b"Total 0\n", frozenset()) == 0
    assert v1.parse_service_bytes(b"", frozenset()) == 0
    assert v1.parse_service_bytes(b"rubbish\n", frozenset()) is None


@given(st.binary())
def test_any_bytes_are_survived(text: bytes) -> None:
    v1.parse_cpu_seconds(text)
    v1.parse_memory_limit_bytes(text)
    v1.parse_memory_limit_bytes(b"hierarchical_memory_limit " + text)
    v1.parse_cpu_limit_cores(text, text)
    v1.parse_service_bytes(text, frozenset())
    v1.parse_service_bytes(b"8:0 Read " + text, frozenset())


@given(st.integers(0, 2**63), st.integers(0, 2**63), st.integers(0, 2**63))
def test_io_is_what_was_read_and_written_on_disks(read: int, written: int, elsewhere: int) -> None:
    text = f"8:0 Read {read}\n8:0 Write {written}\n8:0 Total 9\n7:0 Read {elsewhere}\nTotal 9\n".encode()
    assert v1.parse_service_bytes(text, frozenset({b"7:0"})) == read + written

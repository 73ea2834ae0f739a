import shutil
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.sources.devices import Disks
from agent.sources.host import GapRecorder, HostReader, host_gaps, parse_load, parse_swap_used_bytes
from agent.sources.readings import DiskTotals, HostMemory, HostReading, LinkTotals, PressureTotals
from tests.agent.trees import NET_DEV, Host, make_host, write
from wire.messages import Gap


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return make_host(tmp_path)


def read(host: Host, *failures: Gap) -> HostReading:
    """Read the host, where only these sources fail."""
    attempts = GapRecorder()
    reading = HostReader(host.proc, host.sys).read(0.0, attempts)
    assert attempts.failures == list(failures)
    return reading


def test_every_field(host: Host) -> None:
    assert read(host) == HostReading(
        cores=2,
        cpu_seconds=sum([1.0 + 0.1 + 0.6 + 0.03 + 0.06, 2.0 + 0.1 + 0.4 + 0.04 + 0.07]),
        iowait_seconds=5.0,
        steal_seconds=9.0,
        load_1m=1.25,
        frequency_hertz=2500.25e6,
        memory=HostMemory(
            total_bytes=8_000_000 * 1024,
            available_bytes=5_000_000 * 1024,
            cache_bytes=2_200_000 * 1024,
            swap_used_bytes=250_000 * 1024,
        ),
        oom_kills=3,
        disks={
            "sda": DiskTotals(30_000 * 512, 1500, 0.5, 10_000 * 512),
            "sdb": DiskTotals(300 * 512, 15, 0.005, 100 * 512),
        },
        skipped_devices=frozenset({b"7:0", b"8:1", b"253:0", b"9:0", b"252:0", b"259:1"}),
        links={"eth0": LinkTotals(1_200_000, 200_000), "eth1": LinkTotals(7_000, 4_000)},
        network_capacity_bytes_per_second=11_000 * 1e6 / 8,
        pressure=PressureTotals(2.0, 3.0, 4.0),
    )


def test_host_with_all_values_has_no_gaps(host: Host) -> None:
    assert host_gaps(read(host)) == []


def test_stolen_time_is_not_busy_time(host: Host) -> None:
    before = read(host)
    stat = (host.proc / "stat").read_text()
    (host.proc / "stat").write_text(stat.replace(" 400 40 0\n", " 9400 40 0\n"))
    after = read(host)
    assert after.cpu_seconds == before.cpu_seconds
    assert after.steal_seconds == 9.0 + 90.0


def test_without_the_first_process_our_own_network_is_read(host: Host) -> None:
    (host.proc / "1/net/dev").unlink()
    write(host.proc, {"net/dev": NET_DEV.replace("1000000", "9000000")})
    assert read(host).links == {"eth0": (9_200_000, 200_000), "eth1": (7_000, 4_000)}


@pytest.mark.parametrize(
    ("gone", "what"),
    [
        ("proc/cpuinfo", "host frequency"),
        ("sys/block", "host disk"),
        ("proc/pressure", "host pressure"),
        ("proc/1", "host network"),
    ],
)
def test_missing_file_is_a_gap_and_the_rest_is_read(host: Host, gone: str, what: str) -> None:
    path = host.proc.parent / gone
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    found = read(host)
    assert [gap.what for gap in host_gaps(found)] == [what]
    assert found.cores == 2
    assert found.memory.total_bytes == 8_000_000 * 1024


@pytest.mark.parametrize(
    ("gone", "what", "fields"),
    [
        ("stat", "host CPU", {"cores", "cpu_seconds", "iowait_seconds", "steal_seconds"}),
        ("meminfo", "host memory", {"memory"}),
    ],
)
def test_failed_source_does_not_affect_the_others(host: Host, gone: str, what: str, fields: set[str]) -> None:
    whole = read(host)
    (host.proc / gone).unlink()
    attempts = GapRecorder()
    found = HostReader(host.proc, host.sys).read(0.0, attempts)
    assert [gap.what for gap in attempts.failures] == [what]
    lost = {name for name in HostReading.__struct_fields__ if getattr(found, name) != getattr(whole, name)}
    assert lost == fields


def test_unreadable_disks_do_not_affect_other_values(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_proc: str, _sys: str) -> Disks:
        raise RuntimeError("no more devices")

    monkeypatch.setattr("agent.sources.host.read_disks", broken)
    found = read(host, Gap("host disk", "cannot be read (RuntimeError: no more devices)"))
    assert found.disks == {}
    assert found.cpu_seconds is not None
    assert found.links


@pytest.mark.parametrize("gone", ["loadavg", "vmstat"])
def test_older_kernels_have_fewer_files(host: Host, gone: str) -> None:
    (host.proc / gone).write_text("")
    reading = read(host)
    assert (reading.load_1m is None) == (gone == "loadavg")
    assert (reading.oom_kills is None) == (gone == "vmstat")


@given(st.binary())
def test_any_bytes_can_be_parsed(text: bytes) -> None:
    load = parse_load(text)
    assert load is None or load >= 0
    parse_swap_used_bytes(text)
    parse_swap_used_bytes(b"SwapTotal: 1 kB\nSwapFree: " + text)


def test_a_link_that_is_plugged_in_counts_at_once_and_a_new_speed_within_a_minute(host: Host) -> None:
    reader = HostReader(host.proc, host.sys)
    reader.read(0.0, GapRecorder())
    eth2 = "  eth2:    10       1    0    0    0     0          0         0      5       1    0    0    0     0       0          0\n"  # noqa: E501 - as wide as the kernel writes it
    write(host.proc, {"1/net/dev": NET_DEV + eth2})
    write(host.sys, {"class/net/eth2/device/": "", "class/net/eth2/speed": "1000\n"})
    assert reader.read(3.0, GapRecorder()).links == {
        "eth0": (1_200_000, 200_000),
        "eth1": (7_000, 4_000),
        "eth2": (15, 5),
    }

    write(host.sys, {"class/net/eth2/speed": "2000\n"})
    assert reader.read(6.0, GapRecorder()).network_capacity_bytes_per_second == 12_000 * 1e6 / 8
    assert reader.read(63.0, GapRecorder()).network_capacity_bytes_per_second == 13_000 * 1e6 / 8


def test_this_host_can_be_read() -> None:
    reader = HostReader(Path("/proc"), Path("/sys"))
    first, second = reader.read(0.0, GapRecorder()), reader.read(1.0, GapRecorder())
    assert first.cores is not None
    assert first.cores >= 1
    assert first.memory.total_bytes is not None
    assert 0 < (first.memory.used_bytes or 0) <= first.memory.total_bytes
    assert first.cpu_seconds is not None
    assert second.cpu_seconds is not None
    assert second.cpu_seconds >= first.cpu_seconds > 0
    assert first.load_1m is not None


def test_psutil_path_is_restored(tmp_path: Path) -> None:
    HostReader(tmp_path / "proc", tmp_path / "sys").read(1.0, GapRecorder())
    assert psutil.PROCFS_PATH == "/proc"

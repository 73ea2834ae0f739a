import shutil
from pathlib import Path

import pytest

from agent.host import HostPass, HostReader
from agent.readings import HostReading, PressureTotals
from tests.agent.trees import NET_DEV, Host, make_host, write


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return make_host(tmp_path)


def read(host: Host) -> HostPass:
    return HostReader(host.proc, host.sys).read(0.0)


def test_every_field(host: Host) -> None:
    assert read(host).reading == HostReading(
        cores=2,
        busy_seconds=sum([1.0 + 0.1 + 0.6 + 0.03 + 0.06, 2.0 + 0.1 + 0.4 + 0.04 + 0.07]),
        memory_total_bytes=8_000_000 * 1024,
        memory_available_bytes=5_000_000 * 1024,
        disk_bytes=30_300 * 512,
        network_bytes=1_207_000,
        network_capacity_bytes_per_second=11_000 * 1e6 / 8,
        pressure=PressureTotals(2.0, 3.0, 4.0),
    )


def test_a_host_that_shows_everything_has_no_gaps(host: Host) -> None:
    assert read(host).gaps == ()


def test_disks_and_links_are_named(host: Host) -> None:
    found = read(host)
    assert (found.disks, found.links) == (("sda", "sdb"), ("eth0", "eth1"))


def test_stolen_time_is_not_our_work(host: Host) -> None:
    before = read(host).reading.busy_seconds
    stat = (host.proc / "stat").read_text()
    (host.proc / "stat").write_text(stat.replace(" 400 40 0\n", " 9400 40 0\n"))
    assert read(host).reading.busy_seconds == before


def test_without_the_first_process_our_own_network_is_read(host: Host) -> None:
    (host.proc / "1/net/dev").unlink()
    write(host.proc, {"net/dev": NET_DEV.replace("1000000", "9000000")})
    assert read(host).reading.network_bytes == 9_207_000


@pytest.mark.parametrize(
    ("gone", "what"),
    [
        ("sys/block", "host disk"),
        ("proc/pressure", "host pressure"),
        ("proc/1", "host network"),
        ("sys/class/net/eth0/speed", "host network capacity"),
    ],
)
def test_what_is_missing_is_a_gap_and_the_rest_is_read(host: Host, gone: str, what: str) -> None:
    path = host.proc.parent / gone
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    found = read(host)
    assert [gap.what for gap in found.gaps] == [what]
    assert found.reading.cores == 2
    assert found.reading.memory_total_bytes == 8_000_000 * 1024


def test_a_link_that_is_plugged_in_counts_at_once_and_a_new_speed_within_a_minute(host: Host) -> None:
    reader = HostReader(host.proc, host.sys)
    reader.read(0.0)
    eth2 = "  eth2:    10       1    0    0    0     0          0         0      5       1    0    0    0     0       0          0\n"  # noqa: E501 - as wide as the kernel writes it
    write(host.proc, {"1/net/dev": NET_DEV + eth2})
    write(host.sys, {"class/net/eth2/device/": "", "class/net/eth2/speed": "1000\n"})
    assert reader.read(3.0).reading.network_bytes == 1_207_015

    write(host.sys, {"class/net/eth2/speed": "2000\n"})
    assert reader.read(6.0).reading.network_capacity_bytes_per_second == 12_000 * 1e6 / 8
    assert reader.read(63.0).reading.network_capacity_bytes_per_second == 13_000 * 1e6 / 8


def test_this_host_can_be_read() -> None:
    reader = HostReader(Path("/proc"), Path("/sys"))
    first, second = reader.read(0.0).reading, reader.read(1.0).reading
    assert first.cores >= 1
    assert 0 < first.memory_available_bytes <= first.memory_total_bytes
    assert second.busy_seconds >= first.busy_seconds > 0

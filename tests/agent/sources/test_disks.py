import shutil
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from agent.sources.devices import NO_DISKS, parse_diskstats, read_disks
from agent.sources.readings import DiskTotals
from tests.agent.trees import make_host, write


def test_every_byte_is_counted_on_the_lowest_device_only(tmp_path: Path) -> None:
    host = make_host(tmp_path)
    disks = read_disks(str(host.proc), str(host.sys))
    assert disks.totals == {
        "sda": DiskTotals(
            transferred_bytes=(20000 + 10000) * 512,
            operations=1500,
            busy_seconds=0.5,
            written_bytes=10000 * 512,
        ),
        "sdb": DiskTotals(
            transferred_bytes=(200 + 100) * 512, operations=15, busy_seconds=0.005, written_bytes=100 * 512
        ),
    }


def test_the_other_devices_are_named_by_number(tmp_path: Path) -> None:
    host = make_host(tmp_path)
    disks = read_disks(str(host.proc), str(host.sys))
    assert disks.skipped_devices == {b"7:0", b"8:1", b"253:0", b"9:0", b"252:0", b"259:1"}


def test_a_disk_whose_name_has_a_slash(tmp_path: Path) -> None:
    write(
        tmp_path, {"proc/diskstats": "104 0 cciss/c0d0 1 0 8 0 1 0 8 0 0 25 0\n", "sys/block/cciss!c0d0/": ""}
    )
    disks = read_disks(str(tmp_path / "proc"), str(tmp_path / "sys"))
    assert disks.totals == {"cciss/c0d0": DiskTotals(16 * 512, 2, 0.025, 8 * 512)}


def test_unknown_disks_give_no_values(tmp_path: Path) -> None:
    host = make_host(tmp_path)
    shutil.rmtree(host.sys / "block")
    assert read_disks(str(host.proc), str(host.sys)) == NO_DISKS


@given(st.binary())
def test_any_bytes_can_be_parsed(text: bytes) -> None:
    parse_diskstats(text)
    parse_diskstats(b"8 0 sda 1 2 " + text + b" 4 5 6 7 8 9 10 " + text)

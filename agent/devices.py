"""Block devices: which of them are disks, and what has gone through those.

The same byte passes through several devices: a partition and its disk, a logical volume and the
disks below it, a loop and the disk that holds its file. Only the lowest one is counted.
"""

import os
from dataclasses import dataclass

from agent.files import parse_count, read_file

_SECTOR_BYTES = 512
"""The unit of /proc/diskstats, whatever the device's own sector size is."""
_FIELDS = 10
_NOT_A_DISK = ("loop", "ram", "zram", "drbd", "zd")
"""Devices in memory, or on top of others without saying so."""


@dataclass(frozen=True, slots=True)
class DeviceStat:
    """A line of /proc/diskstats."""

    number: bytes
    """Major and minor, as cgroup files write it: `8:0`."""
    name: str
    total_bytes: int


@dataclass(frozen=True, slots=True)
class Disks:
    """The disks' bytes together, and the numbers of the devices that are not disks."""

    names: tuple[str, ...] = ()
    total_bytes: int | None = None
    skipped_devices: frozenset[bytes] = frozenset()


def parse_diskstats(text: bytes) -> tuple[DeviceStat, ...]:
    """Bytes read and written per device; lines that make no sense are passed over."""
    stats = []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < _FIELDS:
            continue
        sectors_read, sectors_written = parse_count(fields[5]), parse_count(fields[9])
        if sectors_read is None or sectors_written is None:
            continue
        number, name = fields[0] + b":" + fields[1], os.fsdecode(fields[2])
        stats.append(DeviceStat(number, name, (sectors_read + sectors_written) * _SECTOR_BYTES))
    return tuple(stats)


def read_disks(proc: str, sys: str) -> Disks:
    """The host's disks; none, with their bytes unknown, where the kernel's lists cannot be read."""
    stats = parse_diskstats(read_file(f"{proc}/diskstats") or b"")
    whole_devices = _listed(f"{sys}/block")
    disks = [stat for stat in stats if stat.name in whole_devices and _is_disk(sys, stat.name)]
    if not disks:
        return Disks()
    return Disks(
        names=tuple(stat.name for stat in disks),
        total_bytes=sum(stat.total_bytes for stat in disks),
        skipped_devices=frozenset(stat.number for stat in stats).difference(stat.number for stat in disks),
    )


def _is_disk(sys: str, name: str) -> bool:
    if name.startswith(_NOT_A_DISK):
        return False
    directory = f"{sys}/block/{_in_sys(name)}"
    # The single paths below a multipath NVMe device are hidden; the device itself is counted.
    hidden = parse_count(read_file(f"{directory}/hidden")) == 1
    return not hidden and not _listed(f"{directory}/slaves")


def _listed(directory: str) -> frozenset[str]:
    try:
        with os.scandir(directory) as entries:
            return frozenset(entry.name.replace("!", "/") for entry in entries)
    except OSError:
        return frozenset()


def _in_sys(name: str) -> str:
    """A few old controllers name disks `cciss/c0d0`, which no file can be called."""
    return name.replace("/", "!")

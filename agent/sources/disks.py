"""The disks among the block devices, and their counters.

The same byte passes through several devices: a partition and its disk, a logical volume and its disks, a loop
device and the disk of its file. Only the disk is counted.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from agent.sources.files import parse_count, read_file
from agent.sources.readings import DiskTotals

_SECTOR_BYTES = 512
"""Unit of /proc/diskstats, independent of the sector size of the device."""
_FIELDS = 13
_COUNTS_AT = (3, 5, 7, 9, 12)
"""Reads, sectors read, writes, sectors written, milliseconds busy."""
_MILLISECONDS = 1000
_NOT_A_DISK = ("loop", "ram", "zram", "drbd", "zd")
"""Devices in memory, or on top of others without listing them as slaves."""


@dataclass(frozen=True, slots=True)
class DeviceStat:
    """A line of /proc/diskstats."""

    number: bytes
    """Major and minor number, as in cgroup files: `8:0`."""
    name: str
    totals: DiskTotals


@dataclass(frozen=True, slots=True)
class Disks:
    """Counters of each disk by name, and the numbers of the devices that are not disks."""

    totals: Mapping[str, DiskTotals] = field(default_factory=dict)
    skipped_devices: frozenset[bytes] = frozenset()


def parse_diskstats(text: bytes) -> tuple[DeviceStat, ...]:
    """Counters of each device; skips invalid lines."""
    stats = []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < _FIELDS:
            continue
        counts = [parse_count(fields[index]) for index in _COUNTS_AT]
        if None in counts:
            continue
        reads, sectors_read, writes, sectors_written, busy_milliseconds = (count or 0 for count in counts)
        totals = DiskTotals(
            transferred_bytes=(sectors_read + sectors_written) * _SECTOR_BYTES,
            operations=reads + writes,
            busy_seconds=busy_milliseconds / _MILLISECONDS,
            written_bytes=sectors_written * _SECTOR_BYTES,
        )
        stats.append(DeviceStat(fields[0] + b":" + fields[1], os.fsdecode(fields[2]), totals))
    return tuple(stats)


def read_disks(proc: str, sys: str) -> Disks:
    """Read the disks of the host; none if the kernel files cannot be read."""
    stats = parse_diskstats(read_file(f"{proc}/diskstats") or b"")
    whole_devices = _listed(f"{sys}/block")
    disks = [stat for stat in stats if stat.name in whole_devices and _is_disk(sys, stat.name)]
    if not disks:
        return Disks()
    return Disks(
        totals={stat.name: stat.totals for stat in disks},
        skipped_devices=frozenset(stat.number for stat in stats).difference(stat.number for stat in disks),
    )


def _is_disk(sys: str, name: str) -> bool:
    if name.startswith(_NOT_A_DISK):
        return False
    directory = f"{sys}/block/{_in_sys(name)}"
    # The paths of a multipath NVMe device are hidden; the device itself is counted.
    hidden = parse_count(read_file(f"{directory}/hidden")) == 1
    return not hidden and not _listed(f"{directory}/slaves")


def _listed(directory: str) -> frozenset[str]:
    try:
        with os.scandir(directory) as entries:
            return frozenset(entry.name.replace("!", "/") for entry in entries)
    except OSError:
        return frozenset()


def _in_sys(name: str) -> str:
    """Translate a name such as `cciss/c0d0` of old controllers, which is not a valid file name."""
    return name.replace("/", "!")

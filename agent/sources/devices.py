"""Disks and network links of the machine, with their counters.

The same byte passes through several devices: a partition and its disk, a logical volume and its disks, a loop
device and the disk of its file. Only the disk is counted. A byte that a container sends passes through a
veth, a bridge and a network card; only the card is counted.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from agent.sources.files import read_file
from agent.sources.readings import DiskTotals, LinkTotals
from wire.text import parse_count

# --- Disks --------------------------------------------------------------------------------------

_SECTOR_BYTES = 512
"""Unit of /proc/diskstats, independent of the sector size of the device."""
_FIELDS = 13
_COUNTS_AT = (3, 5, 7, 9, 12)
"""Reads, sectors read, writes, sectors written, milliseconds busy."""
_MILLISECONDS = 1000
_NOT_A_DISK = ("loop", "ram", "zram", "drbd", "zd")
"""Devices in memory, or on top of others without listing them as slaves."""


class Disks(NamedTuple):
    """Counters of each disk by name, and the numbers of the devices that are not disks."""

    totals: dict[str, DiskTotals]
    skipped_devices: frozenset[bytes]


NO_DISKS = Disks({}, frozenset())


def parse_diskstats(text: bytes) -> dict[str, tuple[bytes, DiskTotals]]:
    """Number (`8:0`, as in cgroup files) and counters of each device by name; skips invalid lines."""
    stats = {}
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
        stats[os.fsdecode(fields[2])] = fields[0] + b":" + fields[1], totals
    return stats


def read_disks(proc: str, sys: str) -> Disks:
    """Read the disks of the host; none if the kernel files cannot be read."""
    stats = parse_diskstats(read_file(f"{proc}/diskstats") or b"")
    whole_devices = listed(f"{sys}/block")
    disks = {name: stat for name, stat in stats.items() if name in whole_devices and _is_disk(sys, name)}
    if not disks:
        return NO_DISKS
    return Disks(
        totals={name: totals for name, (_, totals) in disks.items()},
        skipped_devices=frozenset(number for name, (number, _) in stats.items() if name not in disks),
    )


def _is_disk(sys: str, name: str) -> bool:
    if name.startswith(_NOT_A_DISK):
        return False
    # A name such as `cciss/c0d0` of old controllers is not a valid file name.
    directory = f"{sys}/block/{name.replace('/', '!')}"
    # The paths of a multipath NVMe device are hidden; the device itself is counted.
    hidden = parse_count(read_file(f"{directory}/hidden")) == 1
    return not hidden and not listed(f"{directory}/slaves")


def listed(directory: str) -> frozenset[str]:
    """The names in a directory of /sys; none if it cannot be read."""
    try:
        with os.scandir(directory) as entries:
            return frozenset(entry.name.replace("!", "/") for entry in entries)
    except OSError:
        return frozenset()


# --- Network links ------------------------------------------------------------------------------

LOOPBACK = "lo"
_SENT_FIELD = 8
"""Index of the first column for sent traffic."""
_BYTES_PER_SECOND_PER_MEGABIT = 1_000_000 / 8
_UNKNOWN_SPEED = 0xFFFF_FFFF
"""What some drivers report instead of -1."""
_INTERNAL = (
    "veth docker br- virbr cni flannel cali vxlan tunl ip6tnl sit gre tun tap dummy ifb lxc lxd "
    "podman cilium kube- nodelocaldns wg vnet macvtap vmnet"
)
_INTERNAL_PREFIXES = (LOOPBACK, *_INTERNAL.split())
"""Prefixes of internal links, which are recognized by name only."""


class NetworkInterfaces(NamedTuple):
    """The external links, and their total speed in one direction."""

    names: frozenset[str]
    capacity_bytes_per_second: float | None
    """None if a link that is up reports no speed, as in most virtual machines."""


def parse_net_dev(text: bytes) -> dict[str, LinkTotals]:
    """Bytes per link, from `/proc/<pid>/net/dev`."""
    counted = {}
    for line in text.splitlines():
        name, colon, numbers = line.rpartition(b":")
        fields = numbers.split()
        if not colon or len(fields) <= _SENT_FIELD:
            continue
        received, sent = parse_count(fields[0]), parse_count(fields[_SENT_FIELD])
        if received is not None and sent is not None:
            counted[name.strip().decode(errors="replace")] = LinkTotals(received + sent, sent)
    return counted


def may_be_external(name: str) -> bool:
    """False if the name shows that the link is internal."""
    return not name.startswith(_INTERNAL_PREFIXES)


def read_interfaces(sys: Path, names: Iterable[str]) -> NetworkInterfaces:
    """Find the external links: those with a device, or by name if none has one.

    A host that is itself a container has no devices, and its `eth0` is its external link.
    """
    base = sys / "class" / "net"
    names = set(names)
    external = {name for name in names if (base / name / "device").exists()} or {
        name for name in names if may_be_external(name) and not (base / name / "bridge").exists()
    }
    speeds = [_speed(f"{base}/{name}") for name in external if _is_up(f"{base}/{name}")]
    reported = [speed for speed in speeds if speed is not None]
    return NetworkInterfaces(
        frozenset(external), sum(reported) if reported and len(reported) == len(speeds) else None
    )


def _is_up(link: str) -> bool:
    """Also true if the driver does not report it."""
    return (read_file(f"{link}/operstate") or b"").strip() not in {b"down", b"lowerlayerdown", b"notpresent"}


def _speed(link: str) -> float | None:
    """Bytes per second; a link without a speed reports -1, or cannot be read."""
    megabits = parse_count(read_file(f"{link}/speed"))
    return megabits * _BYTES_PER_SECOND_PER_MEGABIT if megabits and megabits != _UNKNOWN_SPEED else None

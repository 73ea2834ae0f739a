"""Network links that leave the machine, their byte counters and speeds.

A byte that a container sends passes through a veth, a bridge and a network card; only the card is counted.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from agent.sources.files import parse_count, read_file

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


@dataclass(frozen=True, slots=True)
class NetworkInterfaces:
    """The external links, and their total speed in one direction."""

    names: frozenset[str]
    capacity_bytes_per_second: float | None
    """None if a link that is up reports no speed, as in most virtual machines."""


class LinkTotals(NamedTuple):
    """Bytes of one link, or of several."""

    transferred_bytes: int
    """Received and sent."""
    sent_bytes: int


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

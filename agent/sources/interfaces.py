"""Network links: which of them leave the machine, what has gone through those, and how fast they are.

A byte that a container sends passes through its own end, a bridge and a card; only the card is counted.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from agent.sources.files import parse_count, read_file

LOOPBACK = "lo"
_SENT_FIELD = 8
"""Where the columns of sent bytes begin, after those of received ones."""
_BYTES_PER_SECOND_PER_MEGABIT = 1_000_000 / 8
_UNKNOWN_SPEED = 0xFFFF_FFFF
"""What some drivers say for -1."""
_INTERNAL = (
    "veth docker br- virbr cni flannel cali vxlan tunl ip6tnl sit gre tun tap dummy ifb lxc lxd "
    "podman cilium kube- nodelocaldns wg vnet macvtap vmnet"
)
_INTERNAL_PREFIXES = (LOOPBACK, *_INTERNAL.split())
"""Links that only lead from one part of the machine to another, where nothing but the name tells."""


@dataclass(frozen=True, slots=True)
class NetworkInterfaces:
    """The links to the outside, and what they can carry together in one direction."""

    names: frozenset[str]
    capacity_bytes_per_second: float | None
    """None where a link that is up does not know its speed, as those of most virtual machines."""


def parse_net_dev(text: bytes) -> dict[str, int]:
    """Bytes received and sent per link, out of `/proc/<pid>/net/dev`."""
    counted = {}
    for line in text.splitlines():
        name, colon, numbers = line.rpartition(b":")
        fields = numbers.split()
        if not colon or len(fields) <= _SENT_FIELD:
            continue
        received, sent = parse_count(fields[0]), parse_count(fields[_SENT_FIELD])
        if received is not None and sent is not None:
            counted[name.strip().decode(errors="replace")] = received + sent
    return counted


def may_be_external(name: str) -> bool:
    """False for what is certain, by its name, to be an inner link."""
    return not name.startswith(_INTERNAL_PREFIXES)


def read_interfaces(sys: Path, names: Iterable[str]) -> NetworkInterfaces:
    """Tell the links to the outside: those with a device behind them, or failing that, by their names.

    A host that is itself a container has no devices, and its `eth0` is its link to the outside.
    """
    base = sys / "class" / "net"
    names = set(names)
    outer = {name for name in names if (base / name / "device").exists()} or {
        name for name in names if may_be_external(name) and not (base / name / "bridge").exists()
    }
    speeds = [_speed(f"{base}/{name}") for name in outer if _is_up(f"{base}/{name}")]
    known = [speed for speed in speeds if speed is not None]
    return NetworkInterfaces(frozenset(outer), sum(known) if known and len(known) == len(speeds) else None)


def _is_up(link: str) -> bool:
    """True as well where the driver does not tell."""
    return (read_file(f"{link}/operstate") or b"").strip() not in {b"down", b"lowerlayerdown", b"notpresent"}


def _speed(link: str) -> float | None:
    """Bytes per second; a link without a speed says -1, or refuses to be read."""
    megabits = parse_count(read_file(f"{link}/speed"))
    return megabits * _BYTES_PER_SECOND_PER_MEGABIT if megabits and megabits != _UNKNOWN_SPEED else None

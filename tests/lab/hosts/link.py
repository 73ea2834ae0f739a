"""Hosts in regions: network namespaces that reach each other with the round-trip times of a matrix.

    with linked_hosts(between_regions(("us", "us", "eu"), {("us", "eu"): 0.1})) as link:
        link.hosts[0].run("redis-cli", "-h", link.hosts[2].address, "ping")

Every packet between two hosts goes through `link_router`, which delays it by half the round-trip time of its
pair. The machine itself has `address` on the same network, without a delay, for a collector that the hosts
report to.
"""

import ipaddress
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.lab.hosts import link_router
from tests.lab.parts import require
from tests.lab.reaper import Reaper

Matrix = Sequence[Sequence[float]]
"""Round-trip times in seconds between all hosts."""

_QUEUE_PACKETS: Final = 10_000
"""Long, so that a burst waits for the router instead of being lost."""
_COMMAND_SECONDS: Final = 600.0

GE_KUBE_REGIONS: Final = ("us-central1", "eu-west1", "eu-north1", "northamerica-northeast1")
GE_KUBE_ROUND_TRIPS: Final[Mapping[tuple[str, str], float]] = {
    ("us-central1", "eu-west1"): 0.100,
    ("us-central1", "eu-north1"): 0.135,
    ("us-central1", "northamerica-northeast1"): 0.032,
    ("eu-west1", "eu-north1"): 0.033,
    ("eu-west1", "northamerica-northeast1"): 0.082,
    ("eu-north1", "northamerica-northeast1"): 0.115,
}
"""Measured between regions of a public cloud, in seconds (ge-kube, table 1)."""


def between_regions(
    regions: Sequence[str], round_trips: Mapping[tuple[str, str], float], inside_seconds: float = 0.001
) -> list[list[float]]:
    """Return the matrix of hosts in these regions."""
    both_ways = {**round_trips, **{(two, one): seconds for (one, two), seconds in round_trips.items()}}
    return [
        [
            0.0 if row == column else inside_seconds if one == two else both_ways[one, two]
            for column, two in enumerate(regions)
        ]
        for row, one in enumerate(regions)
    ]


@dataclass(frozen=True, slots=True)
class Host:
    """One host: its address, and the file of its network namespace."""

    address: str
    namespace: str

    def command(self, *command: str) -> list[str]:
        """Return the command line that runs a command on this host."""
        # Not `ip netns exec`, which mounts /sys again and so hides the control groups.
        return ["nsenter", f"--net={self.namespace}", *command]

    def run(self, *command: str) -> str:
        """Run a command on this host, and return its output."""
        return subprocess.run(
            self.command(*command), check=True, capture_output=True, text=True, timeout=_COMMAND_SECONDS
        ).stdout


class Link:
    """The hosts, and the router between them."""

    def __init__(self, address: str, hosts: Sequence[Host], router: subprocess.Popen[bytes]) -> None:
        self.address = address
        self.hosts = tuple(hosts)
        self._router = router

    def set_round_trips(self, seconds: Matrix) -> None:
        """Change the round-trip times, from the next packet on."""
        assert self._router.stdin is not None
        self._router.stdin.write(json.dumps(_one_way(seconds)).encode() + b"\n")
        self._router.stdin.flush()

    def router_cpu_seconds(self) -> float:
        """Return the CPU time of the router so far; it must not limit a benchmark."""
        stat = Path(f"/proc/{self._router.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")


def create_link(reaper: Reaper, name: str, network: ipaddress.IPv4Network, round_trips: Matrix) -> Link:
    """Create the namespaces and the router; `name` is the prefix of all links and namespaces."""
    count = len(round_trips)
    own_address = str(network[254])
    addresses = [*(str(network[number]) for number in range(1, count + 1)), own_address]
    devices = [*(f"{name}-{number}" for number in range(1, count + 1)), name]
    namespaces = devices[:-1]
    for namespace in namespaces:
        reaper.will_run(["ip", "netns", "delete", namespace], only_if_exists=f"/run/netns/{namespace}")
        ip("netns", "add", namespace)
    settings = {"devices": devices, "addresses": addresses, "one_way_seconds": _one_way(round_trips)}
    router = subprocess.Popen(
        # Isolated and without site: only the standard library.
        [sys.executable, "-I", "-S", link_router.__file__, json.dumps(settings)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    reaper.adopt(router, grace_seconds=0)
    assert router.stdout is not None
    if router.stdout.readline() != b"ready\n":
        raise RuntimeError("the router between the hosts did not start")
    for device, namespace, address in zip(devices, namespaces, addresses, strict=False):
        ip("link", "set", device, "netns", namespace, "name", "eth0")
        _set_up(address, "eth0", "-netns", namespace)
        ip("-netns", namespace, "link", "set", "lo", "up")
    _set_up(own_address, name)
    hosts = [
        Host(address, f"/run/netns/{namespace}")
        for namespace, address in zip(namespaces, addresses, strict=False)
    ]
    return Link(own_address, hosts, router)


def _set_up(address: str, device: str, *where: str) -> None:
    ip(*where, "address", "add", f"{address}/24", "dev", device)
    ip(*where, "link", "set", device, "txqueuelen", str(_QUEUE_PACKETS), "up")


def _one_way(round_trips: Matrix) -> list[list[float]]:
    """Return half of each round trip, and no delay to and from the machine itself."""
    rows = [[seconds / 2 for seconds in row] + [0.0] for row in round_trips]
    return [*rows, [0.0] * (len(round_trips) + 1)]


def ip(*arguments: str) -> str:
    """Run `ip`, and return its output."""
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout


def free_network() -> ipaddress.IPv4Network:
    """Choose a network that no link of this machine uses."""
    links = json.loads(ip("-json", "-4", "address", "show"))
    taken = {info["local"].rsplit(".", 1)[0] for link in links for info in link["addr_info"]}
    free = [prefix for number in range(256) if (prefix := f"10.77.{number}") not in taken]
    # At random, because another swarm may choose at the same moment.
    return ipaddress.IPv4Network(f"{secrets.choice(free)}.0/24")


def free_name() -> str:
    """Choose a prefix for the names of links; a name has at most 15 characters."""
    return f"wp{os.urandom(4).hex()}"


@contextmanager
def linked_hosts(round_trips: Matrix) -> Iterator[Link]:
    """Run empty network namespaces with delays between them while the block runs."""
    require("link")
    with Reaper() as reaper:
        yield create_link(reaper, free_name(), free_network(), round_trips)

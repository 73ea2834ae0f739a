import json
import math
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.lab.engines.swarm import swarm
from tests.lab.hosts.link import (
    GE_KUBE_REGIONS,
    GE_KUBE_ROUND_TRIPS,
    Host,
    Link,
    between_regions,
    linked_hosts,
)
from tests.lab.parts import require
from tests.lab.traces import traces
from tests.lab.waiting import eventually

pytestmark = pytest.mark.lab

REGIONS = (*GE_KUBE_REGIONS, GE_KUBE_REGIONS[0])
"""A host in each region, and a second one in the first."""
ROUND_TRIPS = between_regions(REGIONS, GE_KUBE_ROUND_TRIPS)

# Nothing listens on this port, so a connection is refused after one round trip.
ASK = """
import json, socket, sys, time
def seconds(address):
    began = time.perf_counter()
    with socket.socket() as asking:
        asking.connect_ex((address, 9))
    return time.perf_counter() - began
print(json.dumps([min(seconds(address) for _ in range(5)) for address in sys.argv[1:]]))
"""


def measure(host: Host, *addresses: str) -> list[float]:
    """The shortest of a few round trips to each address: a busy machine adds to some of them."""
    found: list[float] = json.loads(host.run(sys.executable, "-I", "-S", "-c", ASK, *addresses))
    return found


def assert_round_trips(host: Host, addresses: Sequence[str], expected: Sequence[float]) -> None:
    """None is ever shorter than expected, nor much longer once the machine is free for a moment."""
    shortest = [math.inf] * len(addresses)

    def are_short() -> bool:
        shortest[:] = map(min, shortest, measure(host, *addresses))
        return all(found < seconds + 0.005 for found, seconds in zip(shortest, expected, strict=True))

    eventually(are_short, 30)
    assert all(found >= seconds for found, seconds in zip(shortest, expected, strict=True))


@pytest.fixture(scope="module")
def link() -> Iterator[Link]:
    with linked_hosts(ROUND_TRIPS) as found:
        yield found


def test_regions_are_as_far_apart_as_the_matrix_says(link: Link) -> None:
    addresses = [host.address for host in link.hosts]
    for host, expected in zip(link.hosts, ROUND_TRIPS, strict=True):
        assert_round_trips(host, addresses, expected)


def test_hosts_reach_the_machine_itself_without_a_delay(link: Link) -> None:
    assert_round_trips(link.hosts[0], [link.address], [0.0])


def test_round_trips_change_under_the_running_hosts() -> None:
    with linked_hosts([[0, 0.3], [0.3, 0]]) as link:
        one, two = link.hosts
        assert measure(one, two.address)[0] >= 0.3
        link.set_round_trips([[0, 0.02], [0.02, 0]])
        assert 0.02 <= measure(one, two.address)[0] < 0.3


def test_every_byte_of_a_long_stream_arrives(link: Link) -> None:
    sender, receiver = link.hosts[0], link.hosts[4]
    receive = (
        "import hashlib, socket, sys\n"
        "with socket.create_server((sys.argv[1], 0)) as server:\n"
        "    print(server.getsockname()[1], flush=True)\n"
        "    peer, _ = server.accept()\n"
        "    digest = hashlib.sha256()\n"
        "    while data := peer.recv(65536):\n"
        "        digest.update(data)\n"
        "    print(digest.hexdigest())\n"
    )
    send = (
        "import hashlib, socket, sys, os\n"
        "data = os.urandom(4 << 20)\n"
        "with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as peer:\n"
        "    peer.sendall(data)\n"
        "print(hashlib.sha256(data).hexdigest())\n"
    )
    with subprocess.Popen(
        receiver.command(sys.executable, "-c", receive, receiver.address), stdout=subprocess.PIPE, text=True
    ) as receiving:
        assert receiving.stdout is not None
        port = receiving.stdout.readline().strip()
        sent = sender.run(sys.executable, "-c", send, receiver.address, port)
        assert receiving.stdout.readline() == sent


def test_a_swarm_runs_over_the_link() -> None:
    with swarm(round_trips=between_regions(("a", "b"), {("a", "b"): 0.08})) as cluster:
        _, two = cluster.nodes
        assert cluster.link is not None
        assert measure(cluster.link.hosts[0], two.address)[0] >= 0.08
        cluster.create_service("web", "sleep", "1000", node="node2")
        cluster.wait_until_runs("web", on="node2")
        cluster.cut(two)
        cluster.wait_for_node("node2", "down")
        cluster.heal(two)
        cluster.wait_for_node("node2", "ready")


# Prints the name of its namespaces and waits to be killed.
VICTIM = """
import sys
from pathlib import Path
from tests.lab.hosts.link import linked_hosts
with linked_hosts([[0, 0.1], [0.1, 0]]) as link:
    print(Path(link.hosts[0].namespace).name.removesuffix("-1"), flush=True)
    sys.stdin.read()
"""


def test_nothing_is_left_of_a_link_whose_test_run_was_killed() -> None:
    require("link")
    with subprocess.Popen(
        [sys.executable, "-c", VICTIM],
        cwd=Path(__file__).parents[3],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as victim:
        assert victim.stdout is not None
        name = victim.stdout.readline().strip()
        assert traces(name)
        victim.send_signal(signal.SIGKILL)
    eventually(lambda: not traces(name), 15)

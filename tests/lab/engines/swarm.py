"""A real Docker Swarm on one machine: every node is an engine in its own network namespace, on one bridge.

    with swarm(nodes=3) as cluster:
        cluster.limit(cluster.nodes[1], cpus=0.5, memory_bytes=256 << 20)
        cluster.create_service("web", "sleep", "1000", node="node2")
        cluster.wait_until_runs("web", on="node2")

The first node is the manager. All nodes share one kernel; a node is the control group of its containers
(`node.engine.cgroup_parent`), which has the node's limits and which an agent treats as its host. The machine
itself has `address` on the bridge, for a collector that the nodes report to.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from tests.lab.engines import cgroups, image
from tests.lab.engines.docker import Engine
from tests.lab.hosts.link import Link, Matrix, create_link, free_name, free_network, ip
from tests.lab.parts import require
from tests.lab.reaper import Reaper
from tests.lab.waiting import eventually

_PORT: Final = 2377
_SETTLE_SECONDS: Final = 60.0
NO_LIMIT_BYTES: Final = 1 << 60
_HEARTBEAT_SECONDS: Final = 1
"""A node that misses three of these is down; Docker's default of 5 s would make tests slow."""


@dataclass(frozen=True, slots=True)
class Node:
    """One node of the Swarm."""

    name: str
    address: str
    cable: tuple[str, ...]
    """Arguments of `ip` that `down` or `up` follows, to cut or restore its network."""
    namespace: str
    engine: Engine


@dataclass(frozen=True, slots=True)
class Task:
    """One task of a service, as the manager lists it."""

    id: str
    node: str | None
    state: str
    desired_state: str
    container_id: str | None


class Swarm:
    """The nodes of a Swarm, and requests to its manager."""

    def __init__(self, name: str, address: str, nodes: Sequence[Node], link: Link | None = None) -> None:
        self.name = name
        self.address = address
        self.nodes = tuple(nodes)
        self.link = link
        """Delays packets between the nodes, if it is not None."""

    @property
    def manager(self) -> Engine:
        """The engine of the manager."""
        return self.nodes[0].engine

    def node(self, name: str) -> Node:
        """Find a node by its name."""
        return next(node for node in self.nodes if node.name == name)

    # --- Nodes ------------------------------------------------------------------------------

    def limit(self, node: Node, *, cpus: float | None = None, memory_bytes: int | None = None) -> None:
        """Limit the cores and the memory of all containers of a node together."""
        cgroups.limit(node.engine.cgroup_parent, cpus=cpus, memory_bytes=memory_bytes)

    def cut(self, node: Node) -> None:
        """Cut the network of a node, which keeps running."""
        ip(*node.cable, "down")

    def heal(self, node: Node) -> None:
        """Restore the network of a node."""
        ip(*node.cable, "up")

    def kill(self, node: Node) -> None:
        """Kill a node with all its containers."""
        node.engine.kill()

    def clear(self) -> None:
        """Remove all services and the limits of all nodes, so that other tests can use them.

        Raises TimeoutError if a container is left, because a test removes those that it runs itself.
        """
        if services := self.manager.docker("service", "ls", "--quiet").split():
            self.manager.docker("service", "rm", *services)
        eventually(lambda: not any(node.engine.get("/containers/json") for node in self.nodes), 60)
        for node in self.nodes:
            self.limit(node, cpus=os.cpu_count(), memory_bytes=NO_LIMIT_BYTES)

    def node_states(self) -> dict[str, str]:
        """Return the state of each node, as the manager lists it."""
        return {entry["Description"]["Hostname"]: entry["Status"]["State"] for entry in self._nodes()}

    def wait_for_node(self, name: str, state: str) -> None:
        """Wait until the manager lists a node with a state (ready, down)."""
        eventually(lambda: self.node_states().get(name) == state, _SETTLE_SECONDS)

    def _nodes(self) -> Any:
        return self.manager.get("/nodes")

    # --- Services ---------------------------------------------------------------------------

    def create_service(  # noqa: PLR0913 - the options of a service
        self,
        name: str,
        *command: str,
        node: str | None = None,
        replicas: int = 1,
        labels: Mapping[str, str] | None = None,
        extra: Sequence[str] = (),
        image: str = image.NAME,
    ) -> None:
        """Create a service of the lab's image or another, on one node if given.

        `wait_until_runs` waits for its tasks.
        """
        options = [
            "--detach",
            f"--name={name}",
            f"--replicas={replicas}",
            "--network=host",
            "--no-resolve-image",
        ]
        # The first process of a container ignores SIGTERM by default, and would use the whole grace period.
        options += ["--stop-grace-period=1s", "--restart-delay=1s"]
        if node is not None:
            options.append(f"--constraint={_only_on(node)}")
        options += [f"--label={key}={value}" for key, value in (labels or {}).items()]
        self.manager.docker("service", "create", *options, *extra, image, *command)

    def move_service(self, name: str, to: str) -> None:
        """Allow a service on one node only; the swarm moves it there."""
        service = self.manager.get(f"/services/{name}")
        placement = service["Spec"]["TaskTemplate"].get("Placement", {})
        changes = [f"--constraint-rm={constraint}" for constraint in placement.get("Constraints", [])]
        changes.append(f"--constraint-add={_only_on(to)}")
        self.manager.docker("service", "update", "--detach", "--no-resolve-image", *changes, name)

    def remove_service(self, name: str) -> None:
        """Remove a service; its tasks end soon after."""
        self.manager.docker("service", "rm", name)

    def tasks(self, service: str) -> list[Task]:
        """List a service's tasks, including those that have ended."""
        names = {entry["ID"]: entry["Description"]["Hostname"] for entry in self._nodes()}
        filters = quote(json.dumps({"service": [service]}))
        return [
            Task(
                id=entry["ID"],
                node=names.get(entry.get("NodeID", "")),
                state=entry["Status"]["State"],
                desired_state=entry["DesiredState"],
                container_id=entry["Status"].get("ContainerStatus", {}).get("ContainerID"),
            )
            for entry in self.manager.get(f"/tasks?filters={filters}")
        ]

    def wait_until_runs(self, service: str, *, on: str, replicas: int = 1) -> list[Task]:
        """Wait until this many tasks of a service run on a node and none elsewhere; return them."""

        def settled() -> list[Task] | None:
            running = [task for task in self.tasks(service) if task.state == "running"]
            return running if [task.node for task in running] == [on] * replicas else None

        found = eventually(settled, _SETTLE_SECONDS)
        assert found is not None
        return found


def _only_on(node: str) -> str:
    return f"node.hostname=={node}"


def _create_bridge(reaper: Reaper, name: str, address: str) -> None:
    reaper.will_run(["ip", "link", "delete", name], only_if_exists=f"/sys/class/net/{name}")
    ip("link", "add", name, "type", "bridge")
    ip("address", "add", f"{address}/24", "dev", name)
    ip("link", "set", name, "up")


def _connect_node(reaper: Reaper, bridge: str, number: int, address: str) -> tuple[tuple[str, ...], str]:
    """Make a node's network namespace and connect it to the bridge; return the cable and the namespace."""
    cable = namespace = f"{bridge}-{number}"
    handle = f"/run/netns/{namespace}"
    reaper.will_run(["ip", "netns", "delete", namespace], only_if_exists=handle)
    ip("netns", "add", namespace)
    # No default route: with one, every start of a service first waits for a registry that never responds.
    reaper.will_run(["ip", "link", "delete", cable], only_if_exists=f"/sys/class/net/{cable}")
    ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", namespace)
    ip("link", "set", cable, "master", bridge, "up")
    for arguments in (
        ("address", "add", f"{address}/24", "dev", "eth0"),
        ("link", "set", "eth0", "up"),
        ("link", "set", "lo", "up"),
    ):
        ip("-netns", namespace, *arguments)
    return ("link", "set", cable), handle


@contextmanager
def swarm(nodes: int = 3, *, round_trips: Matrix | None = None) -> Iterator[Swarm]:
    """Run a swarm of node1 (the manager), node2, ... while the block runs.

    With `round_trips`, there is a node per row, and a link that delays packets replaces the bridge.
    """
    require("swarm")
    if round_trips is not None:
        require("link")
    with Reaper() as reaper:
        name, network = free_name(), free_network()
        link: Link | None = None
        places: list[tuple[str, tuple[str, ...], str]]
        if round_trips is not None:
            link = create_link(reaper, name, network, round_trips)
            places = [
                (host.address, ("-netns", Path(host.namespace).name, "link", "set", "eth0"), host.namespace)
                for host in link.hosts
            ]
        else:
            _create_bridge(reaper, name, str(network[254]))
            addresses = [str(network[number]) for number in range(1, nodes + 1)]
            places = [
                (address, *_connect_node(reaper, name, number, address))
                for number, address in enumerate(addresses, start=1)
            ]
        members = []
        for number, (address, cable, namespace) in enumerate(places, start=1):
            # On a member of a swarm, Docker does not keep containers when the daemon restarts.
            engine = Engine(reaper, hostname=f"node{number}", netns=namespace, live_restore=False)
            members.append(Node(f"node{number}", address, cable, namespace, engine))
        for member in members:
            member.engine.start()
        cluster = Swarm(name, str(network[254]), members, link)
        _join(cluster)
        yield cluster


def _join(cluster: Swarm) -> None:
    first, *others = cluster.nodes
    heartbeat = f"--dispatcher-heartbeat={_HEARTBEAT_SECONDS}s"
    cluster.manager.docker("swarm", "init", f"--advertise-addr={first.address}", heartbeat)
    token = cluster.manager.docker("swarm", "join-token", "--quiet", "worker")
    for node in others:
        node.engine.docker("swarm", "join", f"--token={token}", f"{first.address}:{_PORT}")
    for node in cluster.nodes:
        cluster.wait_for_node(node.name, "ready")

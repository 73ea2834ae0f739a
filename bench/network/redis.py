"""A Redis cluster and its clients: an application of six containers on a Swarm, and its throughput."""

import csv
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from bench.swarm.cluster import until
from tests.lab.engines import image
from tests.lab.engines.swarm import Swarm, Task
from tests.lab.hosts.link import Host

IMAGE: Final = "redis:lab"
PROGRAMS: Final = ("redis-server", "redis-cli", "redis-benchmark")
SERVERS: Final[Mapping[str, int]] = {"redis1": 7001, "redis2": 7002, "redis3": 7003}
"""The masters of the cluster, each with its own port, because two may run on one node."""
CLIENTS: Final = ("client1", "client2", "client3")
MEMBERS: Final = (*SERVERS, *CLIENTS)
CORES: Final = 0.25
"""Reservation of each container: all six fit on a node of two cores."""
MEMORY_BYTES: Final = 64 << 20
CONNECTIONS: Final = 50
OPERATIONS: Final = ("set", "get", "lpush", "lpop", "hset")
"""Connections and operations as in the evaluation of ge-kube."""

_WAIT_SECONDS: Final = 90.0
_PILOT_REQUESTS: Final = 1000
_FEWEST_REQUESTS: Final = 500


@dataclass(frozen=True, slots=True)
class Throughput:
    """Operations per second of each client, while all run at the same time."""

    by_client: Mapping[str, float]

    @property
    def total(self) -> float:
        """The sum over all clients."""
        return sum(self.by_client.values())

    @property
    def equal_work(self) -> float:
        """The rate at which all clients do the same amount of work: the slowest one ends last."""
        return len(self.by_client) * min(self.by_client.values())


def import_image(swarm: Swarm) -> None:
    """Import the image on every node."""
    archive = image.archive(*PROGRAMS)
    for node in swarm.nodes:
        node.engine.docker("import", "-", IMAGE, input=archive)


def command(member: str) -> tuple[str, ...]:
    """The command of a container. A client idles until a benchmark is executed in it."""
    if member in CLIENTS:
        return ("sh", "-c", "trap exit TERM; sleep 100000 & wait")
    options = {
        "--port": str(SERVERS[member]),
        "--cluster-enabled": "yes",
        "--protected-mode": "no",
        "--save": "",
        "--dir": "/tmp",  # noqa: S108 - of the container
    }
    return ("redis-server", *(part for option in options.items() for part in option))


class Application:
    """The six containers on the nodes of a Swarm."""

    def __init__(self, swarm: Swarm) -> None:
        self._swarm = swarm
        self._tasks: dict[str, Task] = {}

    def start(self, labels: Mapping[str, str], places: Mapping[str, str] | None = None) -> Mapping[str, str]:
        """Create the services, on these nodes or where Swarm places them; returns the node of each."""
        for member in MEMBERS:
            self._swarm.create_service(
                member,
                *command(member),
                image=IMAGE,
                node=None if places is None else places[member],
                labels=labels,
                extra=(f"--reserve-cpu={CORES}", f"--reserve-memory={MEMORY_BYTES}"),
            )
        found, _ = until(self._running, _WAIT_SECONDS)
        if found is None:
            raise RuntimeError("the containers of the application did not start")
        self._tasks = found
        self._form_cluster()
        return {member: task.node or "" for member, task in found.items()}

    def stop(self) -> None:
        """Remove the services, and wait until their containers have ended."""
        for member in MEMBERS:
            self._swarm.remove_service(member)

        def have_ended() -> bool:
            return not any(
                node.engine.docker("ps", "-q", f"--filter=ancestor={IMAGE}") for node in self._swarm.nodes
            )

        until(have_ended, _WAIT_SECONDS)

    def measure(self, seconds: float) -> Throughput:
        """Run the benchmark on all clients at once, each operation for about this many seconds."""
        pilot = self._benchmark(dict.fromkeys(CLIENTS, _PILOT_REQUESTS), OPERATIONS[:1])
        requests = {client: max(_FEWEST_REQUESTS, int(rate * seconds)) for client, rate in pilot.items()}
        return Throughput(self._benchmark(requests, OPERATIONS))

    def _benchmark(self, requests: Mapping[str, int], operations: Sequence[str]) -> dict[str, float]:
        with ThreadPoolExecutor(len(CLIENTS)) as pool:
            rates = pool.map(lambda client: self._run(client, requests[client], operations), CLIENTS)
            return dict(zip(CLIENTS, rates, strict=True))

    def _run(self, client: str, requests: int, operations: Sequence[str]) -> float:
        """Operations per second of one client, over all kinds of operations."""
        task = self._tasks[client]
        server, port = next(iter(SERVERS.items()))
        output = self._swarm.node(task.node or "").engine.docker(
            *("exec", task.container_id or "", "redis-benchmark", "--cluster", "--csv"),
            *("-h", self._address(server), "-p", str(port)),
            *("-c", str(CONNECTIONS), "-n", str(requests), "-t", ",".join(operations)),
        )
        rates = parse_rates(output)
        if len(rates) != len(operations):
            raise RuntimeError(f"redis-benchmark did not report {', '.join(operations)}: {output}")
        # Every operation runs the same number of times, so their durations add up.
        return len(rates) / sum(1 / rate for rate in rates.values())

    def _running(self) -> dict[str, Task] | None:
        found = {
            member: task
            for member in MEMBERS
            for task in self._swarm.tasks(member)
            if task.state == "running" and task.desired_state == "running"
        }
        return found if len(found) == len(MEMBERS) else None

    def _address(self, member: str) -> str:
        return self._swarm.node(self._tasks[member].node or "").address

    def _form_cluster(self) -> None:
        ends = [f"{self._address(server)}:{port}" for server, port in SERVERS.items()]
        first = self._swarm.node(self._tasks["redis1"].node or "")
        host = Host(first.address, first.namespace)

        def answers() -> bool:
            return all(
                host.run("redis-cli", "-h", self._address(server), "-p", str(port), "ping") == "PONG\n"
                for server, port in SERVERS.items()
            )

        until(answers, _WAIT_SECONDS)
        host.run("redis-cli", "--cluster", "create", *ends, "--cluster-yes")

        def is_whole() -> bool:
            return all(
                "cluster_state:ok"
                in host.run("redis-cli", "-h", self._address(server), "-p", str(port), "cluster", "info")
                for server, port in SERVERS.items()
            )

        if not until(is_whole, _WAIT_SECONDS)[0]:
            raise RuntimeError("the Redis cluster did not form")


def parse_rates(output: str) -> dict[str, float]:
    """Parse the requests per second of each kind of operation from the CSV of redis-benchmark."""
    rows = csv.reader(line for line in output.splitlines() if line.startswith('"'))
    return {row[0]: float(row[1]) for row in rows if row[0] != "test"}

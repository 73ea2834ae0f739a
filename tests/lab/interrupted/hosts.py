"""A collector on plain hosts of the lab that dies at a point; as a program, one that is killed in a move.

python -m tests.lab.interrupted.hosts FOLDER AT CONTAINER NODE=SOCKET NODE=SOCKET
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from collector.act.drivers.engine.client import Engines, open_engines
from collector.act.drivers.engine.containers import DockerContainer
from collector.act.drivers.interface import Driver
from collector.act.records import StepState
from collector.config import DriverConfig
from collector.features.docker.driver import DockerHosts
from tests.collector.act.drivers.interrupted import (
    Fuse,
    Point,
    begin,
    dying_engines,
    interrupted,
    recovered,
)
from tests.collector.features.docker.test_interrupted import action_on, check, start_state
from tests.lab.engines.docker import NotFoundError, request
from tests.lab.engines.swarm import Swarm


def containers_of(socket: str) -> Iterator[DockerContainer]:
    """Return all containers of an engine."""
    for listed in msgspec.json.decode(request(Path(socket), "/containers/json?all=true")):
        # Swarm removes those of the test before while they are listed.
        with suppress(NotFoundError):
            described = request(Path(socket), f"/containers/{listed['Id']}/json")
            yield msgspec.json.decode(described, type=DockerContainer)


@dataclass(frozen=True)
class LabHosts:
    """Two real engines without an orchestrator."""

    sockets: Mapping[str, str]
    engines: Engines
    settings: DriverConfig
    keeps_promises: bool = False
    poll_seconds: float = 0.05

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(self.sockets)

    def driver(self, fuse: Fuse) -> Driver:
        return DockerHosts(dying_engines(self.engines, fuse), self.settings)

    def containers(self, node: str) -> Iterator[DockerContainer]:
        return containers_of(self.sockets[node])


@asynccontextmanager
async def lab_hosts(sockets: Mapping[str, str]) -> AsyncIterator[LabHosts]:
    settings = DriverConfig(
        name="docker",
        engines={node: f"unix://{socket}" for node, socket in sockets.items()},
        stable_seconds=0.2,
        healthy_seconds=10.0,
    )
    async with open_engines(settings) as engines:
        yield LabHosts(sockets, engines, settings)


@contextmanager
def plain_hosts(cluster: Swarm) -> Iterator[dict[str, str]]:
    """Lend two nodes of a Swarm as plain hosts, by their sockets; their containers are removed."""
    hosts = cluster.nodes[1:]
    try:
        yield {node.name: str(node.engine.socket) for node in hosts}
    finally:
        for node in hosts:
            if left := node.engine.docker("ps", "--all", "--quiet").split():
                node.engine.remove(*left)


def run_web(cluster: Swarm, *, status: str = "running") -> str:
    """Run a container on the second node, and return its id."""
    engine = cluster.nodes[1].engine
    web = engine.run(
        "web",
        *("sleep", "100000"),
        cpus=1.0,
        memory="32m",
        labels={"wattpack.move": "allowed"},
        extra=("--stop-timeout=1", "--restart=always"),
    )
    if status == "exited":
        engine.stop("web")
    return web


async def interrupt_on_hosts(cluster: Swarm, folder: Path, point: Point) -> None:
    """Kill the collector at a point; there must be one container, as the journal says."""
    with plain_hosts(cluster) as sockets:
        web = run_web(cluster, status=start_state(point.action))
        source, target = sockets
        action, fuse = action_on(point.action, web, source, target), point.fuse()
        async with lab_hosts(sockets) as hosts:
            step = await interrupted(folder, hosts, action, fuse, reports=point.reports)
            assert fuse.is_dead
            check(hosts, source, action, step)


async def kill_on_hosts(cluster: Swarm, folder: Path, at: int) -> None:
    """Kill a process that moves a container with `kill -9` before a change; nothing is doubled or lost."""
    with plain_hosts(cluster) as sockets:
        web = run_web(cluster)
        source, target = sockets
        killed = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", __name__, str(folder), str(at), web),
            *(f"{node}={socket}" for node, socket in sockets.items()),
            cwd=Path(__file__).parents[3],
        )
        assert await killed.wait() == -signal.SIGKILL
        action = action_on("move", web, source, target)
        async with lab_hosts(sockets) as hosts:
            step = await recovered(folder, hosts, action)
            check(hosts, source, action, step)
        left = source if step.state is StepState.VERIFIED else target
        assert not list(containers_of(sockets[left]))


class FatalFuse(Fuse):
    """Kills this very process, as `kill -9` does."""

    def die(self) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)


async def main(folder: str, at: str, web: str, *sockets: str) -> None:
    pairs = dict(each.split("=", 1) for each in sockets)
    source, target = pairs
    async with lab_hosts(pairs) as hosts:
        action = action_on("move", web, source, target)
        await begin(Path(folder), hosts, action, FatalFuse(int(at)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

"""Engines of the lab as plain hosts; as a program, a collector on them that is killed in a move.

python -m tests.integration.interrupted_hosts FOLDER AT CONTAINER NODE=SOCKET NODE=SOCKET
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from collector.act.drivers.engine.client import Engines, open_engines
from collector.act.drivers.engine.containers import DockerContainer
from collector.act.drivers.interface import Driver
from collector.config import DriverConfig
from collector.decide.policies.actions import Move
from collector.features.docker.driver import DockerHosts
from tests.collector.act.drivers.interrupted import Fuse, begin, dying_engines
from tests.lab.engines.docker import request


def containers_of(socket: str) -> Iterator[DockerContainer]:
    """Return all containers of an engine."""
    for listed in msgspec.json.decode(request(Path(socket), "/containers/json?all=true")):
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


class FatalFuse(Fuse):
    """Kills this very process, as `kill -9` does."""

    def die(self) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)


async def main(folder: str, at: str, web: str, *sockets: str) -> None:
    pairs = dict(each.split("=", 1) for each in sockets)
    source, target = pairs
    async with lab_hosts(pairs) as hosts:
        action = Move(task=web, name="web", node=source, target=target, reasons=("because",))
        await begin(Path(folder), hosts, action, FatalFuse(int(at)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

"""Docker engines in memory: as much of them as a move, a stop, a start and a cut need."""

import itertools
import json
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import msgspec

from collector.act.drivers.engine.containers import DockerContainer
from collector.act.drivers.interface import Driver, RefusedError
from collector.config import DriverConfig
from collector.features.docker.driver import DockerHosts
from tests.collector.act.drivers.interrupted import Fuse, dying_engines
from tests.collector.builders import altered

_numbers = itertools.count(1)
SETTINGS = altered(DriverConfig(name="docker", stable_seconds=0.0, healthy_seconds=1.0), request_seconds=1.0)


class Dockerd:
    """One engine. A container whose name is in `sick` never becomes healthy."""

    def __init__(self) -> None:
        self.containers: dict[str, dict[str, Any]] = {}
        self.sick: set[str] = set()

    def run(self, name: str, *, status: str = "running") -> str:
        """Run a movable container with a core, and return its id."""
        labels = {"wattpack.move": "allowed"}
        config = {"Image": "web:1", "Labels": labels, "StopTimeout": 0}
        made = self._create(name, {**config, "HostConfig": {"NanoCpus": 10**9, "Memory": 1 << 28}})
        self.containers[made]["State"]["Status"] = status
        return made

    def _create(self, name: str, body: dict[str, Any]) -> str:
        if any(each["Name"] == f"/{name}" for each in self.containers.values()):
            raise RefusedError(HTTPStatus.CONFLICT, f"the name {name} is in use")
        made = f"{next(_numbers):064x}"
        config = {key: each for key, each in body.items() if key != "HostConfig"}
        self.containers[made] = {
            "Id": made,
            "Name": f"/{name}",
            "State": {"Status": "created"},
            "Config": config,
            "HostConfig": dict(body["HostConfig"]),
        }
        return made

    def _find(self, name: str) -> dict[str, Any]:
        if name not in self.containers:
            raise RefusedError(HTTPStatus.NOT_FOUND, f"no such container: {name}")
        return self.containers[name]

    async def get(self, path: str, kind: type, **query: str) -> Any:
        match path.strip("/").split("/"):
            case ["containers", "json"]:
                wanted = json.loads(query.get("filters", "{}")).get("label", [])
                answer: Any = [
                    {"Id": each["Id"], "Names": [each["Name"]]}
                    for each in self.containers.values()
                    if (query.get("all") or each["State"]["Status"] == "running")
                    and all(
                        each["Config"]["Labels"].get(label.split("=")[0]) == label.split("=")[1]
                        for label in wanted
                    )
                ]
            case ["containers", name, "json"]:
                answer = self._find(name)
            case ["containers", _, "stats"] | ["images", _, "json"]:
                answer = {}
            case ["info"]:
                answer = {"MemTotal": 1 << 34}
            case _:
                raise AssertionError(path)
        return msgspec.convert(answer, kind)

    async def post(self, path: str, body: Any = None, *, takes_seconds: float = 0.0, name: str = "") -> bytes:  # noqa: ARG002 - as an engine
        match path.strip("/").split("/"):
            case ["containers", "create"]:
                return json.dumps({"Id": self._create(name, body)}).encode()
            case ["containers", found, "start"]:
                there = self._find(found)
                is_sick = there["Name"].strip("/") in self.sick
                there["State"] = {
                    "Status": "running",
                    "Health": {"Status": "unhealthy" if is_sick else "healthy"},
                }
            case ["containers", found, "stop"]:
                self._find(found)["State"] = {"Status": "exited"}
            case ["containers", found, "update"]:
                self._find(found)["HostConfig"] |= body
            case _:
                raise AssertionError(path)
        return b""

    async def delete(self, path: str, **_query: str) -> None:
        found = path.rsplit("/", 1)[-1]
        self._find(found)
        del self.containers[found]


class Hosts:
    """Two hosts in memory."""

    nodes = ("alpha", "beta")
    keeps_promises = False
    poll_seconds = 0.0

    def __init__(self) -> None:
        self.engines = {name: Dockerd() for name in self.nodes}

    def run(self, name: str, *, status: str) -> str:
        return self.engines["alpha"].run(name, status=status)

    def driver(self, fuse: Fuse) -> Driver:
        return DockerHosts(dying_engines(self.engines, fuse), SETTINGS)

    def containers(self, node: str) -> Iterator[DockerContainer]:
        for each in self.engines[node].containers.values():
            yield msgspec.convert(each, DockerContainer)

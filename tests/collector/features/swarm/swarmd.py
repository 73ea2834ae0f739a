"""A Swarm in memory: it restarts tasks by constraints and numbers as the real one does, but at once."""

import itertools
import json
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any, cast

import msgspec

from collector.act.drivers.engine.client import Engine
from collector.act.drivers.engine.containers import DockerContainer
from collector.act.drivers.interface import Driver, RefusedError
from collector.common.labels import DRAINED_LABEL, OFF_LABEL
from collector.config import DriverConfig
from collector.features.swarm.client import Manager
from collector.features.swarm.driver import Swarm
from collector.features.swarm.specs import constraints_of, cpu_limit_of, replicas_of
from tests.collector.act.drivers.interrupted import DyingEngine, Fuse, dying_engines
from tests.collector.builders import altered
from tests.collector.features.docker.dockerd import Dockerd

_FULL = "no suitable node (scheduling constraints not satisfied)"
Json = dict[str, Any]


class Swarmd:
    """Three nodes, a manager and one service of one core per task."""

    nodes = ("alpha", "beta", "gamma")
    keeps_promises = False
    poll_seconds = 0.0

    def __init__(self, folder: Path, replicas: int = 1) -> None:
        self._numbers = itertools.count(1)
        self.hosts = {name: Dockerd() for name in self.nodes}
        self.sick: set[str] = set()
        """Nodes on which tasks fail."""
        self.tasks: list[Json] = []
        self.node_specs: dict[str, Json] = {name: {"Availability": "active"} for name in self.nodes}
        self.version = 1
        self.reads_per_update = 0
        """How often the service must be read until an update with constraints takes effect."""
        self._reads_left = 0
        self.spec: Json = {
            "Name": "web",
            "Labels": {"wattpack.move": "allowed"},
            "Mode": {"Replicated": {"Replicas": replicas}},
            "TaskTemplate": {
                "ContainerSpec": {"StopGracePeriod": 1},
                "Resources": {"Limits": {"NanoCPUs": 10**9}},
            },
        }
        self._folder = folder
        self._reconcile()

    def create(self, spec: Json) -> None:
        """Replace the service by a new one."""
        for each in self._wanted():
            self._end(each)
        self.spec = spec
        self._reconcile()

    # --- Swarm --------------------------------------------------------------------------------------

    def switch_off(self, node: str) -> None:
        """Switch a node off, as a collector does."""
        Path(self._folder, node).touch()
        labels = {DRAINED_LABEL: "active", OFF_LABEL: "true"}
        self.node_specs[node] = {"Availability": "drain", "Labels": labels}

    def is_off(self, node: str) -> bool:
        return Path(self._folder, node).exists()

    def runs(self) -> dict[str, list[str]]:
        """Return the containers that run, by node."""
        found: dict[str, list[str]] = {}
        for each in self._wanted():
            if each["Status"]["State"] == "running":
                found.setdefault(_name(each["NodeID"]), []).append(_container(each))
        return found

    def _wanted(self) -> list[Json]:
        return [each for each in self.tasks if each["DesiredState"] == "running"]

    def _open(self) -> list[str]:
        constraints = [each.partition("node.id")[2] for each in constraints_of(self.spec)]
        found = [
            name
            for name in self.nodes
            if self.node_specs[name]["Availability"] == "active"
            and all(
                (each[2:] == f"id-{name}") if each.startswith("==") else each[2:] != f"id-{name}"
                for each in constraints
            )
        ]
        count = [_name(each["NodeID"]) for each in self._wanted()]
        return sorted(found, key=count.count)

    def _reconcile(self) -> None:
        wanted, nano = replicas_of(self.spec) or 0, cpu_limit_of(self.spec)
        for each in self._wanted():
            node = _name(each["NodeID"])
            if not node or node not in self._open() or each["nano"] != nano:
                self._end(each)
        while len(self._wanted()) > wanted:
            self._end(self._wanted()[-1])
        used = {each["Slot"] for each in self._wanted()}
        free = (slot for slot in itertools.count(1) if slot not in used)
        for slot in itertools.islice(free, wanted - len(used)):
            self._start(slot, nano)

    def _start(self, slot: int, nano: int) -> None:
        where = next((each for each in self._open()), "")
        number = next(self._numbers)
        state = "pending" if not where else "failed" if where in self.sick else "running"
        task: Json = {
            "ID": f"t{number}",
            "ServiceID": "s",
            "NodeID": f"id-{where}" if where else "",
            "Slot": slot,
            "DesiredState": "running" if state != "failed" else "shutdown",
            "Status": {"State": state, "Err": "" if where else _FULL, "ContainerStatus": {}},
            "Spec": {"Resources": {"Limits": {"NanoCPUs": nano}}},
            "nano": nano,
        }
        if state == "running":
            made = self.hosts[where].run(f"web.{slot}.t{number}")
            self.hosts[where].containers[made]["HostConfig"]["NanoCpus"] = nano
            self.hosts[where].containers[made]["Config"]["Labels"]["com.docker.swarm.service.name"] = "web"
            task["Status"]["ContainerStatus"] = {"ContainerID": made}
        self.tasks.append(task)

    def _end(self, task: Json) -> None:
        task["DesiredState"], task["Status"]["State"] = "shutdown", "shutdown"
        if _container(task):
            self.hosts[_name(task["NodeID"])].containers.pop(_container(task), None)

    # --- The manager --------------------------------------------------------------------------------

    async def get(self, path: str, kind: Any, **query: str) -> Any:
        match path.strip("/").split("/"):
            case ["nodes"]:
                answer: Any = [self._node(name) for name in self.nodes]
            case ["nodes", node]:
                answer = self._node(_name(node))
            case ["services"]:
                answer = [self._service()]
            case ["services", _]:
                answer = self._service()
            case ["tasks"]:
                keys = {"desired-state": "DesiredState", "service": "ServiceID", "node": "NodeID"}
                filters = json.loads(query.get("filters", "{}")).items()
                answer = [
                    task for task in self.tasks if all(task[keys[by]] in values for by, values in filters)
                ]
            case _:
                raise AssertionError(path)
        return msgspec.convert(json.loads(json.dumps(answer)), kind)

    async def post(self, path: str, body: Json, *, version: int) -> bytes:
        if version != self.version:
            raise RefusedError(HTTPStatus.INTERNAL_SERVER_ERROR, "update out of sequence")
        self.version += 1
        match path.strip("/").split("/"):
            case ["services", _, "update"]:
                self.spec = body
                self._reads_left = self.reads_per_update if constraints_of(body) else 0
            case ["nodes", node, "update"]:
                self.node_specs[_name(node)] = body
        if not self._reads_left:
            self._reconcile()
        return b""

    def _service(self) -> Json:
        service: Json = {"ID": "s", "Version": {"Index": self.version}, "Spec": self.spec}
        if self._reads_left:
            service["UpdateStatus"] = {"State": "updating"}
            self._reads_left -= 1
            if not self._reads_left:
                self._reconcile()
        return service

    def _node(self, name: str) -> Json:
        return {
            "ID": f"id-{name}",
            "Version": {"Index": self.version},
            "Spec": self.node_specs[name],
            "Description": {"Hostname": name},
            "Status": {"State": "down" if self.is_off(name) else "ready"},
        }

    # --- As a world ---------------------------------------------------------------------------------

    def driver(self, fuse: Fuse) -> Driver:
        settings = DriverConfig(
            name="swarm",
            stable_seconds=0.0,
            healthy_seconds=0.5,
            power_seconds=1.0,
            power_off_command=f"sh -c 'touch {self._folder}/$1'",
            power_on_command=f"sh -c 'rm -f {self._folder}/$1'",
        )
        manager = Manager(cast("Engine", DyingEngine(cast("Engine", self), fuse)))
        return Swarm(manager, dying_engines(self.hosts, fuse), altered(settings, request_seconds=0.5))

    def containers(self, node: str) -> Iterator[DockerContainer]:
        for each in self.hosts[node].containers.values():
            yield msgspec.convert(each, DockerContainer)


def _name(node: str) -> str:
    return node.removeprefix("id-")


def _container(task: Json) -> str:
    return str(task["Status"]["ContainerStatus"].get("ContainerID", ""))

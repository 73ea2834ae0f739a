"""Responses of a manager about nodes, services and tasks. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import msgspec

from collector.act.drivers.engine.client import Json
from collector.act.drivers.interface import MAX_STOP_SECONDS, DriverError
from collector.features.swarm.specs import Order, ParkedTask, only_on

_NANOSECONDS = 1e9
_STOP_NANOSECONDS = 10e9
"""Default of Swarm."""
_UPDATING = frozenset({"updating", "rollback_started"})
FAILED_UPDATES = frozenset({"paused", "rollback_started", "rollback_paused", "rollback_completed"})
"""States of an update that Swarm does not complete."""
_NOT_STARTED = frozenset({"new", "pending", "assigned", "accepted", "preparing", "ready", "starting"})
ENDED = frozenset({"complete", "shutdown", "failed", "rejected", "orphaned", "remove"})
"""States of a task that has ended."""


class Version(msgspec.Struct, rename="pascal", frozen=True):
    """The version of an object, which an update must name."""

    index: int = 0


class TasksBefore(msgspec.Struct, frozen=True):
    """A task and its service before an action, by their ids."""

    service: str
    tasks: tuple[str, ...]
    """All tasks of the service that should run."""
    task: str = ""
    """The task that moves, stops or starts; empty for a parked replica."""
    slot: int = 0


class _Description(msgspec.Struct, rename="pascal", frozen=True):
    hostname: str = ""


class _NodeStatus(msgspec.Struct, rename="pascal", frozen=True):
    state: str = "unknown"


class _SwarmObject(msgspec.Struct, rename="pascal", frozen=True):
    """An object that has a spec, which an update replaces."""

    id: str = msgspec.field(name="ID")
    version: Version = Version()
    spec: Json = {}


class SwarmNode(_SwarmObject, rename="pascal", frozen=True):
    """A node in the response to `GET /nodes`."""

    description: _Description = _Description()
    status: _NodeStatus = _NodeStatus()

    @property
    def name(self) -> str:
        return self.description.hostname or self.id

    @property
    def ready(self) -> bool:
        return self.status.state == "ready"

    @property
    def active(self) -> bool:
        return str(self.spec.get("Availability", "active")) == "active"

    @property
    def labels(self) -> Mapping[str, str]:
        return self.spec.get("Labels") or {}

    @property
    def is_manager(self) -> bool:
        return self.spec.get("Role") == "manager"


class _UpdateStatus(msgspec.Struct, rename="pascal", frozen=True):
    state: str = ""
    message: str = ""


class SwarmService(_SwarmObject, rename="pascal", frozen=True):
    """A service in the response to `GET /services`."""

    update_status: _UpdateStatus | None = None

    @property
    def name(self) -> str:
        return str(self.spec.get("Name") or self.id)

    @property
    def update(self) -> _UpdateStatus:
        return self.update_status or _UpdateStatus()

    @property
    def is_updating(self) -> bool:
        return self.update.state in _UPDATING

    @property
    def container(self) -> Json:
        """The part of the spec about the containers of its tasks."""
        return (self.spec.get("TaskTemplate") or {}).get("ContainerSpec") or {}

    @property
    def stop_seconds(self) -> float:
        written = float(self.container.get("StopGracePeriod") or _STOP_NANOSECONDS) / _NANOSECONDS
        return min(written, MAX_STOP_SECONDS)

    @property
    def update_order(self) -> Order:
        return Order.STOP if any(self.local_data(writable_only=True)) else Order.START

    def local_data(self, *, writable_only: bool) -> Iterator[str]:
        """Return the data of its tasks that is on one node: bind mounts and local volumes."""
        mounts: Iterable[Json] = self.container.get("Mounts") or ()
        for mount in mounts:
            if writable_only and mount.get("ReadOnly"):
                continue
            driver = ((mount.get("VolumeOptions") or {}).get("DriverConfig") or {}).get("Name")
            match mount.get("Type", "volume"):
                case "bind":
                    yield f"the directory {mount.get('Source')}"
                case "volume" if driver in {None, "", "local"}:
                    yield f"the local volume {mount.get('Source') or mount.get('Target')}"


class _ContainerStatus(msgspec.Struct, frozen=True):
    container_id: str = msgspec.field(name="ContainerID", default="")


class _TaskStatus(msgspec.Struct, rename="pascal", frozen=True):
    timestamp: datetime | None = None
    """When it got this state."""
    state: str = ""
    err: str = ""
    container_status: _ContainerStatus | None = None


class _Limits(msgspec.Struct, frozen=True):
    nano_cpus: int = msgspec.field(name="NanoCPUs", default=0)


class _Resources(msgspec.Struct, rename="pascal", frozen=True):
    limits: _Limits | None = None


class _TaskSpec(msgspec.Struct, rename="pascal", frozen=True):
    resources: _Resources | None = None


class SwarmTask(msgspec.Struct, rename="pascal", frozen=True):
    """A task in the response to `GET /tasks`."""

    id: str = msgspec.field(name="ID")
    service_id: str = msgspec.field(name="ServiceID", default="")
    node_id: str = msgspec.field(name="NodeID", default="")
    slot: int = 0
    """0 for a task of a global service."""
    created_at: datetime | None = None
    desired_state: str = ""
    status: _TaskStatus = _TaskStatus()
    spec: _TaskSpec | None = None

    @property
    def nano_cpus(self) -> int:
        """Its CPU limit; 0 without one."""
        resources = None if self.spec is None else self.spec.resources
        return resources.limits.nano_cpus if resources is not None and resources.limits is not None else 0

    @property
    def container(self) -> str:
        return self.status.container_status.container_id if self.status.container_status else ""

    @property
    def wanted(self) -> bool:
        return self.desired_state == "running"

    @property
    def runs(self) -> bool:
        """Whether it runs and is healthy; Swarm reports `starting` until then."""
        return self.status.state == "running"

    @property
    def waits(self) -> bool:
        """Whether it should run, and has no container yet."""
        return self.wanted and self.status.state in _NOT_STARTED and not self.container

    @property
    def has_no_place(self) -> bool:
        """Whether it fits on no node: not enough room, or a port in use."""
        return self.status.state == "pending" and self.status.err.startswith("no suitable node")


@dataclass(frozen=True)
class SwarmState:
    """The state of a Swarm at one time. It contains the service and the node of every task."""

    nodes: tuple[SwarmNode, ...]
    services: tuple[SwarmService, ...]
    tasks: tuple[SwarmTask, ...]

    @classmethod
    def of(
        cls, nodes: tuple[SwarmNode, ...], services: tuple[SwarmService, ...], tasks: tuple[SwarmTask, ...]
    ) -> "SwarmState":
        """Combine three responses; leave out tasks whose service or node is missing."""
        service_ids = {service.id for service in services}
        node_ids = {"", *(node.id for node in nodes)}
        return cls(
            nodes,
            services,
            tuple(task for task in tasks if task.service_id in service_ids and task.node_id in node_ids),
        )

    @cached_property
    def service_of(self) -> Mapping[str, SwarmService]:
        return {service.id: service for service in self.services}

    @cached_property
    def node_of(self) -> Mapping[str, SwarmNode]:
        return {node.id: node for node in self.nodes}

    def node(self, name: str) -> SwarmNode:
        """Return the node of a host name. Raise `DriverError` if there is none, or several."""
        return node_named(name, self.nodes)

    def service(self, name: str) -> SwarmService:
        """Return the service of a name. Raise `DriverError` if there is none."""
        service = next((each for each in self.services if each.name == name), None)
        if service is None:
            raise DriverError(f"there is no service {name} in the Swarm")
        return service

    def accepting_node(self, name: str) -> SwarmNode:
        """Return the node of a host name. Raise `DriverError` if it accepts no tasks."""
        node = self.node(name)
        if not (node.ready and node.active):
            raise DriverError(f"{name} accepts no tasks: the node is down, paused or drained")
        return node

    def only_on(self, service: SwarmService, chosen: Iterable[str], *, leaving: str = "") -> list[str]:
        """Return constraints that leave new tasks of a service only the chosen nodes, and stop no other task.

        Closing a node would stop the tasks on it: those on the node `leaving` are to stop.
        """
        used = {task.node_id for task in self.wanted_tasks(service)} - {"", leaving}
        return only_on({*used, *chosen}, (node.id for node in self.nodes))

    def wanted_tasks(self, service: SwarmService) -> list[SwarmTask]:
        return [each for each in self.tasks if each.wanted and each.service_id == service.id]

    def task(self, container: str, node: str) -> SwarmTask | None:
        """Return the task of a container that runs on a node; None if it has left."""
        tasks = (task for task in self.tasks if task.wanted and task.container == container)
        return next((task for task in tasks if self.node_of[task.node_id].name == node), None)


def node_named(name: str, nodes: Iterable[SwarmNode]) -> SwarmNode:
    """Return the node of a host name, which need not be unique in a Swarm."""
    match [node for node in nodes if node.name == name]:
        case [node]:
            return node
        case []:
            raise DriverError(f"there is no node {name} in the Swarm")
        case _:
            raise DriverError(f"several nodes of the Swarm are called {name}: give each host its own name")


def parked_id(service: SwarmService, task: ParkedTask) -> str:
    """Return the id of a parked replica."""
    return f"{service.id}.{task.slot}"

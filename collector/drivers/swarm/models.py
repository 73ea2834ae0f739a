"""Responses of a manager about nodes, services and tasks. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import msgspec

from collector.common.labels import ALLOWED, MOVE_LABEL, NEVER, NO_MOVE_LABEL
from collector.drivers.docker.client import Json
from collector.drivers.interface import (
    MOST_STOP_SECONDS,
    DriverError,
    Mode,
    NodeView,
    OrchestratorState,
    PendingView,
    ServiceView,
    TaskView,
)
from collector.drivers.swarm.specs import (
    NO_NODE,
    ParkedTask,
    as_written,
    constraints_of,
    groups_of,
    parked_tasks,
    stopped_replicas,
)
from wire.resources import Quantities

_UNSET = Quantities()
_NANOCPUS = 1e9
_NANOSECONDS = 1e9
_STOP_NANOSECONDS = 10e9
"""Default of Swarm."""
_PIN = re.compile(r"^\s*node\.(?:hostname|id|ip)\s*==\s*(?P<value>.*?)\s*$")
_UPDATING = frozenset({"updating", "rollback_started"})
FAILED_UPDATES = frozenset({"paused", "rollback_started", "rollback_paused", "rollback_completed"})
"""States of an update that Swarm does not complete."""
_NOT_STARTED = frozenset({"new", "pending", "assigned", "accepted", "preparing", "ready", "starting"})
ENDED = frozenset({"complete", "shutdown", "failed", "rejected", "orphaned", "remove"})
"""States of a task that has ended."""


class Version(msgspec.Struct, rename="pascal", frozen=True):
    """The version of an object, which an update must name."""

    index: int = 0


class _Description(msgspec.Struct, rename="pascal", frozen=True):
    hostname: str = ""


class _NodeStatus(msgspec.Struct, rename="pascal", frozen=True):
    state: str = "unknown"


class SwarmNode(msgspec.Struct, rename="pascal", frozen=True):
    """One of `GET /nodes`."""

    id: str = msgspec.field(name="ID")
    version: Version = Version()
    spec: Json = {}
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


class SwarmService(msgspec.Struct, rename="pascal", frozen=True):
    """One of `GET /services`."""

    id: str = msgspec.field(name="ID")
    version: Version = Version()
    spec: Json = {}
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


class _ContainerStatus(msgspec.Struct, frozen=True):
    container_id: str = msgspec.field(name="ContainerID", default="")


class _TaskStatus(msgspec.Struct, rename="pascal", frozen=True):
    timestamp: datetime | None = None
    """When it got this state."""
    state: str = ""
    message: str = ""
    err: str = ""
    container_status: _ContainerStatus | None = None


class _Limits(msgspec.Struct, frozen=True):
    nano_cpus: int = msgspec.field(name="NanoCPUs", default=0)


class _Resources(msgspec.Struct, rename="pascal", frozen=True):
    limits: _Limits | None = None


class _TaskSpec(msgspec.Struct, rename="pascal", frozen=True):
    resources: _Resources | None = None


class SwarmTask(msgspec.Struct, rename="pascal", frozen=True):
    """One of `GET /tasks`."""

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
        """Return the node of a host name, which need not be unique in a Swarm."""
        match [node for node in self.nodes if node.name == name]:
            case [node]:
                return node
            case []:
                raise DriverError(f"there is no node {name} in the Swarm")
            case _:
                raise DriverError(
                    f"several nodes of the Swarm are called {name}: give each host its own name"
                )

    def task(self, container: str) -> SwarmTask | None:
        return next((task for task in self.tasks if task.wanted and task.container == container), None)

    def view(self) -> OrchestratorState:
        """Convert it to the common state."""
        names = {node.id: node.name for node in self.nodes}
        services = {service.id: service_view(service) for service in self.services}
        return OrchestratorState(
            nodes=tuple(
                NodeView(
                    name=node.name,
                    ready=node.ready,
                    accepts=node.active,
                    labels=node.labels,
                    is_manager=node.is_manager,
                )
                for node in self.nodes
            ),
            services=tuple(services.values()),
            tasks=tuple(
                TaskView(
                    container=task.container,
                    service=services[task.service_id].name,
                    node=names[task.node_id],
                    state=task.status.state,
                    task=task.id,
                    slot=_slot(task, names),
                    created_at=_unix_seconds(task.created_at),
                    running_since=_unix_seconds(task.status.timestamp) if task.runs else None,
                )
                for task in self.tasks
                if task.wanted and task.container and task.node_id
            ),
            pending=tuple(
                _pending_view(task, services[task.service_id], self.service_of[task.service_id], names)
                for task in self.tasks
                if task.waits
            )
            + tuple(
                _parked_view(service, task, services[service.id])
                for service in self.services
                for task in parked_tasks(service.spec)
                if NO_NODE not in constraints_of(service.spec)
            ),
        )


def _pending_view(
    task: SwarmTask, service: ServiceView, written: SwarmService, names: Mapping[str, str]
) -> PendingView:
    return PendingView(
        id=task.id,
        service=service.name,
        slot=_slot(task, names),
        since=_unix_seconds(task.created_at),
        node=names[task.node_id] if task.node_id else None,
        requested=service.reserve if service.reserve != _UNSET else service.limit,
        constraints=service.constraints,
        spread=_spreads(written),
        labels=service.labels,
        reason=task.status.err or task.status.message,
        stopped_on=next((each.node or None for each in parked_tasks(written.spec)), None),
    )


def _parked_view(service: SwarmService, task: ParkedTask, view: ServiceView) -> PendingView:
    """Return a replica that the service lacks while it is parked: Swarm has no task for it."""
    return PendingView(
        id=parked_id(service, task),
        service=view.name,
        slot=str(task.slot),
        since=task.since,
        requested=view.reserve if view.reserve != _UNSET else view.limit,
        constraints=view.constraints,
        spread=_spreads(service),
        labels=view.labels,
        reason="it waits for its turn",
        stopped_on=task.node or None,
    )


def _spreads(service: SwarmService) -> bool:
    """Whether a node runs at most one of its tasks."""
    placement: Json = (service.spec.get("TaskTemplate") or {}).get("Placement") or {}
    return placement.get("MaxReplicas") == 1


def _slot(task: SwarmTask, names: Mapping[str, str]) -> str | None:
    """A global service has one task per node, and no numbers."""
    return str(task.slot) if task.slot else names.get(task.node_id)


def _unix_seconds(at: datetime | None) -> float | None:
    """The engine writes the year 1 for a time that is not set."""
    return None if at is None or at.year == 1 else at.timestamp()


def parked_id(service: SwarmService, task: ParkedTask) -> str:
    """Return the id of a replica that a service lacks while it is parked."""
    return f"{service.id}.{task.slot}"


def service_view(service: SwarmService) -> ServiceView:
    """Return a service as its user specified it."""
    spec = as_written(service.spec)
    template: Json = spec.get("TaskTemplate") or {}
    container: Json = template.get("ContainerSpec") or {}
    resources: Json = template.get("Resources") or {}
    labels: dict[str, str] = {**(container.get("Labels") or {}), **(spec.get("Labels") or {})}
    mode, replicas, is_job = _mode(spec.get("Mode") or {})
    stays = next(_reasons(spec, labels, mode, replicas, is_job=is_job), None)
    if stays is None and groups_of(service.spec):
        stays = "it is being deployed"
    stops_first = any(local_data(spec, writable_only=True))
    return ServiceView(
        name=service.name,
        mode=mode,
        replicas=replicas,
        reserve=_quantities(resources.get("Reservations") or {}),
        limit=_quantities(resources.get("Limits") or {}),
        constraints=tuple(constraints_of(spec)),
        image=str(container.get("Image", "")),
        labels=labels,
        stopped_replicas=stopped_replicas(spec),
        stays=stays,
        stops_to_move=stops_first,
        stops_to_resize=stops_first,
        is_updating=service.is_updating,
    )


def _reasons(
    spec: Json, labels: Mapping[str, str], mode: Mode, replicas: int, *, is_job: bool
) -> Iterator[str]:
    """Return why a service must not move, the strongest reason first."""
    label = labels.get(MOVE_LABEL)
    if label == NEVER:
        yield f"its label {MOVE_LABEL} is {NEVER}"
    if is_job:
        yield "it is a job, which would start over"
    if mode is Mode.GLOBAL:
        yield "it runs on every node"
    for constraint in constraints_of(spec):
        if pin := _PIN.match(constraint):
            yield f"its constraint pins it to {pin['value']}"
    if label == ALLOWED:
        return
    for place in local_data(spec, writable_only=False):
        yield f"it uses {place}, which stays behind {NO_MOVE_LABEL}"
    if replicas <= 1:
        yield f"it has one replica {NO_MOVE_LABEL}"


def local_data(spec: Json, *, writable_only: bool) -> Iterator[str]:
    """Return the data of a service that is on one node: bind mounts and local volumes."""
    container: Json = (spec.get("TaskTemplate") or {}).get("ContainerSpec") or {}
    mounts: Iterable[Json] = container.get("Mounts") or ()
    for mount in mounts:
        if writable_only and mount.get("ReadOnly"):
            continue
        driver = ((mount.get("VolumeOptions") or {}).get("DriverConfig") or {}).get("Name")
        match mount.get("Type", "volume"):
            case "bind":
                yield f"the directory {mount.get('Source')}"
            case "volume" if driver in {None, "", "local"}:
                yield f"the local volume {mount.get('Source') or mount.get('Target')}"


def stop_seconds(spec: Json) -> float:
    """Return how long a task of a service may take to stop."""
    container: Json = (spec.get("TaskTemplate") or {}).get("ContainerSpec") or {}
    written = float(container.get("StopGracePeriod") or _STOP_NANOSECONDS) / _NANOSECONDS
    return min(written, MOST_STOP_SECONDS)


def _mode(mode: Json) -> tuple[Mode, int, bool]:
    if "Global" in mode or "GlobalJob" in mode:
        return Mode.GLOBAL, 1, "GlobalJob" in mode
    if "ReplicatedJob" in mode:
        return Mode.REPLICATED, int((mode["ReplicatedJob"] or {}).get("MaxConcurrent") or 1), True
    return Mode.REPLICATED, int((mode.get("Replicated") or {}).get("Replicas", 1)), False


def _quantities(resources: Mapping[str, Any]) -> Quantities:
    cpus, memory = resources.get("NanoCPUs"), resources.get("MemoryBytes")
    return Quantities(cpus / _NANOCPUS if cpus else None, memory or None)

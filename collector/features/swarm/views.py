"""Nodes, services and tasks of a Swarm as the common state of an orchestrator. Pure."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from collector.common.labels import ALLOWED, MOVE_LABEL, NEVER, NO_MOVE_LABEL
from collector.common.orchestrator import Mode, NodeView, OrchestratorState, ServiceView, TaskView
from collector.drivers.engine.client import Json
from collector.features.swarm.models import SwarmService, SwarmState, SwarmTask, local_data, parked_id
from collector.features.swarm.specs import (
    NANOCPUS,
    NO_NODE,
    ParkedTask,
    constraints_of,
    groups_of,
    parked_tasks,
    stopped_replicas,
    user_spec,
)
from wire.resources import Quantities

_PIN = re.compile(r"^\s*node\.(?:hostname|id|ip)\s*==\s*(?P<value>.*?)\s*$")


def view_of(state: SwarmState) -> OrchestratorState:
    """Convert the state of a Swarm to the common state."""
    names = {node.id: node.name for node in state.nodes}
    services = {service.id: service_view(service) for service in state.services}
    return OrchestratorState(
        nodes=tuple(
            NodeView(
                name=node.name,
                ready=node.ready,
                accepts=node.active,
                labels=node.labels,
                is_manager=node.is_manager,
            )
            for node in state.nodes
        ),
        services=tuple(services.values()),
        tasks=tuple(
            TaskView(
                container=task.container,
                service=services[task.service_id].name,
                node=names[task.node_id],
                state=task.status.state,
                id=task.id,
                slot=_slot(task, names),
                created_at=_unix_seconds(task.created_at),
                running_since=_unix_seconds(task.status.timestamp) if task.runs else None,
            )
            for task in state.tasks
            if task.wanted and task.container and task.node_id
        ),
        pending=(
            *(
                TaskView(
                    id=task.id,
                    service=services[task.service_id].name,
                    node=names.get(task.node_id, ""),
                    state=task.status.state,
                    slot=_slot(task, names),
                    created_at=_unix_seconds(task.created_at),
                    stopped_on=_stopped_on(state.service_of[task.service_id]),
                )
                for task in state.tasks
                if task.waits
            ),
            *(
                _parked_view(service, task)
                for service in state.services
                for task in parked_tasks(service.spec)
                if NO_NODE not in constraints_of(service.spec)
            ),
        ),
    )


def _stopped_on(service: SwarmService) -> str | None:
    return next((each.node or None for each in parked_tasks(service.spec)), None)


def _parked_view(service: SwarmService, task: ParkedTask) -> TaskView:
    """Return a parked replica, for which Swarm has no task."""
    return TaskView(
        id=parked_id(service, task),
        service=service.name,
        state="pending",
        slot=str(task.slot),
        created_at=task.since,
        stopped_on=task.node or None,
    )


def _slot(task: SwarmTask, names: Mapping[str, str]) -> str | None:
    """Return the number of a task; of a global service, which has one task per node, the name of its node."""
    return str(task.slot) if task.slot else names.get(task.node_id)


def _unix_seconds(at: datetime | None) -> float | None:
    """Return a Unix time; None if it is not set, for which the engine writes the year 1."""
    return None if at is None or at.year == 1 else at.timestamp()


def service_view(service: SwarmService) -> ServiceView:
    """Return a service as its user specified it."""
    spec = user_spec(service.spec)
    template: Json = spec.get("TaskTemplate") or {}
    container: Json = template.get("ContainerSpec") or {}
    resources: Json = template.get("Resources") or {}
    labels: dict[str, str] = {**(container.get("Labels") or {}), **(spec.get("Labels") or {})}
    mode, replicas, is_job = _mode(spec.get("Mode") or {})
    stays = next(_reasons_to_stay(spec, labels, mode, replicas, is_job=is_job), None)
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
        spread=(template.get("Placement") or {}).get("MaxReplicas") == 1,
        image=str(container.get("Image", "")),
        labels=labels,
        stopped_replicas=stopped_replicas(spec),
        stays=stays,
        stops_to_move=stops_first,
        stops_to_resize=stops_first,
        is_updating=service.is_updating,
    )


def _reasons_to_stay(
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


def _mode(mode: Json) -> tuple[Mode, int, bool]:
    if "Global" in mode or "GlobalJob" in mode:
        return Mode.GLOBAL, 1, "GlobalJob" in mode
    if "ReplicatedJob" in mode:
        return Mode.REPLICATED, int((mode["ReplicatedJob"] or {}).get("MaxConcurrent") or 1), True
    return Mode.REPLICATED, int((mode.get("Replicated") or {}).get("Replicas", 1)), False


def _quantities(resources: Mapping[str, Any]) -> Quantities:
    cpus, memory = resources.get("NanoCPUs"), resources.get("MemoryBytes")
    return Quantities(cpus / NANOCPUS if cpus else None, memory or None)

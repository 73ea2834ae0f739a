"""Nodes, services and tasks of a Swarm as the common state of an orchestrator. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from collector.act.drivers.engine.client import Json
from collector.common.labels import ALLOWED, MOVE_LABEL, NEVER, NO_MOVE_LABEL
from collector.common.orchestrator import Mode, NodeView, OrchestratorState, ServiceView, TaskView
from collector.decide.policies.actions import describe_amounts
from collector.features.swarm.models import SwarmService, SwarmState, SwarmTask, parked_id
from collector.features.swarm.specs import (
    NANOCPUS,
    NO_NODE,
    Order,
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
    names = {"": "", **{node.id: node.name for node in state.nodes}}
    services = {service.id: service_view(service) for service in state.services}
    parked = {service.id: parked_tasks(service.spec) for service in state.services}
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
            _task_view(task, services[task.service_id].name, names[task.node_id])
            for task in state.tasks
            if task.wanted and task.container and task.node_id
        ),
        pending=(
            *(
                _task_view(
                    task,
                    services[task.service_id].name,
                    names[task.node_id],
                    next((each.node or None for each in parked[task.service_id]), None),
                )
                for task in state.tasks
                if task.waits
            ),
            *(
                TaskView(
                    id=parked_id(service, task),  # Swarm has no task for it
                    service=service.name,
                    state="pending",
                    slot=str(task.slot),
                    created_at=task.since,
                    stopped_on=task.node or None,
                )
                for service in state.services
                for task in parked[service.id]
                if NO_NODE not in constraints_of(service.spec)
            ),
        ),
    )


def _task_view(task: SwarmTask, service: str, node: str, stopped_on: str | None = None) -> TaskView:
    return TaskView(
        id=task.id,
        container=task.container,
        service=service,
        node=node,
        state=task.status.state,
        # A global service has one task per node.
        slot=str(task.slot) if task.slot else node or None,
        created_at=_unix_seconds(task.created_at),
        running_since=_unix_seconds(task.status.timestamp) if task.runs else None,
        stopped_on=stopped_on,
    )


def _unix_seconds(at: datetime | None) -> float | None:
    """Return a Unix time; None if it is not set, for which the engine writes the year 1."""
    return None if at is None or at.year == 1 else at.timestamp()


def service_view(service: SwarmService) -> ServiceView:
    """Return a service as its user specified it."""
    spec = user_spec(service.spec)
    template: Json = spec.get("TaskTemplate") or {}
    resources: Json = template.get("Resources") or {}
    mode: Json = spec.get("Mode") or {}
    most: int = (mode.get("ReplicatedJob") or {}).get("MaxConcurrent") or 1
    reserve = _quantities(resources.get("Reservations") or {})
    stops_first = service.update_order is Order.STOP
    view = ServiceView(
        name=service.name,
        mode=Mode.GLOBAL if {"Global", "GlobalJob"} & mode.keys() else Mode.REPLICATED,
        replicas=int((mode.get("Replicated") or {}).get("Replicas", most)),
        reserve=reserve,
        limit=_quantities(resources.get("Limits") or {}),
        constraints=tuple(constraints_of(spec)),
        spread=(template.get("Placement") or {}).get("MaxReplicas") == 1,
        image=str(service.container.get("Image", "")),
        labels={**(service.container.get("Labels") or {}), **(spec.get("Labels") or {})},
        stopped_replicas=stopped_replicas(spec),
        uncut=_uncut(reserve),
        stops_to_move=stops_first,
        stops_to_resize=stops_first,
        is_updating=service.is_updating,
    )
    return replace(view, stays=next(_reasons_to_stay(service, view), None))


def _reasons_to_stay(service: SwarmService, view: ServiceView) -> Iterator[str]:
    """Return why a service must not move, the strongest reason first."""
    label = view.labels.get(MOVE_LABEL)
    if label == NEVER:
        yield f"its label {MOVE_LABEL} is {NEVER}"
    if any(kind.endswith("Job") for kind in service.spec.get("Mode") or ()):
        yield "it is a job, which would start over"
    if view.mode is Mode.GLOBAL:
        yield "it runs on every node"
    for constraint in view.constraints:
        if pin := _PIN.match(constraint):
            yield f"its constraint pins it to {pin['value']}"
    if label != ALLOWED:
        for place in service.local_data(writable_only=False):
            yield f"it uses {place}, which stays behind {NO_MOVE_LABEL}"
        if view.replicas <= 1:
            yield f"it has one replica {NO_MOVE_LABEL}"
    if groups_of(service.spec):
        yield "it is being deployed"


def _uncut(reserve: Quantities) -> str | None:
    """Return why a cut of a container frees nothing: Swarm counts what its service reserves.

    Another reservation of the service would count, but would restart all of its tasks.
    """
    if reserve == Quantities():
        return None
    return f"Swarm keeps its reservation of {describe_amounts(reserve)}, whatever its limits are"


def _quantities(resources: Mapping[str, Any]) -> Quantities:
    cpus, memory = resources.get("NanoCPUs"), resources.get("MemoryBytes")
    return Quantities(cpus / NANOCPUS if cpus else None, memory or None)

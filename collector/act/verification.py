"""Whether an action took effect, by the agents' reports."""

from collections.abc import Mapping, Sequence

import numpy as np

from collector.act.records import AnsweredAlert, Load, Step
from collector.common.liveness import Liveness
from collector.common.orchestrator import OrchestratorState
from collector.decide.policies.actions import (
    Action,
    Cut,
    Kill,
    Move,
    PowerOff,
    PowerOn,
    Relocation,
    Resize,
    Scale,
    ServiceAction,
    Start,
)
from collector.snapshot.tables import NOWHERE, Snapshot
from wire.resources import RESOURCES, Quantities

_TOLERANCE_RATIO = 0.02
"""Limits are rounded to whole microseconds and pages."""


def target_of(action: Action) -> str:
    """Return the node that a container moves to; empty if there is none."""
    return action.target or "" if isinstance(action, Relocation) else ""


def containers_of(snapshot: Snapshot, service: str | None, node: str) -> frozenset[str]:
    """Return the containers of a service on a node."""
    row, on = snapshot.services.index.get(service or "", NOWHERE), snapshot.nodes.index.get(node, NOWHERE)
    if NOWHERE in {row, on}:
        return frozenset()
    rows = snapshot.tasks_of(row)
    return frozenset(snapshot.tasks.ids[task] for task in rows[snapshot.tasks.node[rows] == on])


def find_effect(step: Step, snapshot: Snapshot, limits: Mapping[str, Quantities]) -> frozenset[str] | None:
    """Return the containers that show the effect of a step in the agents' reports; None if none do yet.

    `limits` are the current limits of the containers whose limits the step changes.
    """
    match step.action:
        case Move() | Kill() | Start() as action:
            return _relocation_effect(action, step, snapshot)
        case Cut(task=task, allocated=allocated):
            return _if_limited((task,), allocated, limits)
        case Resize(cpu_limit_cores=cores):
            return _if_limited(step.containers, Quantities(cores), limits)
        case Scale():
            surplus = set(step.there_before).difference(step.containers)
            runs = [_runs(snapshot, each) for each in step.containers]
            is_scaled = all(runs) and not any(_runs(snapshot, each) for each in surplus)
            return frozenset(step.containers) if is_scaled else None
        case PowerOff(node=node):
            # A node that switches off may still report for a while: the command's success counts.
            return frozenset() if node in snapshot.nodes.index else None
        case PowerOn(node=node):
            row = snapshot.nodes.index.get(node, NOWHERE)
            is_up = row != NOWHERE and snapshot.nodes.liveness[row] == Liveness.UP
            return frozenset() if is_up else None


def _relocation_effect(action: Move | Kill | Start, step: Step, snapshot: Snapshot) -> frozenset[str] | None:
    if isinstance(action, Kill) and action.target is None:
        return None if _runs(snapshot, action.task) else frozenset()
    if not isinstance(action, Start) and _runs_on(snapshot, action.task, action.node):
        return None
    if step.containers:
        # If the driver names them, only these count, on whichever node they run: an orchestrator may choose
        # another node than the target, and a container without a service cannot be found otherwise.
        return frozenset(name for name in step.containers if _runs(snapshot, name)) or None
    return containers_of(snapshot, step.service, target_of(action)) - set(step.there_before) or None


def _if_limited(
    containers: Sequence[str], allocated: Quantities, limits: Mapping[str, Quantities]
) -> frozenset[str] | None:
    return (
        frozenset(containers) if all(_is_close(limits.get(each), allocated) for each in containers) else None
    )


def _runs(snapshot: Snapshot, container: str) -> bool:
    row = snapshot.tasks.index.get(container, NOWHERE)
    return row != NOWHERE and bool(snapshot.tasks.node[row] != NOWHERE)


def _runs_on(snapshot: Snapshot, container: str, node: str) -> bool:
    row, on = snapshot.tasks.index.get(container, NOWHERE), snapshot.nodes.index.get(node, NOWHERE)
    return NOWHERE not in {row, on} and int(snapshot.tasks.node[row]) == on


def _is_close(limit: Quantities | None, allocated: Quantities) -> bool:
    if limit is None:
        return False
    for resource in RESOURCES[:2]:
        wanted, has = allocated.of(resource), limit.of(resource)
        if wanted is not None and (has is None or abs(has - wanted) > _TOLERANCE_RATIO * wanted):
            return False
    return True


def same_limit(one: float | None, other: float | None) -> bool:
    """Whether two CPU limits are the same, up to rounding."""
    return _is_close(Quantities(one), Quantities(other)) and (one is None) == (other is None)


def service_containers(action: ServiceAction, view: OrchestratorState) -> tuple[str, ...]:
    """Return the containers of the service that an action changes."""
    return tuple(sorted(each.container for each in view.tasks if each.service == action.service))


def load(snapshot: Snapshot, names: frozenset[str]) -> Load:
    """Measure the load of the affected nodes, and the power of all nodes."""
    nodes = snapshot.nodes
    rows = [nodes.index[name] for name in sorted(names) if name in nodes.index]
    watts = nodes.watts[nodes.on & (nodes.liveness != Liveness.DOWN)]
    highest = np.nan_to_num(nodes.used_ratio, nan=0.0).max(axis=1, initial=0.0)
    return Load(
        at=snapshot.at,
        watts=None if np.isnan(watts).all() else float(np.nansum(watts)),
        used_ratios={nodes.names[row]: round(float(highest[row]), 4) for row in rows},
        alerts=alerts(snapshot, names),
    )


def alerts(snapshot: Snapshot, names: frozenset[str] | None = None) -> tuple[AnsweredAlert, ...]:
    """Return the open bottlenecks of some nodes, or of all."""
    nodes = snapshot.nodes
    level = np.where(nodes.by_time, nodes.busy, nodes.used_ratio)
    return tuple(
        AnsweredAlert(
            node=nodes.names[row],
            resource=RESOURCES[column],
            by_time=bool(nodes.by_time[row, column]),
            level=known(level[row, column]),
            used_ratio=known(nodes.used_ratio[row, column]),
            excess_ratio=known(nodes.excess[row, column]),
        )
        for row, column in np.argwhere(nodes.bottleneck).tolist()
        if names is None or nodes.names[row] in names
    )


def known(number: float) -> float | None:
    """Return a number rounded for people; None if it is NaN."""
    return None if np.isnan(number) else round(float(number), 4)

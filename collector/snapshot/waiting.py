"""Waiting tasks: stopped to make room for others, and to be started again. No node reports them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from collector.snapshot.columns import Four, coalesce, concatenated, with_services
from collector.snapshot.constraints import Constraint, PlacementRules
from collector.snapshot.tables import NOWHERE, Services, Snapshot, TaskKind, Tasks
from wire.resources import RESOURCES


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingTask:
    """A task that waits for a node."""

    id: str
    name: str
    service: str | None
    requested: Four
    """The resources that it reserves when it starts; NaN where it reserves none."""
    task_class: int
    constraints: tuple[Constraint, ...] = ()
    spread: bool = False
    """Whether a node runs at most one instance of its service."""
    last_node: str | None = None
    """The node that it last ran on, which still has its image; None if it never ran."""


def with_waiting(snapshot: Snapshot, waiting: Sequence[WaitingTask]) -> Snapshot:
    """The same cluster with these tasks after all others; those that run again are left out."""
    new = [each for each in waiting if each.id not in snapshot.tasks.index]
    if not new:
        return snapshot
    services = with_services(snapshot.services, (each.service for each in new))
    rules = {
        row: PlacementRules(constraints=each.constraints, spread=each.spread)
        for row, each in enumerate(new, len(snapshot.tasks.ids))
        if each.constraints or each.spread
    }
    return replace(
        snapshot,
        tasks=_appended(snapshot, new, services),
        services=services,
        parts={kind: part.with_waiting([each.id for each in new]) for kind, part in snapshot.parts.items()},
        rules={**snapshot.rules, **rules},
    )


def _appended(snapshot: Snapshot, new: Sequence[WaitingTask], services: Services) -> Tasks:
    tasks, nodes, count = snapshot.tasks, snapshot.nodes.index, len(new)
    requested = np.array([each.requested for each in new], dtype=np.float64).reshape(count, len(RESOURCES))
    unknown, nothing = np.full_like(requested, np.nan), np.zeros_like(requested)
    nowhere = np.full(count, NOWHERE, dtype=np.intp)
    service = [NOWHERE if each.service is None else services.index[each.service] for each in new]
    last_node = [NOWHERE if each.last_node is None else nodes.get(each.last_node, NOWHERE) for each in new]
    rows = Tasks(
        ids=tuple(each.id for each in new),
        names=tuple(each.name for each in new),
        node=nowhere,
        service=np.array(service, dtype=np.intp),
        used=unknown,
        mean=coalesce(requested),
        variance=nothing,
        envelope=coalesce(requested),
        observed_seconds=np.zeros(count),
        requested=requested,
        allocated=requested,
        task_class=np.array([each.task_class for each in new], dtype=np.int8),
        kind=np.full(count, TaskKind.SERVICE, dtype=np.int8),
        group=np.full(count, NOWHERE, dtype=np.int8),
        age_seconds=np.zeros(count),
        settled_seconds=np.zeros(count),
        came_from=np.array(last_node, dtype=np.intp),
        movable=np.zeros(count, dtype=np.bool_),
    )
    return replace(concatenated(tasks, rows), windows=tasks.windows.followed_by_unknown(count))

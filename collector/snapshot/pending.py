"""Tasks that no node reports: pending ones count in the sums of their nodes, waiting ones have no node.

Pending tasks were placed, and are not reported yet. Waiting tasks were stopped to make room for others, and
start again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from collector.common.applications import NO_APPLICATION, ApplicationTraits
from collector.common.arrays import Floats, Rows
from collector.snapshot.columns import Four, coalesce, concatenated, with_services
from collector.snapshot.constraints import Constraint, PlacementRules
from collector.snapshot.tables import NOWHERE, Pending, Services, Snapshot, TaskKind, Tasks
from wire.resources import RESOURCES


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingTask:
    """A task that was placed on a node which has not reported it yet. NaN is unknown and counts as 0."""

    node: str
    service: str | None
    allocated: Four
    envelope: Four
    mean: Four
    variance: Four
    task_class: int
    is_known: bool = True
    """Whether `mean` comes from observed use; otherwise from the reservation."""
    application: ApplicationTraits = NO_APPLICATION
    """The application of its service, if the request named it."""


def with_pending(snapshot: Snapshot, tasks: Sequence[PendingTask], turn: int) -> Snapshot:
    """The same cluster with these counted too, in addition to earlier ones.

    Tasks of a node that is not in the snapshot are left out.
    """
    placed = [each for each in tasks if each.node in snapshot.nodes.index]
    nodes, services = snapshot.nodes, with_services(snapshot.services, (each.service for each in placed))
    if not placed:
        if turn == snapshot.turn:
            return snapshot
        return snapshot.with_pending(nodes, services, snapshot.pending, turn)
    rows = np.array([nodes.index[each.node] for each in placed], dtype=np.intp)
    service_rows = [NOWHERE if each.service is None else services.index[each.service] for each in placed]
    allocated, envelope, mean, variance = _amounts(placed)
    strictest = nodes.strictest_class.copy()
    strictest[rows[strictest[rows] == 0]] = np.iinfo(np.int8).max
    np.minimum.at(strictest, rows, np.array([each.task_class for each in placed], dtype=np.int8))
    tasks_by_node = nodes.tasks.copy()
    np.add.at(tasks_by_node, rows, 1)
    return snapshot.with_pending(
        nodes.with_columns(
            # The measured use does not include them: without this, a node that is busy with other tasks
            # would seem to run them for no extra energy.
            used=_plus(nodes.used, rows, mean),
            tasks=tasks_by_node,
            allocated=_plus(nodes.allocated, rows, allocated),
            envelope_sum=_plus(nodes.envelope_sum, rows, envelope),
            mean=_plus(nodes.mean, rows, mean),
            variance=_plus(nodes.variance, rows, variance),
            strictest_class=strictest,
        ),
        services,
        Pending(
            np.concatenate((snapshot.pending.nodes, rows)),
            np.concatenate((snapshot.pending.services, np.array(service_rows, dtype=np.intp))),
            np.concatenate(
                (snapshot.pending.is_known, np.array([each.is_known for each in placed], dtype=np.bool_))
            ),
            np.concatenate((snapshot.pending.mean, mean)),
            np.concatenate((snapshot.pending.allocated, allocated)),
            (*snapshot.pending.applications, *(each.application for each in placed)),
        ),
        turn,
    )


def _amounts(tasks: Sequence[PendingTask]) -> Floats:
    """Four tables of one row per task: allocated, envelope, mean and variance."""
    # One flat list: numpy takes several times as long to read nested ones.
    numbers = [
        number
        for each in tasks
        for row in (each.allocated, each.envelope, each.mean, each.variance)
        for number in row
    ]
    tables = np.array(numbers, dtype=np.float64).reshape(-1, 4, 4).swapaxes(0, 1)
    return np.where(np.isnan(tables), 0.0, tables)


def _plus(column: Floats, rows: Rows, amounts: Floats) -> Floats:
    column = column.copy(order="F")
    # One resource at a time: numpy adds many times as fast in one dimension as in two.
    for of_nodes, more in zip(column.T, amounts.T, strict=True):
        np.add.at(of_nodes, rows, more)
    return column


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
        cuttable=np.zeros(count, dtype=np.bool_),
    )
    return replace(concatenated(tasks, rows), windows=tasks.windows.followed_by_unknown(count))

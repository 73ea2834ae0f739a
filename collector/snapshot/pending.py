"""Pending tasks: placed on a node, not reported by it yet, and counted in its sums."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from collector.common.arrays import Floats, Rows
from collector.snapshot.applications import NO_APPLICATIONS, Applications
from collector.snapshot.columns import Four, with_services
from collector.snapshot.tables import NOWHERE, Pending, Snapshot


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
    application: str | None = None
    """Of a new service: its application. That of a service which the snapshot has is known from there."""
    delay_max: float | None = None
    """Maximum round-trip time between the nodes of its application, in seconds."""


def with_pending(snapshot: Snapshot, tasks: Sequence[PendingTask], turn: int) -> Snapshot:
    """The same cluster with these counted too, in addition to earlier ones.

    Tasks of a node that is not in the snapshot are left out.
    """
    placed = [each for each in tasks if each.node in snapshot.nodes.index]
    nodes, services = snapshot.nodes, with_services(snapshot.services, (each.service for each in placed))
    if not placed:
        if turn == snapshot.turn:
            return snapshot
        return snapshot.with_pending(nodes, services, snapshot.pending, snapshot.applications, turn)
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
        ),
        _applications(snapshot, placed, service_rows),
        turn,
    )


def _applications(
    snapshot: Snapshot, tasks: Sequence[PendingTask], service_rows: Sequence[int]
) -> Applications | None:
    """Return the applications, with the services of pending tasks."""
    applications = snapshot.applications
    for row, each in zip(service_rows, tasks, strict=True):
        if row != NOWHERE and each.application is not None:
            applications = (applications or NO_APPLICATIONS).with_service(
                row, each.application, each.delay_max
            )
    return applications


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

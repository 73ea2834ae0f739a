"""Waiting tasks: stopped to make room for others, and to be started again. No node reports them."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from collector.snapshot.columns import Four, best_guess
from collector.snapshot.tables import NOWHERE, Snapshot, TaskKind, Tasks
from wire.resources import RESOURCES


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingTask:
    """A task that waits for a node."""

    id: str
    name: str
    service: str | None
    requested: Four
    """What it is promised when it starts; NaN where nothing is."""
    task_class: int


def with_waiting(snapshot: Snapshot, waiting: Sequence[WaitingTask]) -> Snapshot:
    """The same cluster with these tasks after all others; those that run again are left out."""
    new = [each for each in waiting if each.id not in snapshot.tasks.index]
    return replace(snapshot, tasks=_appended(snapshot, new)) if new else snapshot


def _appended(snapshot: Snapshot, new: Sequence[WaitingTask]) -> Tasks:
    tasks, count = snapshot.tasks, len(new)
    services = snapshot.services.index
    requested = np.array([each.requested for each in new], dtype=np.float64).reshape(count, len(RESOURCES))
    unknown, nothing = np.full_like(requested, np.nan), np.zeros_like(requested)
    nowhere = np.full(count, NOWHERE, dtype=np.intp)
    service = [NOWHERE if each.service is None else services.get(each.service, NOWHERE) for each in new]
    rows = Tasks(
        ids=tuple(each.id for each in new),
        names=tuple(each.name for each in new),
        node=nowhere,
        service=np.array(service, dtype=np.intp),
        used=unknown,
        mean=best_guess(requested),
        variance=nothing,
        envelope=best_guess(requested),
        observed_seconds=np.zeros(count),
        requested=requested,
        allocated=requested,
        task_class=np.array([each.task_class for each in new], dtype=np.int8),
        kind=np.full(count, TaskKind.SERVICE, dtype=np.int8),
        group=np.full(count, NOWHERE, dtype=np.int8),
        age_seconds=np.zeros(count),
        settled_seconds=np.zeros(count),
        came_from=nowhere,
        movable=np.zeros(count, dtype=np.bool_),
        windows=np.full((count, *tasks.windows.shape[1:]), np.nan, dtype=np.float32),
    )
    columns: dict[str, Any] = {
        name: (
            (*getattr(tasks, name), *getattr(rows, name))
            if name in {"ids", "names"}
            else np.concatenate((getattr(tasks, name), getattr(rows, name)))
        )
        for name in (each.name for each in fields(Tasks))
    }
    return Tasks(**columns)

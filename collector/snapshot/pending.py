"""A snapshot with tasks on their way: they count on their nodes before any of them is seen there."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from collector.snapshot.assembly import Four, ServiceFacts, service_table
from collector.snapshot.power_curves import Floats, Rows
from collector.snapshot.tables import NOWHERE, Services, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingTask:
    """A task that was sent to a node and is not seen there yet. NaN is not known, and counts as nothing."""

    node: str
    service: str | None
    allocated: Four
    envelope: Four
    mean: Four
    variance: Four
    task_class: int


def with_sent(snapshot: Snapshot, tasks: Sequence[PendingTask], turn: int) -> Snapshot:
    """The same cluster with these counted too, on top of what was sent before.

    Those sent to a node that is not there are left out.
    """
    there = [each for each in tasks if each.node in snapshot.nodes.index]
    if not there and turn == snapshot.turn:
        return snapshot
    nodes, services = snapshot.nodes, _with_services(snapshot.services, there)
    rows = np.array([nodes.index[each.node] for each in there], dtype=np.intp)
    of = [NOWHERE if each.service is None else services.index[each.service] for each in there]
    allocated, envelope, mean, variance = _amounts(there)
    strictest = nodes.strictest_class.copy()
    strictest[strictest == 0] = np.iinfo(np.int8).max
    np.minimum.at(strictest, rows, np.array([each.task_class for each in there], dtype=np.int8))
    strictest[strictest == np.iinfo(np.int8).max] = 0
    return snapshot.with_sent(
        nodes.with_more(
            # What a node uses does not show them either: without this, one that is busy with other things
            # would look as if it had room for them for nothing.
            used=_plus(nodes.used, rows, mean),
            tasks=nodes.tasks + np.bincount(rows, minlength=len(nodes.names)).astype(np.int32),
            allocated=_plus(nodes.allocated, rows, allocated),
            reserved=_plus(nodes.reserved, rows, envelope),
            mean=_plus(nodes.mean, rows, mean),
            variance=_plus(nodes.variance, rows, variance),
            strictest_class=strictest,
        ),
        services,
        (
            np.concatenate((snapshot.sent[0], rows)),
            np.concatenate((snapshot.sent[1], np.array(of, dtype=np.intp))),
        ),
        turn,
    )


def _amounts(tasks: Sequence[PendingTask]) -> Floats:
    """What is promised, reckoned, expected and strays: a table each, of a row per task."""
    told = [(each.allocated, each.envelope, each.mean, each.variance) for each in tasks]
    tables = np.array(told, dtype=np.float64).reshape(-1, 4, 4).swapaxes(0, 1)
    return np.where(np.isnan(tables), 0.0, tables)


def _plus(column: Floats, rows: Rows, amounts: Floats) -> Floats:
    column = column.copy(order="F")
    # A resource at a time: of one dimension, numpy adds many times as fast as of two.
    for of_all, more in zip(column.T, amounts.T, strict=True):
        np.add.at(of_all, rows, more)
    return column


def _with_services(services: Services, tasks: Sequence[PendingTask]) -> Services:
    """The services, after them those that nothing is known of but that a task of theirs was sent."""
    new = sorted({each.service for each in tasks if each.service} - services.index.keys())
    if not new:
        return services
    more = service_table([ServiceFacts(name=name) for name in new])

    def both(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return np.concatenate((first, second))

    return Services(
        names=services.names + more.names,
        known=both(services.known, more.known),
        dominant=both(services.dominant, more.dominant),
        confidence=both(services.confidence, more.confidence),
        envelope=both(services.envelope, more.envelope),
        mean=both(services.mean, more.mean),
        variance=both(services.variance, more.variance),
        images=services.images + more.images,
    )

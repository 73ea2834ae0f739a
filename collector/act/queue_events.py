"""Events after which a policy that keeps promises runs before its timer is due."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from collector.common.arrays import Flags
from collector.common.liveness import Liveness
from collector.snapshot.tables import NOWHERE, Snapshot


@dataclass(frozen=True, slots=True)
class QueueState:
    """The input of such a policy, apart from time."""

    waiting: Counter[str]
    """Number of waiting tasks with a promise, by service."""
    nodes: frozenset[str]
    """Nodes that accept containers."""
    running: frozenset[str]
    """Containers that run."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> "QueueState":
        nodes, tasks = snapshot.nodes, snapshot.tasks
        waits = np.flatnonzero(_is_decided(snapshot) & (tasks.node == NOWHERE))
        accepts = nodes.on & nodes.accepts & (nodes.liveness == Liveness.UP)
        return cls(
            waiting=Counter(_service(snapshot, int(row)) for row in waits),
            nodes=frozenset(nodes.names[row] for row in np.flatnonzero(accepts)),
            running=frozenset(tasks.ids[row] for row in np.flatnonzero(tasks.node != NOWHERE)),
        )

    def calls_for_run(self, before: "QueueState") -> bool:
        """Whether a task began to wait; or, while one waits, a node was added or a container ended."""
        if not self.waiting:
            return False
        return bool(
            self.waiting - before.waiting or self.nodes - before.nodes or before.running - self.running
        )


def _service(snapshot: Snapshot, row: int) -> str:
    service = int(snapshot.tasks.service[row])
    return snapshot.tasks.names[row] if service == NOWHERE else snapshot.services.names[service]


def promised_tasks(snapshot: Snapshot, *, waiting: bool = False) -> frozenset[str]:
    """Return the tasks with a promise; if `waiting`, only those that wait."""
    tasks = snapshot.tasks
    chosen = _is_decided(snapshot) & ((tasks.node == NOWHERE) | (not waiting))
    return frozenset(tasks.ids[row] for row in np.flatnonzero(chosen))


def _is_decided(snapshot: Snapshot) -> Flags:
    """The tasks that a policy which keeps promises decides about."""
    found = np.zeros(len(snapshot.tasks.ids), dtype=np.bool_)
    for part in snapshot.parts.values():
        if (decided := part.decided()) is not None:
            found |= decided
    return found

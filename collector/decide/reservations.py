"""Pending placements, and nodes that services just left.

A placement counts until an agent reports a new container of its service on its node, until it is released, or
until it expires. Containers are distinguished by id, independent of the clocks of nodes.
"""

import secrets
from collections import defaultdict
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf

import numpy as np

from collector.analysis.usage import to_quantities
from collector.common.errors import LimitError
from collector.decide.answers import Reservation
from collector.decide.policies.interface import Request
from collector.snapshot.pending import PendingTask, with_pending
from collector.snapshot.tables import Snapshot
from wire.resources import Quantities

MAX_PLACEMENTS = 10_000
AVOID_SECONDS = 600.0
"""Time that hints, and kube-scheduler through the extender, keep a moved service from its previous node."""
_ID_BYTES = 9
_NONE: AbstractSet[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingPlacement:
    """A placement that counts on a node until an agent reports it."""

    id: str
    made_at: float
    expires_at: float
    sent: PendingTask
    there_before: frozenset[str]
    """Containers of its service that the node ran before."""

    def described(self) -> Reservation:
        """The same for the API."""
        return Reservation(
            id=self.id,
            node=self.sent.node,
            service=self.sent.service,
            made_at=self.made_at,
            expires_at=self.expires_at,
            demand=to_quantities(self.sent.envelope),
        )


@dataclass(frozen=True, eq=False, slots=True)
class PendingTasks:
    """The tasks of all placements at one moment."""

    tasks: tuple[PendingTask, ...]
    turn: int
    """Number of placements up to that moment."""


@dataclass(slots=True)
class Reservations:
    """Recent placements of one collector. Not thread-safe."""

    turn: int = 0
    """Number of placements so far."""
    _placements: dict[str, PendingPlacement] = field(default_factory=dict)
    _claimed: dict[tuple[str, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    """Containers that ended a placement, while others of the same service and node are pending."""
    _left: dict[tuple[str, str], float] = field(default_factory=dict)
    _victims: dict[str, Mapping[str, frozenset[str]]] = field(default_factory=dict)
    """Placements to preempt: by the name of the placement that would preempt them, and by node."""
    _soonest_end: float = inf
    _pending: PendingTasks | None = None
    _base: Snapshot | None = None
    _folded: Snapshot | None = None
    """`_base` with all placements except `_new`; None if one has ended since."""
    _new: list[PendingTask] = field(default_factory=list)

    # --- Pending placements --------------------------------------------------------------------

    def place(  # noqa: PLR0913 - what, where, and for how long
        self,
        snapshot: Snapshot,
        request: Request,
        node: str,
        *,
        now: float,
        seconds: float,
        name: str | None = None,
        gets: Quantities | None = None,
    ) -> PendingPlacement:
        """Count a request on a node. It replaces an earlier one of the same `name`.

        `gets` is its reservation if it is cut there.
        """
        name = name or secrets.token_urlsafe(_ID_BYTES)
        if len(self._placements) >= MAX_PLACEMENTS and name not in self._placements:
            raise LimitError(
                f"{MAX_PLACEMENTS} placements are pending: release some, or reserve for a shorter time",
                "$.reserve_seconds",
            )
        there = _containers(snapshot, [(node, request.service)]) if request.service else {}
        placement = PendingPlacement(
            id=name,
            made_at=now,
            expires_at=now + seconds,
            sent=request.pending_on(node, gets),
            there_before=frozenset(there.get((node, request.service or ""), ())),
        )
        self.release(name)
        self._placements[name] = placement
        self._pending = None
        self._soonest_end = min(self._soonest_end, placement.expires_at)
        self._new.append(placement.sent)
        self.turn += 1
        return placement

    def release(self, name: str) -> PendingPlacement | None:
        """End a placement; return None if there is none of this name."""
        found = self._placements.pop(name, None)
        if found is not None:
            self._folded = self._pending = None
        return found

    def release_all(self, names: Iterable[str]) -> None:
        for name in names:
            self.release(name)

    def placements(self, now: float) -> list[PendingPlacement]:
        """Return the pending placements, the oldest first."""
        self._expire(now)
        return list(self._placements.values())

    @property
    def pending(self) -> PendingTasks:
        """The tasks of all placements: the same object until a placement is added or ends."""
        if self._pending is None:
            self._pending = PendingTasks(tuple(each.sent for each in self._placements.values()), self.turn)
        return self._pending

    def fold(self, snapshot: Snapshot, now: float) -> Snapshot:
        self._expire(now)
        if self._base is not snapshot:
            self._settle(snapshot)
            self._base, self._folded = snapshot, None
        if self._folded is None:
            self._folded = fold_pending(snapshot, self.pending)
        elif self._new:
            # The usual case is one more placement on the same snapshot.
            self._folded = with_pending(self._folded, self._new, self.turn)
        self._new = []
        return self._folded

    def _expire(self, now: float) -> None:
        if now < self._soonest_end:
            return
        for name, each in list(self._placements.items()):
            if each.expires_at <= now:
                self.release(name)
        self._soonest_end = min((each.expires_at for each in self._placements.values()), default=inf)

    def _settle(self, snapshot: Snapshot) -> None:
        """End the placements whose containers are reported, the oldest first."""
        expected = [
            (each.sent.node, each.sent.service) for each in self._placements.values() if each.sent.service
        ]
        there = _containers(snapshot, expected)
        for name, each in list(self._placements.items()):
            key = each.sent.node, each.sent.service or ""
            if key not in there:
                continue
            if arrived := there[key] - each.there_before - self._claimed.get(key, _NONE):
                self._claimed[key].add(min(arrived))
                self.release(name)
        if self._claimed:
            pending = {(each.sent.node, each.sent.service or "") for each in self._placements.values()}
            for key in self._claimed.keys() - pending:
                del self._claimed[key]

    # --- Preemption ----------------------------------------------------------------------------

    def plan_preemption(self, name: str, victims: Mapping[str, frozenset[str]]) -> None:
        """Record which placements end on each node if it is chosen for the placement `name`."""
        self._victims.pop(name, None)
        self._victims[name] = victims
        while len(self._victims) > MAX_PLACEMENTS:
            del self._victims[next(iter(self._victims))]

    def preempt(self, name: str, node: str) -> None:
        """End the placements that were preempted on a node."""
        for victim in self._victims.pop(name, {}).get(node, ()):
            self.release(victim)

    # --- Places kept for waiting tasks ----------------------------------------------------------

    def keep(  # noqa: PLR0913 - what, where, and for how long
        self, snapshot: Snapshot, request: Request, task: str, node: str, *, now: float, seconds: float
    ) -> None:
        """Keep a place for a waiting task on a node, unless too many placements are pending."""
        with suppress(LimitError):
            self.place(snapshot, request, node, now=now, seconds=seconds, name=_kept(task))

    def kept_on(self, task: str, now: float) -> str | None:
        """Return the node that keeps a place for a waiting task."""
        self._expire(now)
        found = self._placements.get(_kept(task))
        return None if found is None else found.sent.node

    def give_up(self, task: str) -> None:
        self.release(_kept(task))

    # --- Nodes that were just left -------------------------------------------------------------------

    def keep_from_returning(self, service: str, node: str, *, until: float) -> None:
        """Keep a service from returning to a node until a time."""
        self._left[service, node] = max(until, self._left.get((service, node), until))

    def left_by(self, services: Iterable[str], now: float) -> frozenset[str]:
        """Return the nodes that some services must not return to yet."""
        self._left = {key: until for key, until in self._left.items() if until > now}
        named = set(services)
        return frozenset(node for service, node in self._left if service in named)


def fold_pending(snapshot: Snapshot, pending: PendingTasks) -> Snapshot:
    """Return a snapshot with pending tasks.

    The result of the first call on a snapshot is kept, so that a thread can prepare what the next request
    needs if nothing changes until then.
    """

    def compute() -> tuple[PendingTasks, Snapshot]:
        return pending, with_pending(snapshot, pending.tasks, pending.turn)

    if not pending.tasks and pending.turn == snapshot.turn:
        return snapshot
    folded, result = snapshot.cached_with_pending("first fold", compute)
    return result if folded is pending else compute()[1]


def _kept(task: str) -> str:
    return f"kept/{task}"


def _containers(snapshot: Snapshot, of: Iterable[tuple[str, str | None]]) -> dict[tuple[str, str], set[str]]:
    """Return the containers of some pairs of node and service; pairs without containers are left out."""
    nodes, services, tasks = snapshot.nodes, snapshot.services, snapshot.tasks
    rows = {
        (nodes.index[node], services.index[service]): (node, service)
        for node, service in of
        if service is not None and node in nodes.index and service in services.index
    }
    found = defaultdict[tuple[str, str], set[str]](set)
    if not rows:
        return found
    on_nodes = snapshot.tasks_on_any(np.array(sorted({node for node, _ in rows}), dtype=np.intp))
    # One flag more, unset, is for tasks without a service.
    is_wanted = np.zeros(len(services.names) + 1, dtype=np.bool_)
    is_wanted[[service for _, service in rows]] = True
    on_nodes = on_nodes[is_wanted[tasks.service[on_nodes]]]
    where = zip(tasks.node[on_nodes].tolist(), tasks.service[on_nodes].tolist(), strict=True)
    for task, key in zip(on_nodes.tolist(), where, strict=True):
        if key in rows:
            found[rows[key]].add(tasks.ids[task])
    return found

"""What was decided lately and is not seen yet: placements on their way, and places that were just left.

A placement counts from the moment it was hinted until a container of its service that was not there before
shows up on its node, until it is released, or until its time is over. Containers are told apart by their ids,
so that no clock of a node has a say.
"""

import secrets
from collections import defaultdict
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from math import inf

import numpy as np

from collector.policies.interface import Request
from collector.snapshot.columns import best_guess, four
from collector.snapshot.pending import PendingTask, with_pending
from collector.snapshot.power_curves import Floats
from collector.snapshot.tables import Flags, Snapshot
from wire.errors import UserError

MOST = 10_000
"""Placements that are remembered: more are not decided in the time that metrics take."""
_ID_BYTES = 9
_NONE: AbstractSet[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingPlacement:
    """Something that was sent to a node, and counts there until it is seen."""

    id: str
    made_at: float
    expires_at: float
    sent: PendingTask
    there_before: frozenset[str]
    """Containers of its service that its node had already."""


@dataclass(slots=True)
class Reservations:
    """Recent decisions of one collector. Not for several threads."""

    turn: int = 0
    """Placements that were decided so far."""
    _placements: dict[str, PendingPlacement] = field(default_factory=dict)
    _claimed: dict[tuple[str, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    """Containers that a placement ended with, while others of the same service and node still wait."""
    _left: dict[tuple[str, str], float] = field(default_factory=dict)
    _soonest_end: float = inf
    _base: Snapshot | None = None
    _folded: Snapshot | None = None
    """`_base` with all placements but those that are `_new`; None where one has ended since."""
    _new: list[PendingTask] = field(default_factory=list)

    # --- Placements on their way --------------------------------------------------------------------

    def place(  # noqa: PLR0913 - what, where, and for how long
        self,
        snapshot: Snapshot,
        request: Request,
        node: str,
        *,
        now: float,
        seconds: float,
        name: str | None = None,
    ) -> PendingPlacement:
        """Count a request on a node from now on. Of the same `name` only the last counts."""
        name = name or secrets.token_urlsafe(_ID_BYTES)
        if len(self._placements) >= MOST and name not in self._placements:
            raise UserError(
                f"{MOST} placements are on their way already: release some, or reserve for less time"
            )
        there = _containers(snapshot, [(node, request.service)]) if request.service else {}
        placement = PendingPlacement(
            id=name,
            made_at=now,
            expires_at=now + seconds,
            sent=sent(request, node),
            there_before=frozenset(there.get((node, request.service or ""), ())),
        )
        self.release(name)
        self._placements[name] = placement
        self._soonest_end = min(self._soonest_end, placement.expires_at)
        self._new.append(placement.sent)
        self.turn += 1
        return placement

    def release(self, name: str) -> PendingPlacement | None:
        """Count a placement no longer; None if there is none of this name."""
        found = self._placements.pop(name, None)
        if found is not None:
            self._folded = None
        return found

    def placements(self, now: float) -> list[PendingPlacement]:
        """Those that count now, the oldest first."""
        self._expire(now)
        return list(self._placements.values())

    def fold(self, snapshot: Snapshot, now: float) -> Snapshot:
        """A snapshot with the placements that it does not show yet."""
        self._expire(now)
        if self._base is not snapshot:
            self._settle(snapshot)
            self._base, self._folded = snapshot, None
        if self._folded is None:
            all_of_them = [each.sent for each in self._placements.values()]
            self._folded = with_pending(snapshot, all_of_them, self.turn)
        elif self._new:
            # The usual case is one more on the same picture, however many there are.
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
        """End the placements whose containers are there, the oldest with the first."""
        waited_for = [
            (each.sent.node, each.sent.service) for each in self._placements.values() if each.sent.service
        ]
        there = _containers(snapshot, waited_for)
        for name, each in list(self._placements.items()):
            key = each.sent.node, each.sent.service or ""
            if come := there.get(key, _NONE) - each.there_before - self._claimed.get(key, _NONE):
                self._claimed[key].add(min(come))
                self.release(name)
        still = {(each.sent.node, each.sent.service or "") for each in self._placements.values()}
        for key in self._claimed.keys() - still:
            del self._claimed[key]

    # --- Places that were just left -------------------------------------------------------------------

    def leave(self, service: str, node: str, *, until: float) -> None:
        """Send nothing of a service back to a node before a time: it was moved away from there."""
        self._left[service, node] = max(until, self._left.get((service, node), until))

    def left_by(self, services: Iterable[str], now: float) -> frozenset[str]:
        """The nodes that some services must not be sent back to yet."""
        self._left = {key: until for key, until in self._left.items() if until > now}
        named = set(services)
        return frozenset(node for service, node in self._left if service in named)


def sent(request: Request, node: str) -> PendingTask:
    """What a request comes to on a node, until it is measured there."""
    demand, mean, reserve = (np.array(four(each)) for each in (request.demand, request.mean, request.reserve))
    return PendingTask(
        node=node,
        service=request.service,
        allocated=four(request.reserve),
        envelope=_row(best_guess(demand, reserve)),
        mean=_row(best_guess(mean, demand, reserve)),
        variance=request.variance,
        task_class=request.task_class,
    )


def _row(amounts: Floats) -> tuple[float, float, float, float]:
    cpu, memory, disk, network = amounts.tolist()
    return cpu, memory, disk, network


def _containers(snapshot: Snapshot, of: Iterable[tuple[str, str | None]]) -> dict[tuple[str, str], set[str]]:
    """The ids of the containers that nodes have of services, for some pairs of both."""
    nodes, services, tasks = snapshot.nodes, snapshot.services, snapshot.tasks
    rows = {
        (nodes.index[node], services.index[service]): (node, service)
        for node, service in of
        if service is not None and node in nodes.index and service in services.index
    }
    found: dict[tuple[str, str], set[str]] = {pair: set() for pair in rows.values()}
    if not rows:
        return found
    # Of all tasks, those on one of the nodes; of these, those of one of the services; few are left then.
    there = np.flatnonzero(_among(len(nodes.names), [node for node, _ in rows])[tasks.node])
    there = there[_among(len(services.names), [service for _, service in rows])[tasks.service[there]]]
    where = zip(tasks.node[there].tolist(), tasks.service[there].tolist(), strict=True)
    for task, key in zip(there.tolist(), where, strict=True):
        if key in rows:
            found[rows[key]].add(tasks.ids[task])
    return found


def _among(count: int, rows: list[int]) -> Flags:
    """Which rows are named, with a last place for what is nowhere, and so is not."""
    flags = np.zeros(count + 1, dtype=np.bool_)
    flags[rows] = True
    return flags

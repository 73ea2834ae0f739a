"""One pass over the whole queue: each waiting instance gets the best host, or stays in the queue.

Two shortcuts keep the result. Instances with the same level, demand and rules share what is found for one of
them: later ones have more slack, so that a host without room for the first has none for them until instances
are stopped there. And what has no room where a smaller, more urgent instance with fewer rules had none is not
looked at again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import heapify, heappush, heappushpop, heapreplace

import numpy as np

from collector.common.arrays import Flags, Floats, Rows
from collector.features.promises.qos.queue import Assignment, Hosts, Instances, Outcome, Terms
from collector.features.promises.qos.victims import VictimTable
from collector.snapshot.power_curves import picked
from collector.snapshot.tables import NOWHERE

_POINTS = 10.0
_ROUNDING = 1e-9


def allocation_score(free_after: Floats, capacity: Floats) -> Floats:
    """Return 0 to 10 points: the mean of what is left free, and of how even CPU and memory are used."""
    left: Floats = free_after / capacity
    least_requested = left.mean(axis=1)
    balanced = 1.0 - np.abs(left[:, 0] - left[:, 1])
    points: Floats = (least_requested + balanced) * (_POINTS / 2)
    return points


@dataclass(eq=False, slots=True)
class _Kind:
    """Instances with the same level, demand and rules, and what is known about the hosts for them."""

    level: int
    demand: Floats
    mask: int
    group: int
    allowed: Flags
    threshold: Floats
    """`demand`, but minus infinity where it is 0: an overbooked host takes what needs nothing of it."""
    scores: Floats
    """Points of a host where it fits; minus infinity elsewhere."""
    reach: Floats
    """As in `Evaluation`, of the hosts where it does not fit."""
    costs: Floats
    freed: Floats
    fits_somewhere: bool = True
    is_evaluated: bool = False
    seen_touched: int = 0
    seen_freed: int = 0
    evaluated_touched: int = 0
    passed_over: list[int] = field(default_factory=list)
    """Members that still wait after their turn, as places in the queue: a heap."""
    started: list[int] = field(default_factory=list)
    """Members that got a host, as negative places in the queue: a heap."""
    exhausted_at: int = NOWHERE
    """The length of the list of freed hosts when no host had room."""


@dataclass(frozen=True, eq=False, slots=True)
class HostRanking:
    """The hosts for one instance."""

    fits: Rows
    """Hosts with room, in no order."""
    points: Floats
    """The allocation score of each of them."""
    with_room: Rows
    """Hosts where victims make room, the best first."""
    victims: Callable[[int], list[int]]
    """Whom to stop on one of those."""


@dataclass(eq=False)
class QueuePass:
    """The state of a pass. Hosts are in a random order, so that the first of equals is a random one."""

    hosts: Hosts
    instances: Instances
    terms: Terms
    seed: int = 0
    operations: int = 0
    _kinds: dict[tuple[object, ...], _Kind] = field(default_factory=dict)
    _failed: list[_Kind] = field(default_factory=list)
    _touched: list[int] = field(default_factory=list)
    """Hosts where something started, in order."""
    _freed: list[int] = field(default_factory=list)
    """Hosts where something was stopped, in order."""
    _victims: VictimTable | None = None
    _assignments: dict[int, Assignment] = field(default_factory=dict)
    _occupied: dict[int, Rows] = field(default_factory=dict)

    def __post_init__(self) -> None:
        count = self.hosts.capacity.shape[0]
        self._shuffled: Rows = np.random.default_rng(self.seed).permutation(count)
        # The place of each host in this order; the last one is that of `NOWHERE`.
        place = np.full(count + 1, NOWHERE, dtype=np.intp)
        place[self._shuffled] = np.arange(count)
        self._capacity = picked(self.hosts.capacity, self._shuffled)
        # A margin for rounding errors; an unknown capacity counts as 0.
        margin = _ROUNDING * np.fmax(self.hosts.capacity, 0.0)
        self._free = picked(self.hosts.free + margin, self._shuffled)
        self._masks = self.hosts.masks.take(self._shuffled, axis=1)
        self._open: Flags = np.any(self._masks, axis=0)
        self._places = {instance: turn for turn, instance in enumerate(self.terms.queue.tolist())}
        self._home = place[self.instances.host]
        self._last_host = place[self.instances.last_host]
        closed = self._home != NOWHERE
        closed[closed] = ~self._open[self._home[closed]]
        self._limits = np.where(closed, -np.inf, self.terms.limits)

    @cached_property
    def _widest_mask(self) -> int:
        """The set of constraints that allows all hosts that any set allows; `NOWHERE` if there is none."""
        allows_all = (self._masks == self._open).all(axis=1)
        return int(allows_all.argmax()) if allows_all.any() else NOWHERE

    def run(self) -> Outcome:
        """Try to allocate each waiting instance once, in the order of the queue."""
        queue = self.terms.queue.tolist()
        for place, instance in enumerate(queue):
            kind = self._kind_of(instance)
            host, needs_room = self._find(kind, instance)
            if host == NOWHERE:
                heappush(kind.passed_over, place)
                continue
            victims = self._stop_victims(kind, instance, host) if needs_room else []
            first = heappushpop(kind.passed_over, place) if self.terms.keeps_order else place
            heappush(kind.started, -first)
            self._start(kind, queue[first], host, victims)
        return Outcome(
            assignments=tuple(self._assignments.values()),
            left=tuple(instance for instance in queue if instance not in self._assignments),
            operations=self.operations,
        )

    def _revoke(self, victims: Sequence[int]) -> list[int]:
        """Return those of some victims that run, and those that others which have not started yet stopped.

        An instance that has not started yet is not stopped: it waits on.
        """
        revoked = [each for each in victims if each in self._assignments]
        stopped = [each for each in victims if each not in self._assignments]
        for each in revoked:
            stopped += self._assignments.pop(each).victims
            started = self._kind_of(each).started
            started.remove(-self._places[each])
            heapify(started)
        for each in revoked:
            self._pass_over(self._kind_of(each), each)
        return stopped

    def _pass_over(self, kind: _Kind, instance: int) -> None:
        """An instance has lost its host: it gets that of the least urgent one with the same needs."""
        place = self._places[instance]
        if not self.terms.keeps_order or not kind.started or -kind.started[0] < place:
            heappush(kind.passed_over, place)
            return
        last = -heapreplace(kind.started, -place)
        heappush(kind.passed_over, last)
        other = self._assignments.pop(int(self.terms.queue[last]))
        assert self._victims is not None
        host = int(self._home[other.instance])
        self._home[other.instance], self._home[instance] = NOWHERE, host
        self._victims.remove(other.instance, host)
        self._victims.add(instance, host)
        self._touched.append(host)
        self._assignments[instance] = replace(other, instance=instance)

    def rank(self, instance: int) -> HostRanking:
        """Rank the hosts for one instance. Nothing is allocated."""
        kind = self._kind_of(instance)
        fits = np.flatnonzero(kind.scores > -np.inf)
        if (self._limits[kind.level] > self.terms.slack[instance]).any():
            self._evaluate(kind, np.flatnonzero(kind.allowed & (kind.scores == -np.inf)), instance)
        room = np.flatnonzero(kind.reach > self.terms.slack[instance])
        points = self._points_with_victims(kind, room)
        room = room[np.lexsort((-points, *kind.costs[::-1, room]))]
        place = {int(self._shuffled[host]): int(host) for host in room}
        return HostRanking(
            fits=self._shuffled[fits],
            points=kind.scores[fits],
            with_room=self._shuffled[room],
            victims=lambda host: self._chosen_victims(kind, instance, place[host]),
        )

    def _kind_of(self, instance: int) -> _Kind:
        level, mask = int(self.terms.level[instance]), int(self.instances.mask[instance])
        group, demand = int(self.instances.group[instance]), self.instances.demand[instance]
        key = level, mask, group, *demand.tolist()
        if key not in self._kinds:
            self._kinds[key] = self._new_kind(level, demand, mask, group)
        return self._kinds[key]

    def _new_kind(self, level: int, demand: Floats, mask: int, group: int) -> _Kind:
        count = self._open.size
        kind = _Kind(
            level=level,
            demand=demand,
            mask=mask,
            group=group,
            allowed=self._masks[mask],
            threshold=np.where(demand > 0, demand, -np.inf),
            scores=np.full(count, -np.inf),
            reach=np.full(count, -np.inf),
            costs=np.zeros((self.terms.costs.shape[0], count)),
            freed=np.zeros((count, 2)),
            fits_somewhere=count > 0,
            seen_touched=len(self._touched),
            seen_freed=len(self._freed),
        )
        for other in self._failed:
            if self._is_contained(other, kind):
                kind.is_evaluated, kind.fits_somewhere = True, False
                kind.seen_freed = other.exhausted_at
                return kind
        self._score(kind, np.flatnonzero(kind.allowed))
        self.operations += int(np.count_nonzero(self._open))
        return kind

    def _is_contained(self, other: _Kind, kind: _Kind) -> bool:
        """Whether every host that has room for a kind has room for the other one, which came first."""
        return (
            other.level <= kind.level
            and other.mask in (kind.mask, self._widest_mask)
            and other.group in (kind.group, NOWHERE)
            and bool((other.demand <= kind.demand).all())
        )

    def _score(self, kind: _Kind, rows: Rows) -> None:
        """Find out where a kind fits without victims."""
        free = picked(self._free, rows)
        fits = kind.allowed[rows] & (free >= kind.threshold).all(axis=1)
        if kind.group != NOWHERE:
            fits &= self._occupants(kind.group)[rows] == 0
        points = allocation_score(free - kind.demand, picked(self._capacity, rows))
        kind.scores[rows] = np.where(fits, points, -np.inf)

    def _occupants(self, group: int) -> Rows:
        """Return how many instances of a group each host runs."""
        if group not in self._occupied:
            homes = self._home[self.instances.group == group]
            self._occupied[group] = np.bincount(homes[homes != NOWHERE], minlength=self._open.size)
        return self._occupied[group]

    def _find(self, kind: _Kind, instance: int) -> tuple[int, bool]:
        """Return the best host and whether instances must stop there first; `NOWHERE` without one."""
        if kind.exhausted_at == len(self._freed):
            return NOWHERE, False
        self._refresh_scores(kind)
        if kind.fits_somewhere:
            home = int(self._last_host[instance])
            if self.terms.home_after is not None and home != NOWHERE and kind.scores[home] > -np.inf:
                return home, False
            best = int(kind.scores.argmax())
            if kind.scores[best] > -np.inf:
                return best, False
            kind.fits_somewhere = False
        host = self._best_with_victims(kind, instance)
        if host == NOWHERE:
            if kind.exhausted_at == NOWHERE:
                self._failed.append(kind)
            kind.exhausted_at = len(self._freed)
        return host, True

    def _refresh_scores(self, kind: _Kind) -> None:
        # Where something started there is less room: that matters only as long as the kind fits somewhere.
        if kind.fits_somewhere:
            changed = self._touched[kind.seen_touched :]
            kind.seen_touched = len(self._touched)
        else:
            changed = self._freed[kind.seen_freed :]
        if not changed:
            return
        rows = np.array(changed, dtype=np.intp)
        self._score(kind, rows)
        self.operations += rows.size
        kind.fits_somewhere = kind.fits_somewhere or bool((kind.scores[rows] > -np.inf).any())

    def _best_with_victims(self, kind: _Kind, instance: int) -> int:
        slack = float(self.terms.slack[instance])
        if kind.is_evaluated:
            # Where something started, other victims may be the better ones; where there were too few, there
            # still are.
            outdated = kind.reach <= slack
            outdated[self._touched[kind.evaluated_touched :]] = True
            outdated &= kind.reach > -np.inf
            outdated[self._freed[kind.seen_freed :]] = True
            rows = np.flatnonzero(outdated & kind.allowed)
            self.operations += rows.size
        else:
            rows = np.flatnonzero(kind.allowed)
        kind.is_evaluated, kind.seen_freed = True, len(self._freed)
        kind.evaluated_touched = len(self._touched)
        self._evaluate(kind, rows, instance)
        hosts = np.flatnonzero(kind.reach > slack)
        if not hosts.size:
            return NOWHERE
        home = int(self._last_host[instance])
        for place, costs in enumerate(kind.costs):
            if place == self.terms.home_after and home in hosts:
                return home
            hosts = hosts[costs[hosts] == costs[hosts].min()]
            if hosts.size == 1:
                return int(hosts[0])
        return int(hosts[self._points_with_victims(kind, hosts).argmax()])

    def _evaluate(self, kind: _Kind, rows: Rows, instance: int) -> None:
        if self._victims is None:
            terms = replace(self.terms, limits=self._limits)
            self._victims = VictimTable(self.instances, terms, self._home, self._open.size)
        kind.reach[rows] = -np.inf
        rows = rows[self._victims.counts[rows] > 0]
        if kind.group != NOWHERE:
            rows = rows[self._occupants(kind.group)[rows] == 0]
        if not rows.size:
            return
        need = kind.threshold - self._free[rows]
        found = self._victims.evaluate(rows, kind.level, float(self.terms.slack[instance]), need)
        kind.reach[rows] = found.reach
        kind.costs[:, rows] = found.costs
        kind.freed[rows] = found.freed

    def _points_with_victims(self, kind: _Kind, rows: Rows) -> Floats:
        free = self._free[rows] + kind.freed[rows] - kind.demand
        return allocation_score(free, self._capacity[rows])

    def _chosen_victims(self, kind: _Kind, instance: int, host: int) -> list[int]:
        assert self._victims is not None
        need = kind.threshold - self._free[host]
        return self._victims.choose(host, kind.level, float(self.terms.slack[instance]), need)

    def _stop_victims(self, kind: _Kind, instance: int, host: int) -> list[int]:
        assert self._victims is not None
        chosen = self._chosen_victims(kind, instance, host)
        for victim in chosen:
            self._home[victim] = NOWHERE
            self._victims.remove(victim, host)
            self._free[host] += self.instances.demand[victim]
            group = int(self.instances.group[victim])
            if group in self._occupied:
                self._occupied[group][host] -= 1
        self._freed.append(host)
        return self._revoke(chosen)

    def _start(self, kind: _Kind, instance: int, host: int, victims: Sequence[int]) -> None:
        self._assignments[instance] = Assignment(instance, int(self._shuffled[host]), tuple(victims))
        self._free[host] -= kind.demand
        self._home[instance] = host
        if kind.group in self._occupied:
            self._occupied[kind.group][host] += 1
        if self._victims is not None:
            self._victims.add(instance, host)
        self._touched.append(host)

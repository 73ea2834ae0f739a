"""DRAPS: place containers by their dominant resource, and relieve bottlenecks with one move each.

Placement (algorithm 1): of the eligible nodes, a known service goes to the one with the most of its dominant
resource available, an unknown service to the one with the most available on average.

Bottleneck (algorithm 2): the container that the alert names moves to a node that does not run its service
yet, unless all do; again by availability of the service's dominant resource, or of the short one.
Availability is a share of capacity, so that large nodes do not attract everything. If no node that is on has
room, one that is off is switched on; if none of those has either, a node will do that stays below the share
at which nodes are relieved. If the named container has ended or may not move, the one that uses the most of
the short resource moves instead.

A container that no move brought to its node need not stay there for the cool-down if an alert names it: a new
container that fills a node would otherwise drive out the older ones.
"""

import itertools
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from collector.common.arrays import Flags, Floats
from collector.common.text import counted
from collector.decide.policies.actions import PowerOn
from collector.decide.policies.filters import (
    eligible,
    free_of_allocated,
    free_of_load,
    reject_strained,
    without_room,
)
from collector.decide.policies.interface import FillLimits, Plan, Policy, Ranking, Request, rank_by_score
from collector.decide.policies.planned import PlannedCluster
from collector.decide.policies.scoring import each_percent, instances_near, percent, same_domain
from collector.decide.policies.stability import estimate_watts, may_leave, may_wake, move_joules
from collector.snapshot.columns import as_row
from collector.snapshot.tables import NOWHERE, Snapshot, share
from wire.resources import RESOURCES

_SPREAD_PENALTY = 10.0
"""More than the largest difference in availability."""
_ROUNDING = 1e-9


def place(snapshot: Snapshot, request: Request, settings: FillLimits) -> Ranking:
    """Rank nodes by availability."""
    nodes = snapshot.nodes
    left = free_of_load(snapshot)
    refused = eligible(snapshot, request, stale_seconds=settings.stale_seconds)
    # The next plan would move something off a node with a bottleneck.
    refused = reject_strained(nodes, refused)
    refused = without_room(refused, free_of_allocated(snapshot), as_row(request.reserve))
    refused = without_room(
        refused, left - nodes.capacity * (1.0 - settings.fill_ratio), as_row(request.demand)
    )
    free = left / nodes.known_capacity
    dominant = _dominant(snapshot, request)
    available = _mean(free) if dominant == NOWHERE else _available(free, dominant)
    near = instances_near(snapshot, request.service) if request.spread else np.zeros_like(available)
    what = "mean of all resources" if dominant == NOWHERE else RESOURCES[dominant]

    def explain(row: int) -> tuple[str, ...]:
        if dominant == NOWHERE:
            first = f"{percent(available[row])} available on average; the service is unknown"
        else:
            first = f"{percent(free[row, dominant])} of {what} available, the service's dominant resource"
        reasons = first, f"available: {each_percent(free[row])}"
        return (*reasons, same_domain(near[row])) if near[row] else reasons

    return rank_by_score(
        available - _SPREAD_PENALTY * near,
        refused,
        score_is=f"available share of {what}, less {_SPREAD_PENALTY:g} per task of the service to spread",
        explain=explain,
    )


def rebalance(snapshot: Snapshot, settings: FillLimits) -> Plan:
    """Relieve every bottleneck, the node with the highest use of a short resource first.

    A move need not save power here, but must leave the target better off than the source was.
    """
    planner = _ReliefPlanner(snapshot, settings)
    alerts = _worst_first(snapshot.nodes.bottleneck, snapshot.nodes.used_ratio)
    left = tuple(why for node, resource in alerts if (why := planner.relieve(node, resource)) is not None)
    actions = tuple(planner.planned.actions)
    before, after = estimate_watts(snapshot, actions)
    return Plan(actions=actions, left=left, watts_before=before, watts_after=after)


@dataclass(frozen=True, slots=True)
class _Choice:
    """Candidate nodes for a container, and the resource that they are compared by."""

    nodes: Flags
    resource: int
    among: str


class _ReliefPlanner:
    """A plan that is being made."""

    def __init__(self, snapshot: Snapshot, settings: FillLimits) -> None:
        self._snapshot, self._settings = snapshot, settings
        self.planned = PlannedCluster(snapshot, settings)
        self._load = np.nan_to_num(snapshot.nodes.capacity - free_of_load(snapshot), nan=0.0)
        # Each relief counts in the next: two bottlenecks must not send their containers to the same gap.
        self.planned.follow(snapshot.tasks.mean, self._load)
        self._fills = settings.fill_ratio, min(1.0, settings.relieve_ratio)
        self._may_leave_early = may_leave(snapshot, msgspec.structs.replace(settings, cool_down_seconds=0.0))

    def relieve(self, node: int, resource: int) -> str | None:
        """Move the container that uses the most of the resource, or return why nothing moves."""
        nodes, tasks = self._snapshot.nodes, self._snapshot.tasks

        def nothing(why: str) -> str:
            return f"{nodes.names[node]} stays short of {RESOURCES[resource]}: {why}"

        if self.planned.room == 0:
            return nothing(f"a plan has at most {counted(self._settings.moves, 'move')}")
        there = self._snapshot.tasks_on(node)
        there = there[self.planned.home[there] == node]
        named = int(nodes.culprit[node, resource])
        if named != NOWHERE and self.planned.home[named] != tasks.node[named]:
            return nothing(f"{tasks.names[named]}, which the alert names, moves already")
        task = named if self._may_move(named) else NOWHERE
        if task == NOWHERE:
            leaving = there[self.planned.may_leave[there]]
            if not there.size:
                return nothing("no container is left there to move")
            if not leaving.size:
                return nothing(f"none of its {counted(there.size, 'container')} may move now")
            task = int(leaving[np.argmax(self._use(resource)[leaving])])
        choice = self._candidates(node, task, resource)
        # The nodes that this plan has switched on already may receive.
        asleep = may_wake(self._snapshot) & ~self.planned.may_receive
        woken = replace(choice, nodes=asleep, among="that is switched off")
        for fill, each in itertools.product(self._fills, (choice, woken)):
            target = self._best(each, task, node, resource, fill)
            if target != NOWHERE:
                break
        else:
            return nothing(f"no node {choice.among} has room for {tasks.names[task]}")
        if each is woken:
            # From then on it may receive containers.
            self.planned.may_receive[target] = True
            why = ("no node that is on has room",)
            self.planned.actions.append(PowerOn(node=nodes.names[target], reasons=why))
        cost = float(move_joules(self._snapshot, np.array([task]))[0])
        self.planned.add(task, target, self._reasons(task, target, resource, each), cost_joules=cost)
        return None

    def _may_move(self, named: int) -> bool:
        """Whether the container that an alert names may move."""
        if named == NOWHERE:
            return False
        if self._snapshot.tasks.came_from[named] == NOWHERE and self._may_leave_early[named]:
            self.planned.may_leave[named] = True
        return bool(self.planned.may_leave[named])

    def _use(self, resource: int) -> Floats:
        tasks = self._snapshot.tasks
        used = tasks.used[:, resource]
        return np.where(np.isnan(used), tasks.mean[:, resource], used)

    def _candidates(self, node: int, task: int, resource: int) -> _Choice:
        """Lines 1 to 5 and 13 of algorithm 2: all other running nodes, without those that run the service."""
        running = self.planned.may_receive.copy()
        running[node] = False
        service = int(self._snapshot.tasks.service[task])
        if service == NOWHERE:
            return _Choice(running, resource, "that accepts containers")
        by = resource
        if self._snapshot.services.profiled[service] and self._snapshot.services.dominant[service] != NOWHERE:
            by = int(self._snapshot.services.dominant[service])
        of_service = self.planned.home[self._snapshot.tasks_of(service)]
        has = np.bincount(of_service[of_service != NOWHERE], minlength=running.size) > 0
        if not running.any():
            return _Choice(running, by, "that accepts containers")
        if not (running & ~has).any():
            return _Choice(running, by, "(all run the service)")
        return _Choice(running & ~has, by, "without the service")

    def _best(self, choice: _Choice, task: int, node: int, resource: int, fill: float) -> int:
        """Return the candidate with the most available where the task fits and causes no new bottleneck."""
        nodes, tasks = self._snapshot.nodes, self._snapshot.tasks
        after = share(self._load + tasks.envelope[task], nodes.capacity)
        known = np.nan_to_num(after, nan=0.0)
        fits = (known <= fill + _ROUNDING).all(axis=1)
        fits &= self.planned.open_to(task)
        before = share(self._load[node], nodes.capacity[node])[resource]
        helps = ~(known[:, resource] >= before)
        candidates = choice.nodes & fits & helps & ~nodes.has_bottleneck
        if not candidates.any():
            return NOWHERE
        free = _available(1.0 - share(self._load, nodes.capacity), choice.resource)
        return int(np.where(candidates, free, -np.inf).argmax())

    def _reasons(self, task: int, target: int, resource: int, choice: _Choice) -> tuple[str, ...]:
        nodes, tasks = self._snapshot.nodes, self._snapshot.tasks
        source = int(tasks.node[task])
        part = share(self._use(resource)[[task]], nodes.capacity[[source], resource])[0]
        free = share(nodes.capacity[target] - self._load[target], nodes.capacity[target])
        used = percent(nodes.used_ratio[source, resource])
        short = f"{nodes.names[source]} is short of {RESOURCES[resource]} ({used} used)"
        best = f"{nodes.names[target]} has the most {RESOURCES[choice.resource]} available"
        is_named = task == nodes.culprit[source, resource]
        who = "the alert names this one" if is_named else "of the containers that may move, this one"
        return (
            f"{short}; {who} {'as using' if is_named else 'uses'} the most ({percent(part)})",
            f"{best} of any node {choice.among} ({percent(free[choice.resource])})",
        )


def _dominant(snapshot: Snapshot, request: Request) -> int:
    if request.dominant is not None:
        return RESOURCES.index(request.dominant)
    row = NOWHERE if request.service is None else snapshot.services.index.get(request.service, NOWHERE)
    if row == NOWHERE or not snapshot.services.profiled[row]:
        return NOWHERE
    return int(snapshot.services.dominant[row])


def _mean(free: Floats) -> Floats:
    """Return the mean over the known resources of each node."""
    known = ~np.isnan(free)
    mean: Floats = np.where(known, free, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    return mean


def _available(free: Floats, resource: int) -> Floats:
    """Return the available share of one resource; nodes where it is unknown come after all others."""
    available = free[:, resource]
    unknown = np.isnan(available)
    return np.where(unknown, _mean(free) - 1.0, available) if unknown.any() else available


def _worst_first(short: Flags, used_ratio: Floats) -> list[tuple[int, int]]:
    alerts = np.argwhere(short)
    severity = np.nan_to_num(used_ratio[short], nan=0.0)
    return [(int(node), int(resource)) for node, resource in alerts[np.argsort(-severity, kind="stable")]]


DRAPS = Policy(
    name="draps",
    summary="the most available of the service's dominant resource; one move relieves each bottleneck",
    for_whom="clusters that should even out load and answer bottlenecks, where power does not matter",
    settings=FillLimits,
    place=place,
    rebalance=rebalance,
)

"""DRAPS: place containers by their dominant resource, and relieve bottlenecks with few moves.

Placement (algorithm 1): of the eligible nodes, a known service goes to the one with the most of its dominant
resource available, an unknown service to the one with the most available on average.

Bottleneck (algorithm 2): the container that the alert names moves to a node that does not run its service
yet, unless all do; again by availability of the service's dominant resource, or of the short one.
Availability is a share of capacity, so that large nodes do not attract everything. If no node that is on has
room, one that is off is switched on; if none of those has either, a node will do that stays below the share
at which nodes are relieved.

Containers move only if the alert can close once they are gone: together, they use the share of the resource
by which the alert's indicator exceeds the level at which it closes. If the named container does not suffice,
has ended or may not move, those that use the most move as well, or instead, but none that uses less than that
share divided by the number of moves of a plan. If that is not enough, nothing moves, and the plan says what
would help. Nodes are compared by the indicator of the alert: by the time that the resource is busy or waited
for, or by the share that is used. The target must not be short itself afterwards: what closes an alert about
waiting must hold there as well.

Alerts about use alone are left to the policy on the timer if that one decides by its own margins how full
nodes are (`usage_alerts`): it would fill again what is emptied here. Alerts about waiting are answered in any
case.

A container that no move brought to its node need not stay there for the cool-down if an alert names it: a new
container that fills a node would otherwise drive out the older ones.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from collector.common.arrays import Flags, Floats, Rows
from collector.common.labels import ALLOWED, MOVE_LABEL, OPTIONAL_LABEL
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
from collector.decide.policies.stability import may_leave, may_wake, with_watts
from collector.decide.policies.worth import gained_time, move_joules
from collector.snapshot.columns import as_row, parts_of_nodes
from collector.snapshot.tables import BUSY_CPU_RATIO, BUSY_RATIO, NOWHERE, Snapshot, share
from wire.resources import RESOURCES, Resource

_SPREAD_PENALTY = 10.0
"""More than the largest difference in availability."""
_ROUNDING = 1e-9
_CPU, _DISK = RESOURCES.index(Resource.CPU), RESOURCES.index(Resource.DISK)
_OPENS_AT, _CLOSES_BELOW = 0.9, 0.8
"""The levels at which alerts open and close by default, for those that do not say how much must go."""


class DrapsSettings(FillLimits, frozen=True):
    """Settings of DRAPS."""

    usage_alerts: bool = True
    """Whether alerts about the use of a resource are answered, beside those about waiting for it. On alerts,
    it is `false` unless it is set, while `control.timer_policy` is a policy with margins of its own, such as
    `least-watts`."""


def place(snapshot: Snapshot, request: Request, settings: DrapsSettings) -> Ranking:
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


def rebalance(snapshot: Snapshot, settings: DrapsSettings) -> Plan:
    """Relieve every bottleneck, the one of which the largest share must go first.

    A move need not save power here, but must leave the target better off than the source was.
    """
    if not snapshot.nodes.has_bottleneck.any():
        return with_watts(snapshot, Plan())
    planner = _ReliefPlanner(snapshot, settings)
    left = [why for node, resource in planner.alerts if (why := planner.relieve(node, resource))]
    left += [
        f"the alert about {RESOURCES[resource]} of {snapshot.nodes.names[node]} is about its use:"
        " the policy on the timer decides how full nodes are"
        for node, resource in planner.left_alone
    ]
    return with_watts(snapshot, Plan(actions=tuple(planner.planned.actions), left=tuple(left)))


@dataclass(frozen=True, slots=True)
class _Choice:
    """Candidate nodes for a container, and the resource that they are compared by."""

    nodes: Flags
    resource: int
    among: str


@dataclass(frozen=True, slots=True)
class _Relief:
    """One move against a bottleneck."""

    task: int
    target: int
    is_off: bool
    """Whether the target must be switched on first."""
    reasons: tuple[str, ...]


class _ReliefPlanner:
    """A plan that is being made."""

    def __init__(self, snapshot: Snapshot, settings: DrapsSettings) -> None:
        self._snapshot, self._settings = snapshot, settings
        self.planned = PlannedCluster(snapshot, settings)
        nodes, tasks = snapshot.nodes, snapshot.tasks
        self._part = parts_of_nodes(snapshot)
        self._load = np.nan_to_num(nodes.capacity - free_of_load(snapshot), nan=0.0)
        # A container takes its part of the time that its node's resource is busy along.
        self._busy = np.nan_to_num(nodes.busy, nan=0.0)
        self._adds_busy = self._part * self._busy[tasks.node]
        self._used_before = share(self._load, nodes.capacity)
        # Each relief counts in the next: two bottlenecks must not send their containers to the same gap.
        self.planned.follow(tasks.mean, self._load)
        self.planned.follow(self._adds_busy, self._busy)
        self._fills = settings.fill_ratio, min(1.0, settings.relieve_ratio)
        self._may_leave_early = may_leave(snapshot, msgspec.structs.replace(settings, cool_down_seconds=0.0))
        self._by_time = nodes.by_time & ~np.isnan(nodes.busy)
        level = np.where(self._by_time, nodes.busy, nodes.used_ratio)
        guess = 1.0 - _CLOSES_BELOW / np.fmax(level, _OPENS_AT)
        self._excess = np.where(np.isnan(nodes.excess), guess, nodes.excess)
        answered = nodes.bottleneck & (self._by_time | settings.usage_alerts)
        worst_first = np.argsort(-self._excess[answered], kind="stable")
        self.alerts: list[list[int]] = np.argwhere(answered)[worst_first].tolist()
        """The node and the resource of each that is answered; the others are next."""
        self.left_alone: list[list[int]] = np.argwhere(nodes.bottleneck & ~answered).tolist()

    def relieve(self, node: int, resource: int) -> str | None:
        """Move the containers that use the most of the resource, or return why nothing moves."""
        nodes, tasks = self._snapshot.nodes, self._snapshot.tasks

        def nothing(why: str) -> str:
            return f"{nodes.names[node]} stays short of {RESOURCES[resource]}: {why}"

        if self.planned.room == 0:
            return nothing(f"a plan has at most {counted(self._settings.moves, 'move')}")
        part, excess = self._part[:, resource], float(self._excess[node, resource])
        there = self._snapshot.tasks_on(node)
        stays = self.planned.home[there] == node
        there, gone = there[stays], float(part[there[~stays]].sum())
        if excess <= 0.0:
            return f"the alert about {RESOURCES[resource]} of {nodes.names[node]} is about to close"
        if gone >= excess - _ROUNDING:
            return None
        if not there.size:
            return nothing("no container is left there to move")
        named = int(nodes.culprit[node, resource])
        if named in there and tasks.came_from[named] == NOWHERE and self._may_leave_early[named]:
            self.planned.may_leave[named] = True
        most_first = there[np.argsort(-part[there], kind="stable")]
        least = excess / self._settings.moves
        leaving = most_first[self.planned.may_leave[most_first] & (part[most_first] >= least)]
        leaving = np.concatenate((leaving[leaving == named], leaving[leaving != named]))
        reliefs = self._find(node, leaving.tolist(), resource, excess - gone)
        if reliefs is None:
            return nothing(self._why_not(node, resource, most_first, leaving))
        # Those that stay gain the share of the time that the resource is short.
        gain = (excess - gone) * there.size
        worth = gained_time(self._snapshot, self._settings, gain, [each.task for each in reliefs])
        if not worth.pays:
            return nothing(f"to move {counted(len(reliefs), 'container')} {worth.sentence()}")
        for each in reliefs:
            self._add(each, worth.sentence())
        return None

    def _find(self, node: int, leaving: Sequence[int], resource: int, needed: float) -> list[_Relief] | None:
        """Find moves that let the alert close together, none of them needless; None if there are none."""
        part, reliefs = self._part[:, resource], list[_Relief]()
        for task in leaving:
            if (relief := self._relief(node, task, resource)) is not None:
                reliefs.append(relief)
                self.planned.put(task, relief.target)
                needed -= float(part[task])
                if needed <= _ROUNDING or len(reliefs) == self.planned.room:
                    break
        for relief in reliefs:
            self.planned.put(relief.task, node)
        for relief in sorted(reliefs, key=lambda each: float(part[each.task])):
            if needed + part[relief.task] <= _ROUNDING:
                needed += float(part[relief.task])
                reliefs.remove(relief)
        return reliefs if reliefs and needed <= _ROUNDING else None

    def _relief(self, node: int, task: int, resource: int) -> _Relief | None:
        choice = self._candidates(node, task, resource)
        # The nodes that this plan has switched on already may receive.
        asleep = may_wake(self._snapshot) & ~self.planned.may_receive
        woken = replace(choice, nodes=asleep, among="that is switched off")
        for fill, each in itertools.product(self._fills, (choice, woken)):
            target = self._best(each, task, node, resource, fill)
            if target != NOWHERE:
                return _Relief(task, target, each is woken, self._reasons(task, target, resource, each))
        return None

    def _add(self, relief: _Relief, worth: str) -> None:
        if relief.is_off and not self.planned.may_receive[relief.target]:
            # From then on it may receive containers.
            self.planned.may_receive[relief.target] = True
            name, why = self._snapshot.nodes.names[relief.target], ("no node that is on has room",)
            self.planned.actions.append(PowerOn(node=name, reasons=why))
        cost = float(move_joules(self._snapshot, np.array([relief.task]))[0])
        self.planned.add(relief.task, relief.target, (*relief.reasons, worth), cost_joules=cost)

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
        busy = self._busy + self._adds_busy[task]
        # Who waits for the CPU or memory here may find enough there, but the time of disks adds up.
        helps = busy[:, _DISK] <= BUSY_RATIO
        if self._by_time[node, resource]:
            closes_at = nodes.busy[node, resource] * (1.0 - self._excess[node, resource])
            is_calm = busy[:, resource] <= min(BUSY_RATIO, closes_at) + _ROUNDING
            if resource == _CPU:
                is_calm |= known[:, _CPU] < BUSY_CPU_RATIO
            helps &= is_calm
        else:
            helps &= ~(known[:, resource] >= self._used_before[node, resource])
        candidates = choice.nodes & fits & helps & ~nodes.has_bottleneck & ~nodes.is_busy
        if not candidates.any():
            return NOWHERE
        free = _available(self._free(node, resource), choice.resource)
        return int(np.where(candidates, free, -np.inf).argmax())

    def _free(self, node: int, resource: int) -> Floats:
        """Return the available shares of all nodes, those of the short resource by the alert's indicator."""
        nodes = self._snapshot.nodes
        free = 1.0 - share(self._load, nodes.capacity)
        if self._by_time[node, resource]:
            idle = np.where(np.isnan(nodes.busy[:, resource]), np.nan, 1.0 - self._busy[:, resource])
            # Nobody waits for the CPU or memory of a node that has enough: more free is better then.
            is_disk = RESOURCES[resource] is Resource.DISK
            free[:, resource] = idle if is_disk else np.fmin(idle, free[:, resource])
        return free

    def _reasons(self, task: int, target: int, resource: int, choice: _Choice) -> tuple[str, ...]:
        nodes, source = self._snapshot.nodes, int(self._snapshot.tasks.node[task])
        free = self._free(source, resource)[target]
        by_time = self._by_time[source, resource]
        level = percent((nodes.busy if by_time else nodes.used_ratio)[source, resource])
        short = f"{nodes.names[source]} is short of {RESOURCES[resource]}"
        short += f" ({level} {'busy or waited for' if by_time else 'used'})"
        named = task == nodes.culprit[source, resource]
        who = "the alert names this one, which" if named else "of the containers that may move, this one"
        part, must = percent(float(self._part[task, resource])), self._must_go(source, resource)
        best = f"{nodes.names[target]} has the most {RESOURCES[choice.resource]} available"
        return (
            f"{short}; {who} uses {part} of what is used there, and {must}",
            f"{best} of any node {choice.among} ({percent(free[choice.resource])})",
        )

    def _must_go(self, node: int, resource: int) -> str:
        return f"{percent(float(self._excess[node, resource]))} must go for the alert to close"

    def _why_not(self, node: int, resource: int, there: Rows, leaving: Rows) -> str:
        """Return why no moves let the alert close, and what else would."""
        tasks, planned = self._snapshot.tasks, self.planned
        names, part = tasks.names, self._part[:, resource]
        top = int(self._snapshot.nodes.culprit[node, resource])
        top = int(there[0]) if top == NOWHERE else top
        if not planned.may_leave[there].any():
            why = f"none of its {counted(there.size, 'container')} may move now"
        elif leaving.size and all(self._relief(node, task, resource) is None for task in leaving.tolist()):
            among = self._candidates(node, int(leaving[0]), resource).among
            why = f"no node {among} has room for {names[leaving[0]]}"
        else:
            must = self._must_go(node, resource)
            why = f"the containers that can move elsewhere use too little of what is used there: {must}"
        help_by = [f"a limit for {names[top]}, which uses {percent(float(part[top]))} of it"]
        if not tasks.movable[top]:
            help_by.append(f"the label {MOVE_LABEL}={ALLOWED} on it, if it may run elsewhere")
        help_by.append(f"services there with the label {OPTIONAL_LABEL}=true, which stop in an overload")
        return f"{why}; what would help: {'; '.join(help_by)}"


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


DRAPS = Policy(
    name="draps",
    summary="the most available of the service's dominant resource; few moves relieve each bottleneck",
    for_whom="clusters that should even out load and answer bottlenecks, where power does not matter",
    settings=DrapsSettings,
    place=place,
    rebalance=rebalance,
)

"""DRAPS: give a container the node with the most left of what it needs most, and heal bottlenecks.

Placing (algorithm 1): of the nodes that pass every filter, a known service goes to the one with the most
available of its dominant resource, an unknown one to the one with the most available on average.

A bottleneck (algorithm 2): the container that takes the most of the short resource moves away from the node,
to one that does not run its service yet, unless all do; again by availability of the service's dominant
resource, or of the short one. Availability is a share of what a node has: small nodes are not drowned so.
Where none that is on has room, one that was switched off is woken: who saves energy must give it back.
"""

from dataclasses import dataclass, replace

import numpy as np

from collector.policies.actions import Move, PowerOn
from collector.policies.filters import eligible, free_of_allocated, free_of_load, without_room
from collector.policies.interface import Plan, Policy, Ranking, Rejection, Request, Stability, ranked
from collector.policies.outcome import watts
from collector.policies.scoring import each_percent, instances_near, percent, share
from collector.policies.stability import Moves, may_wake, move_joules
from collector.snapshot.power_curves import Floats
from collector.snapshot.tables import NOWHERE, Flags, Snapshot
from wire.resources import RESOURCES

_APART = 10.0
"""More than availability can differ by."""
_ROUNDING = 1e-9


def place(snapshot: Snapshot, request: Request, settings: Stability) -> Ranking:
    """Nodes by what they have available."""
    nodes = snapshot.nodes
    left = free_of_load(snapshot)
    refused = eligible(snapshot, request, stale_seconds=settings.stale_seconds)
    # What has a bottleneck would be relieved of something next: nothing is sent there first.
    refused[(refused == Rejection.NOT) & nodes.has_bottleneck] = Rejection.BOTTLENECK
    refused = without_room(refused, free_of_allocated(snapshot), request.reserve)
    refused = without_room(refused, left - nodes.capacity * (1.0 - settings.fill_ratio), request.demand)
    free = share(left, nodes.capacity)
    dominant = _dominant(snapshot, request)
    available = _mean(free) if dominant == NOWHERE else _available(free, dominant)
    near = instances_near(snapshot, request.service) if request.spread else np.zeros_like(available)
    scores = available - _APART * near
    rows = ranked(scores, refused)
    what = "on average, as the service is not known" if dominant == NOWHERE else f"of {RESOURCES[dominant]}"

    def explain(row: int) -> tuple[str, ...]:
        counted = (
            f"{percent(available[row] if dominant == NOWHERE else free[row, dominant])} is available {what}"
        )
        if dominant != NOWHERE:
            counted += ", the service's dominant resource"
        beside = f"available beside its load: {each_percent(free[row])}"
        together = f"{near[row]:g} tasks of this service would fail together with it"
        return (counted, beside, together) if near[row] else (counted, beside)

    return Ranking(
        rows=rows,
        scores=scores[rows],
        score_is=f"the share available {what}, less {_APART:g} per task of a service that is kept apart",
        refused=refused,
        explain=explain,
    )


def rebalance(snapshot: Snapshot, settings: Stability) -> Plan:
    """Answer every bottleneck there is, the node with the highest use of a short resource first.

    A move need not pay in watts here: it is made for the work that suffers, and must leave the target better
    off than the source was.
    """
    answers = propose(snapshot, settings)
    actions = tuple(action for each in answers for action in (each.wake, each.move) if action is not None)
    before, after = watts(snapshot, actions)
    return Plan(
        actions=actions,
        left=tuple(each.why_not for each in answers if each.why_not is not None),
        watts_before=before,
        watts_after=after,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Relief:
    """What would help against one bottleneck: a move, or the reason why there is none."""

    node: int
    resource: int
    wake: PowerOn | None = None
    """What must be done before the move, if anything."""
    move: Move | None = None
    why_not: str | None = None


def propose(snapshot: Snapshot, settings: Stability) -> list[Relief]:
    """An answer to each bottleneck, the worst first; each takes those before it into account."""
    healing = _Healing(snapshot, settings)
    alerts = _worst_first(snapshot.nodes.bottleneck, snapshot.nodes.used_ratio)
    return [healing.answer(node, resource) for node, resource in alerts]


@dataclass(frozen=True, slots=True)
class _Choice:
    """Who could take a container, and by which resource they are compared."""

    nodes: Flags
    resource: int
    among: str


class _Healing:
    """A plan while it is made."""

    def __init__(self, snapshot: Snapshot, settings: Stability) -> None:
        self._snapshot, self._settings = snapshot, settings
        self.moves = Moves(snapshot, settings)
        self._load = np.nan_to_num(snapshot.nodes.capacity - free_of_load(snapshot), nan=0.0)
        # Each answer shows in the next one: two alerts must not send their containers to the same gap.
        self._home = snapshot.tasks.node.copy()

    def answer(self, node: int, resource: int) -> Relief:
        """One alert: move the costliest container, or say why nothing moves."""
        nodes, tasks = self._snapshot.nodes, self._snapshot.tasks
        alert = f"{RESOURCES[resource]} on {nodes.names[node]}"

        def nothing(why: str) -> Relief:
            return Relief(node=node, resource=resource, why_not=f"{alert} {why}")

        if self.moves.room == 0:
            return nothing(f"waits: a plan has {self._settings.moves} moves at most")
        there = self._snapshot.tasks_on(node)
        there = there[self._home[there] == node]
        leaving = there[self.moves.may_leave[there]]
        if not leaving.size:
            return nothing(f"stays short: none of its {there.size} containers may be moved now")
        takes = self._takes(resource)
        task = int(leaving[np.argmax(takes[leaving])])
        choice = self._candidates(node, task, resource)
        target, wake = self._best(choice, task, node, resource), None
        if target == NOWHERE:
            why = f"stays short: no node {choice.among} has room for {tasks.names[task]}"
            # A node that this plan has woken already is among those that may receive, not among these.
            asleep = may_wake(self._snapshot) & ~self.moves.may_receive
            choice = replace(choice, nodes=asleep, among="that are switched off")
            target = self._best(choice, task, node, resource)
            if target == NOWHERE:
                return nothing(why)
            wake = self._wake(target)
        cost = float(move_joules(self._snapshot, np.array([task]))[0])
        move = self.moves.add(task, target, self._reasons(task, target, resource, choice), cost_joules=cost)
        self._load[node] -= tasks.mean[task]
        self._load[target] += tasks.mean[task]
        self._home[task] = target
        return Relief(node=node, resource=resource, wake=wake, move=move)

    def _wake(self, target: int) -> PowerOn:
        """Switch a node on; from then on it may be given more."""
        self.moves.may_receive[target] = True
        why = "it is needed: no node that is on has room"
        return PowerOn(node=self._snapshot.nodes.names[target], reasons=(why,))

    def _takes(self, resource: int) -> Floats:
        tasks = self._snapshot.tasks
        used = tasks.used[:, resource]
        return np.where(np.isnan(used), tasks.mean[:, resource], used)

    def _candidates(self, node: int, task: int, resource: int) -> _Choice:
        """Lines 1 to 5 and 13 of algorithm 2: all others that run, less those that run the service."""
        running = self.moves.may_receive.copy()
        running[node] = False
        service = int(self._snapshot.tasks.service[task])
        if service == NOWHERE:
            return _Choice(running, resource, "that may be given more")
        by = resource
        if self._snapshot.services.profiled[service] and self._snapshot.services.dominant[service] != NOWHERE:
            by = int(self._snapshot.services.dominant[service])
        of_service = self._home[self._snapshot.tasks_of(service)]
        has = np.bincount(of_service[of_service != NOWHERE], minlength=running.size) > 0
        if not running.any():
            return _Choice(running, by, "that may be given more")
        if not (running & ~has).any():
            return _Choice(running, by, "(all run the service already)")
        return _Choice(running & ~has, by, "without the service")

    def _best(self, choice: _Choice, task: int, node: int, resource: int) -> int:
        """The candidate with the most available: where it fits, helps, and makes no new bottleneck."""
        nodes, tasks = self._snapshot.nodes, self._snapshot.tasks
        after = share(self._load + tasks.envelope[task], nodes.capacity)
        known = np.nan_to_num(after, nan=0.0)
        fits = (known <= self._settings.fill_ratio + _ROUNDING).all(axis=1)
        promised = nodes.capacity - nodes.allocated
        fits &= ~(promised < np.nan_to_num(tasks.allocated[task], nan=0.0)).any(axis=1)
        before = share(self._load[node], nodes.capacity[node])[resource]
        helps = ~(known[:, resource] >= before)
        candidates = choice.nodes & fits & helps & ~nodes.has_bottleneck
        if self.moves.barred[task] != NOWHERE:
            candidates[self.moves.barred[task]] = False
        if not candidates.any():
            return NOWHERE
        free = _available(1.0 - share(self._load, nodes.capacity), choice.resource)
        return int(np.where(candidates, free, -np.inf).argmax())

    def _reasons(self, task: int, target: int, resource: int, choice: _Choice) -> tuple[str, ...]:
        nodes, tasks = self._snapshot.nodes, self._snapshot.tasks
        source = int(tasks.node[task])
        part = share(self._takes(resource)[[task]], nodes.capacity[[source], resource])[0]
        free = share(nodes.capacity[target] - self._load[target], nodes.capacity[target])
        used = percent(nodes.used_ratio[source, resource])
        short = f"{RESOURCES[resource]} is short on {nodes.names[source]} ({used} used)"
        best = f"{nodes.names[target]} has the most {RESOURCES[choice.resource]} available"
        return (
            f"{short}, and of those that may be moved it takes the most ({percent(part)})",
            f"of the nodes {choice.among}, {best} ({percent(free[choice.resource])})",
        )


def _dominant(snapshot: Snapshot, request: Request) -> int:
    if request.dominant is not None:
        return RESOURCES.index(request.dominant)
    row = NOWHERE if request.service is None else snapshot.services.index.get(request.service, NOWHERE)
    if row == NOWHERE or not snapshot.services.profiled[row]:
        return NOWHERE
    return int(snapshot.services.dominant[row])


def _mean(free: Floats) -> Floats:
    """Over the resources that are known of each node."""
    known = ~np.isnan(free)
    mean: Floats = np.where(known, free, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    return mean


def _available(free: Floats, resource: int) -> Floats:
    """What is available of one resource. Where that is not known, a node comes after all where it is."""
    available = free[:, resource]
    unknown = np.isnan(available)
    return np.where(unknown, _mean(free) - 1.0, available) if unknown.any() else available


def _worst_first(short: Flags, used_ratio: Floats) -> list[tuple[int, int]]:
    alerts = np.argwhere(short)
    severity = np.nan_to_num(used_ratio[short], nan=0.0)
    return [(int(node), int(resource)) for node, resource in alerts[np.argsort(-severity, kind="stable")]]


DRAPS = Policy(
    name="draps",
    summary="the most left of the service's dominant resource; bottlenecks are healed by one move each",
    settings=Stability,
    place=place,
    rebalance=rebalance,
)

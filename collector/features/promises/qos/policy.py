"""`qos-driven`: scheduling by promises of availability.

Containers start, and are stopped for others, by how long each can wait before its promise breaks. Decisions
are about reservations, never about use. The thesis' rules are in `rules`, the pass over the queue is in
`queue_pass`.

Beyond the thesis: daemons, containers that may not be moved and those without a promise are never stopped; a
node that does not report, is closed or has an open alert gets and loses nothing; and a hold keeps containers
from being exchanged every period (`exact` switches it off).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from collector.common.arrays import Rows
from collector.common.text import counted
from collector.decide.policies.actions import Action, Kill, Start
from collector.decide.policies.filters import OpenNodes, eligible, free_of_allocated, without_room
from collector.decide.policies.interface import Plan, Policy, Ranking, Rejection, Request
from collector.decide.policies.overbooking import reservation_of
from collector.decide.policies.scoring import instances_near, same_domain, stable_argsort
from collector.decide.policies.stability import with_watts
from collector.features.promises.ledger.promises import Promise
from collector.features.promises.qos.queue import (
    Assignment,
    Instances,
    Outcome,
    Terms,
    has_capacity,
    queue_input,
)
from collector.features.promises.qos.queue_pass import QueuePass
from collector.features.promises.qos.rules import QosSettings, QueueSettings, qos_terms
from collector.features.promises.settings import SLO_LABEL
from collector.features.promises.snapshot import TaskPromises, unpromised
from collector.snapshot.tables import NOWHERE, Snapshot

_POINTS = 10.0
_PERIOD_SECONDS = 30.0
"""As in the authors' own logs: a shorter period exchanges containers more often than it helps."""
_NO_PROMISE = Promise(name="", availability=1.0, importance=np.iinfo(np.int32).max)


@dataclass(frozen=True, slots=True)
class Claim:
    """A container and how its promise stands."""

    name: str
    promise: Promise
    slack_seconds: float

    @property
    def standing(self) -> str:
        """How the promise stands."""
        if self.slack_seconds == np.inf:
            return "can wait without limit"
        if self.slack_seconds < 0:
            return f"is {-self.slack_seconds:.0f} s behind its promise"
        return f"can wait {self.slack_seconds:.0f} s before its promise breaks"


@dataclass(frozen=True, slots=True)
class QueueRules:
    """What a pass over the queue decides by."""

    terms: Callable[[Instances, Any, int], Terms]
    """From the instances, the settings and a seed."""
    stop_reason: Callable[[Claim, Claim, Any], str]
    """Why the first container is stopped for the second, with these settings."""


def _stop_reason(victim: Claim, beneficiary: Claim, settings: QosSettings) -> str:
    victim_is, urgent = victim.standing, f"{beneficiary.name} {beneficiary.standing}"
    if victim.slack_seconds >= settings.margin_seconds:
        return f"rule 1: it {victim_is}, longer than the margin; {urgent}"
    if beneficiary.promise.importance < victim.promise.importance:
        return f"rule 2: it {victim_is}; {urgent}, and is more important"
    return f"rule 3: it {victim_is}; {urgent}, and is equally important"


def pass_over_queue(rules: QueueRules, snapshot: Snapshot, settings: QueueSettings) -> Plan:
    """Run one pass over the queue."""
    promises = snapshot.part(TaskPromises)
    if promises is None or not snapshot.waiting.size:
        return Plan()
    held: set[int] = set()
    while True:
        given = queue_input(snapshot, promises, settings.stale_seconds, held)
        terms = rules.terms(given.instances, settings, snapshot.seed)
        outcome = QueuePass(given.hosts, given.instances, terms, snapshot.seed).run()
        stray = _too_far(snapshot, outcome, given.rows)
        if not stray:
            break
        held |= stray
    build = _Actions(snapshot, promises, rules, settings)
    actions = [action for each in outcome.assignments for action in build.of(each, given.rows)]
    # An assignment may use room that the victims of a later one leave.
    actions.sort(key=lambda action: isinstance(action, Start))
    left = len(outcome.left)
    plan = Plan(
        actions=tuple(actions),
        left=(f"no node has room for {counted(left, 'waiting container')}",) if left else (),
        operations=outcome.operations,
    )
    return with_watts(snapshot, plan)


def _too_far(snapshot: Snapshot, outcome: Outcome, rows: Rows) -> set[int]:
    """Return the tasks that a filter refuses because of others that start as well, such as by their distance.

    They wait for the next pass, when those run.
    """
    nodes, home = OpenNodes(snapshot), snapshot.tasks.node.copy()
    stray = set()
    for each in outcome.assignments:
        task = int(rows[each.instance])
        open_to = nodes.open_to(task, home)
        if open_to is not None and not open_to[each.host]:
            stray.add(task)
        else:
            home[task] = each.host
    return stray


class _Actions:
    """The stops and the start of an assignment, with their reasons."""

    def __init__(
        self, snapshot: Snapshot, slo: TaskPromises, rules: QueueRules, settings: QueueSettings
    ) -> None:
        self._snapshot, self._slo, self._rules, self._settings = snapshot, slo, rules, settings

    def of(self, assignment: Assignment, rows: Rows) -> Iterator[Action]:
        task, node = int(rows[assignment.instance]), self._snapshot.nodes.names[assignment.host]
        claim, count = self._claim(task), len(assignment.victims)
        for victim in assignment.victims:
            yield self.stop(int(rows[victim]), claim)
        standing = f"it {claim.standing} ({claim.promise.name}, {claim.promise.availability:.4g})"
        stopped = f"{counted(count, 'container')} on {node} {'is' if count == 1 else 'are'} stopped for it"
        yield Start(
            task=self._snapshot.tasks.ids[task],
            name=claim.name,
            target=node,
            reasons=(standing, stopped if count else f"{node} has room for it"),
        )

    def stop(self, victim: int, beneficiary: Claim) -> Kill:
        """Stop a container for another one."""
        tasks, claim = self._snapshot.tasks, self._claim(victim)
        return Kill(
            task=tasks.ids[victim],
            name=claim.name,
            node=self._snapshot.nodes.names[tasks.node[victim]],
            target=None,
            reasons=(self._rules.stop_reason(claim, beneficiary, self._settings),),
        )

    def _claim(self, task: int) -> Claim:
        promise = self._slo.promises[self._slo.promise[task]]
        return Claim(self._snapshot.tasks.names[task], promise, float(self._slo.slack_seconds[task]))


def rank_by_queue(
    rules: QueueRules, snapshot: Snapshot, request: Request, settings: QueueSettings
) -> Ranking:
    """Rank the nodes with room by their points, then those where containers must be stopped first."""
    refused = eligible(snapshot, request, stale_seconds=settings.stale_seconds)
    strained = snapshot.nodes.has_bottleneck & (refused == Rejection.NOT)
    refused = np.where(strained, np.int8(Rejection.BOTTLENECK), refused)
    slo = snapshot.part(TaskPromises) or snapshot.cached(
        "no promises", lambda: unpromised((), len(snapshot.tasks.ids))
    )
    name = request.labels.get(SLO_LABEL)
    promise = next((each for each in slo.promises if each.name == name), _NO_PROMISE)
    demand = reservation_of(request)
    stale_seconds = settings.stale_seconds
    known = snapshot.cached_with_pending(
        ("queue input", stale_seconds), lambda: queue_input(snapshot, slo, stale_seconds)
    )
    given = known.with_new(
        promise,
        # A container that was just admitted has not waited yet; one without a promise has no claim on others.
        np.inf if promise is _NO_PROMISE else 0.0,
        demand,
        (refused == Rejection.NOT) & has_capacity(snapshot),
    )
    terms = rules.terms(given.instances, settings, snapshot.seed)
    found = QueuePass(given.hosts, given.instances, terms, snapshot.seed).rank(given.rows.size - 1)
    near = instances_near(snapshot, request.service) if request.spread else np.zeros(refused.size)
    points_of = np.full(refused.size, np.nan)
    points_of[found.fits] = found.points - _POINTS * near[found.fits]
    fits = np.flatnonzero(~np.isnan(points_of))
    fits = fits[stable_argsort(-points_of[fits])]
    rows, points = np.concatenate((fits, found.with_room)), points_of[fits]
    below = np.arange(found.with_room.size) + 1.0 - min(points.min(initial=0.0), 0.0)
    refused = without_room(refused, free_of_allocated(snapshot), demand)
    refused[refused == Rejection.NOT] = Rejection.NEEDS_ROOM
    refused[rows] = Rejection.NOT
    build = _Actions(snapshot, slo, rules, settings)

    def needs(row: int) -> tuple[Action, ...]:
        claim = Claim(request.service or "the request", promise, 0.0)
        victims = found.victims(row) if row in found.with_room else []
        return tuple(build.stop(int(given.rows[each]), claim) for each in victims)

    def explain(row: int) -> tuple[str, ...]:
        reasons = []
        if row in found.with_room:
            reasons.append(f"{counted(len(found.victims(row)), 'container')} must be stopped first")
        else:
            score = points_of[row] + _POINTS * near[row]
            reasons.append(f"{score:.2f} of {_POINTS:g} points for free and evenly reserved CPU and memory")
        return (*reasons, same_domain(near[row])) if near[row] else tuple(reasons)

    return Ranking(
        rows=rows,
        scores=np.concatenate((points, -below)),
        score_is=(
            f"0 to {_POINTS:g} points for free and evenly reserved CPU and memory, less {_POINTS:g} per task"
            " of the service to spread; below 0, and in order, where containers must be stopped first"
        ),
        refused=refused,
        explain=explain,
        needs=needs,
    )


def nodes_to_preempt_on(
    snapshot: Snapshot,
    pod: str,
    request: Request,
    victims: Mapping[str, Sequence[str]],
    settings: QosSettings,
) -> frozenset[str]:
    """Return the nodes whose victims lose least, of the nodes where all victims may be stopped for a pod.

    `pod` is the id of the waiting pod, and `victims` are containers by node. Kube-scheduler decides about
    victims without a promise. A pod without a promise is not urgent: no pod with a promise is stopped for it.
    """
    slo = snapshot.part(TaskPromises)
    if slo is None:
        return frozenset(victims)
    queue = queue_input(snapshot, slo, settings.stale_seconds)
    place = {int(row): place for place, row in enumerate(queue.rows)}
    promised = {
        node: [place[row] for each in containers if (row := snapshot.tasks.index.get(each, NOWHERE)) in place]
        for node, containers in victims.items()
    }
    free = frozenset(node for node, rows in promised.items() if not rows)
    own = place.get(snapshot.tasks.index.get(pod, NOWHERE))
    if free:
        return free
    if own is None:
        promise = next((each for each in slo.promises if each.name == request.labels.get(SLO_LABEL)), None)
        if promise is None:
            return frozenset()
        # A pod that was just created, and that no driver has listed yet.
        everywhere = np.ones(queue.hosts.capacity.shape[0], dtype=np.bool_)
        own, queue = queue.rows.size, queue.with_new(promise, 0.0, reservation_of(request), everywhere)
    # Apart from promises, kube-scheduler decides whether a pod may be stopped.
    anyone = np.ones(queue.rows.size, dtype=np.bool_)
    terms = qos_terms(replace(queue.instances, may_stop=anyone), settings)
    limits, slack = terms.limits[terms.level[own]], terms.slack[own]
    costs = {
        node: terms.costs[:, rows].sum(axis=1).tolist()
        for node, rows in promised.items()
        if (limits[rows] > slack).all()
    }
    least: list[float] = min(costs.values(), default=[])
    return frozenset(node for node, cost in costs.items() if cost == least)


_RULES = QueueRules(qos_terms, _stop_reason)

QOS_DRIVEN = Policy(
    name="qos-driven",
    summary="start and stop containers by how long each can wait before its promise of availability breaks",
    for_whom="full clusters where containers wait, and availability is promised by class",
    settings=QosSettings,
    keeps_promises=True,
    timer_seconds=_PERIOD_SECONDS,
    place=partial(rank_by_queue, _RULES),
    rebalance=partial(pass_over_queue, _RULES),
    preempt=nodes_to_preempt_on,
)

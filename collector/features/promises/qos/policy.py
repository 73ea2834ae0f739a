"""`qos-driven`, which schedules by promises of availability, and `priority`, its baseline.

With `qos-driven`, containers start, and are stopped for others, by how long each can wait before its promise
breaks; with `priority`, by the importance of their class alone, as in Kubernetes. Decisions are about
reservations, never about use. The thesis' rules are in `rules`, the pass over the queue is in `queue_pass`.

Beyond the thesis: daemons, containers that may not be moved and those without a promise are never stopped; a
node that does not report, is closed or has an open alert gets and loses nothing; and a hold keeps containers
from being exchanged every period (`exact` switches it off).
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from collector.common.text import counted
from collector.features.promises.ledger.promises import Promise
from collector.features.promises.qos.preemption import nodes_to_preempt_on
from collector.features.promises.qos.queue import Assignment, Outcome, Terms
from collector.features.promises.qos.queue_pass import QueuePass
from collector.features.promises.qos.rules import priority_terms, qos_terms
from collector.features.promises.qos.settings import PrioritySettings, QosSettings
from collector.features.promises.qos.snapshots import QueueInput, has_capacity, queue_input
from collector.features.promises.qos.wording import describe_slack, start_reasons, stop_reason
from collector.features.promises.settings import SLO_LABEL
from collector.features.promises.snapshot import TaskPromises, unpromised
from collector.policies.actions import Action, Kill, Start
from collector.policies.distance import Spans
from collector.policies.filters import eligible, free_of_allocated, without_room
from collector.policies.interface import Plan, Policy, Ranking, Rejection, Request
from collector.policies.overbooking import reservation_of, reserved_quantities
from collector.policies.scoring import instances_near, same_domain
from collector.policies.sorting import stable_argsort
from collector.policies.stability import estimate_watts
from collector.snapshot.power_curves import Rows
from collector.snapshot.tables import Snapshot

_POINTS = 10.0
_PERIOD_SECONDS = 30.0
"""As in the authors' own logs: a shorter period exchanges containers more often than it helps."""
_NO_PROMISE = Promise(name="", availability=1.0, importance=np.iinfo(np.int32).max)

MakeTerms = Callable[[QueueInput, Any, int], Terms]
"""From the input, the settings and a seed."""


def _qos(given: QueueInput, settings: QosSettings, seed: int) -> Terms:
    return qos_terms(
        given.instances,
        given.standing,
        margin_seconds=settings.margin_seconds,
        limits_overhead=settings.limits_overhead,
        is_exact=settings.exact,
        seed=seed,
    )


def _priority(given: QueueInput, _settings: PrioritySettings, _seed: int) -> Terms:
    return priority_terms(given.instances, given.standing)


def _rebalance(make_terms: MakeTerms, snapshot: Snapshot, settings: PrioritySettings) -> Plan:
    """Run one pass over the queue."""
    promises = snapshot.part(TaskPromises)
    if promises is None or not snapshot.waiting.size:
        return Plan()
    ratio = settings.sample_ratio if isinstance(settings, QosSettings) else 1.0
    held: set[int] = set()
    while True:
        given = queue_input(snapshot, promises, settings.stale_seconds, held)
        terms = make_terms(given, settings, snapshot.seed)
        outcome = QueuePass(given.hosts, given.instances, terms, snapshot.seed, ratio).run()
        stray = _too_far(snapshot, outcome, given.rows)
        if not stray:
            break
        held |= stray
    build = _Actions(snapshot, promises, settings)
    actions = [action for each in outcome.assignments for action in build.of(each, given.rows)]
    # An assignment may use room that the victims of a later one leave.
    actions.sort(key=lambda action: isinstance(action, Start))
    before, after = estimate_watts(snapshot, actions)
    left = len(outcome.left)
    return Plan(
        actions=tuple(actions),
        left=(f"no node has room for {counted(left, 'waiting container')}",) if left else (),
        watts_before=before,
        watts_after=after,
        operations=outcome.operations,
    )


def _too_far(snapshot: Snapshot, outcome: Outcome, rows: Rows) -> set[int]:
    """Return the tasks that would start too far from a member of their application that starts as well.

    They wait for the next pass, when that member runs.
    """
    spans, home = Spans(snapshot), snapshot.tasks.node.copy()
    stray = set()
    for each in outcome.assignments:
        task = int(rows[each.instance])
        near = spans.open_to(task, home)
        if near is not None and not near[each.host]:
            stray.add(task)
        else:
            home[task] = each.host
    return stray


class _Actions:
    """The stops and the start of an assignment, with their reasons."""

    def __init__(self, snapshot: Snapshot, slo: TaskPromises, settings: PrioritySettings) -> None:
        self._snapshot, self._slo = snapshot, slo
        self._margin_seconds = settings.margin_seconds if isinstance(settings, QosSettings) else None

    def of(self, assignment: Assignment, rows: Rows) -> Iterator[Action]:
        task, node = int(rows[assignment.instance]), self._snapshot.nodes.names[assignment.host]
        tasks, promise = self._snapshot.tasks, self._slo.promises[self._slo.promise[task]]
        slack = float(self._slo.slack_seconds[task])
        for victim in assignment.victims:
            yield self.stop(int(rows[victim]), tasks.names[task], promise, slack)
        yield Start(
            task=tasks.ids[task],
            name=tasks.names[task],
            target=node,
            reasons=start_reasons(promise, slack, node, len(assignment.victims)),
        )

    def stop(self, victim: int, name: str, promise: Promise, slack: float) -> Kill:
        """Stop a container for one that has this name, promise and slack."""
        tasks = self._snapshot.tasks
        own = self._slo.promises[self._slo.promise[victim]]
        own_slack = float(self._slo.slack_seconds[victim])
        if self._margin_seconds is None:
            reason = f"{name} has a more important promise: {promise.name} instead of {own.name}"
        else:
            rule = 1 if own_slack >= self._margin_seconds else 2 if promise.importance < own.importance else 3
            reason = stop_reason(rule, describe_slack(own_slack), name, slack)
        return Kill(
            task=tasks.ids[victim],
            name=tasks.names[victim],
            node=self._snapshot.nodes.names[tasks.node[victim]],
            target=None,
            reasons=(reason,),
        )


def _place(
    make_terms: MakeTerms, snapshot: Snapshot, request: Request, settings: PrioritySettings
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
    given = _queue_input(snapshot, slo, settings).with_new(
        promise,
        # A container that was just admitted has not waited yet; one without a promise has no claim on others.
        np.inf if promise is _NO_PROMISE else 0.0,
        demand,
        (refused == Rejection.NOT) & has_capacity(snapshot),
    )
    terms = make_terms(given, settings, snapshot.seed)
    found = QueuePass(given.hosts, given.instances, terms, snapshot.seed).rank(given.rows.size - 1)
    near = instances_near(snapshot, request.service) if request.spread else np.zeros(refused.size)
    points_of = np.full(refused.size, np.nan)
    points_of[found.fits] = found.points - _POINTS * near[found.fits]
    fits = np.flatnonzero(~np.isnan(points_of))
    fits = fits[stable_argsort(-points_of[fits])]
    rows, points = np.concatenate((fits, found.with_room)), points_of[fits]
    below = np.arange(found.with_room.size) + 1.0 - min(points.min(initial=0.0), 0.0)
    refused = without_room(refused, free_of_allocated(snapshot), reserved_quantities(demand))
    refused[refused == Rejection.NOT] = Rejection.NEEDS_ROOM
    refused[rows] = Rejection.NOT
    build = _Actions(snapshot, slo, settings)

    def needs(row: int) -> tuple[Action, ...]:
        name = request.service or "the request"
        victims = found.victims(row) if row in found.with_room else []
        return tuple(build.stop(int(given.rows[each]), name, promise, 0.0) for each in victims)

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


def _queue_input(snapshot: Snapshot, slo: TaskPromises, settings: PrioritySettings) -> QueueInput:
    """Return the instances of a snapshot, computed once for the requests on it."""
    stale_seconds = settings.stale_seconds
    return snapshot.cached_with_pending(
        ("queue input", stale_seconds), lambda: queue_input(snapshot, slo, stale_seconds)
    )


QOS_DRIVEN = Policy(
    name="qos-driven",
    summary="start and stop containers by how long each can wait before its promise of availability breaks",
    settings=QosSettings,
    keeps_promises=True,
    timer_seconds=_PERIOD_SECONDS,
    place=partial(_place, _qos),
    rebalance=partial(_rebalance, _qos),
    preempt=nodes_to_preempt_on,
)
PRIORITY = Policy(
    name="priority",
    summary="start and stop containers by the importance of their promise alone, first come first served",
    settings=PrioritySettings,
    keeps_promises=True,
    timer_seconds=_PERIOD_SECONDS,
    place=partial(_place, _priority),
    rebalance=partial(_rebalance, _priority),
)

"""Where kube-scheduler may preempt pods: their promises decide, by the rules of `qos-driven`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from collector.policies.interface import Request
from collector.policies.overbooking import reservation_of
from collector.policies.qos.rules import qos_terms
from collector.policies.qos.settings import QosSettings
from collector.policies.qos.snapshots import QueueInput, queue_input
from collector.slo.promises import Promise
from collector.snapshot.tables import NOWHERE, Snapshot

Cost = tuple[float, ...]


def nodes_to_preempt_on(
    snapshot: Snapshot,
    pod: str,
    request: Request,
    victims: Mapping[str, Sequence[str]],
    settings: QosSettings,
) -> frozenset[str]:
    """Return the nodes whose victims lose least, of those where all of them may be stopped for a pod.

    `pod` is the id under which it waits, and victims are containers, by node. Those without a promise are
    left to kube-scheduler. A pod without a promise is not urgent: no pod that has one is stopped for it.
    """
    slo = snapshot.slo
    if slo is None:
        return frozenset(victims)
    given = queue_input(snapshot, slo, settings.stale_seconds)
    place = {int(row): place for place, row in enumerate(given.rows)}
    promised = {
        node: [place[row] for each in containers if (row := snapshot.tasks.index.get(each, NOWHERE)) in place]
        for node, containers in victims.items()
    }
    free = frozenset(node for node, rows in promised.items() if not rows)
    own = place.get(snapshot.tasks.index.get(pod, NOWHERE))
    if free:
        return free
    if own is None:
        promise = next((each for each in slo.promises if each.name == request.slo), None)
        if promise is None:
            return frozenset()
        own, given = given.rows.size, _with_new(given, promise, request)
    costs = _costs(given, own, promised, settings)
    least = min(costs.values(), default=())
    return frozenset(node for node, cost in costs.items() if cost == least)


def _with_new(given: QueueInput, promise: Promise, request: Request) -> QueueInput:
    """Add a pod that was just created, and that no driver has listed yet."""
    everywhere = np.ones(given.hosts.capacity.shape[0], dtype=np.bool_)
    return given.with_new(promise, 0.0, reservation_of(request), everywhere)


def _costs(
    given: QueueInput, pod: int, victims: Mapping[str, Sequence[int]], settings: QosSettings
) -> dict[str, Cost]:
    """Return what the victims of each node lose; nodes where one of them must not be stopped are left out."""
    # Whether a pod may be stopped at all, promises apart, is for kube-scheduler to say.
    anyone = np.ones(given.rows.size, dtype=np.bool_)
    terms = qos_terms(
        given.instances,
        replace(given.standing, may_stop=anyone),
        margin_seconds=settings.margin_seconds,
        limits_overhead=settings.limits_overhead,
        is_exact=settings.exact,
    )
    limits, slack = terms.limits[terms.level[pod]], terms.slack[pod]
    return {
        node: tuple(terms.costs[:, rows].sum(axis=1).tolist())
        for node, rows in victims.items()
        if (limits[list(rows)] > slack).all()
    }

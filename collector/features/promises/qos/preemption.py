"""The nodes on which kube-scheduler may preempt pods, by their promises and the rules of `qos-driven`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from collector.features.promises.ledger.promises import Promise
from collector.features.promises.qos.rules import qos_terms
from collector.features.promises.qos.settings import QosSettings
from collector.features.promises.qos.snapshots import QueueInput, queue_input
from collector.features.promises.settings import SLO_LABEL
from collector.features.promises.snapshot import TaskPromises
from collector.policies.interface import Request
from collector.policies.overbooking import reservation_of
from collector.snapshot.tables import NOWHERE, Snapshot

Cost = tuple[float, ...]


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
        own, queue = queue.rows.size, _add_pod(queue, promise, request)
    costs = _costs(queue, own, promised, settings)
    least = min(costs.values(), default=())
    return frozenset(node for node, cost in costs.items() if cost == least)


def _add_pod(queue: QueueInput, promise: Promise, request: Request) -> QueueInput:
    """Add a pod that was just created, and that no driver has listed yet."""
    everywhere = np.ones(queue.hosts.capacity.shape[0], dtype=np.bool_)
    return queue.with_new(promise, 0.0, reservation_of(request), everywhere)


def _costs(
    queue: QueueInput, pod: int, victims: Mapping[str, Sequence[int]], settings: QosSettings
) -> dict[str, Cost]:
    """Return the cost of stopping the victims of each node, without nodes where one must not be stopped."""
    # Apart from promises, kube-scheduler decides whether a pod may be stopped.
    anyone = np.ones(queue.rows.size, dtype=np.bool_)
    terms = qos_terms(
        queue.instances,
        replace(queue.standing, may_stop=anyone),
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

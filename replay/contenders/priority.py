"""`priority`: the baseline of `qos-driven`.

Containers start, and are stopped for others, by the importance of their class alone, as in Kubernetes.
"""

from functools import partial

import numpy as np

from collector.decide.policies.interface import Policy
from collector.features.promises.qos.policy import (
    QOS_DRIVEN,
    Claim,
    QueueRules,
    pass_over_queue,
    rank_by_queue,
)
from collector.features.promises.qos.queue import Instances, Terms
from collector.features.promises.qos.rules import QueueSettings, levels_of
from collector.snapshot.tables import NOWHERE


def priority_terms(instances: Instances, _settings: QueueSettings | None = None, _seed: int = 0) -> Terms:
    """Return the terms of `priority`: the importance of a class alone decides, first come first served."""
    level, count = levels_of(instances.importance)
    limits = np.where(level > np.arange(count)[:, np.newaxis], np.inf, -np.inf)
    limits[:, ~instances.may_stop] = -np.inf
    waits = np.flatnonzero(instances.host == NOWHERE)
    admitted = instances.admitted_seconds
    order = np.empty(level.size)
    # The least important ones are stopped first, and of those the ones admitted last.
    order[np.lexsort((-admitted, level))] = np.arange(level.size)
    return Terms(
        queue=waits[np.lexsort((-admitted[waits], level[waits]))],
        level=level,
        slack=np.zeros(level.size),
        limits=limits,
        order=order,
        # Fewest victims of the most important class first. The last row is for those above a margin.
        costs=(level == np.arange(count + 1)[:, np.newaxis]).astype(np.float64),
        is_safe=np.zeros(level.size, dtype=np.bool_),
    )


def _stop_reason(victim: Claim, beneficiary: Claim, _settings: QueueSettings) -> str:
    classes = f"{beneficiary.promise.name} instead of {victim.promise.name}"
    return f"{beneficiary.name} has a more important promise: {classes}"


_RULES = QueueRules(priority_terms, _stop_reason)

PRIORITY = Policy(
    name="priority",
    summary="start and stop containers by the importance of their promise alone, first come first served",
    settings=QueueSettings,
    keeps_promises=True,
    timer_seconds=QOS_DRIVEN.timer_seconds,
    place=partial(rank_by_queue, _RULES),
    rebalance=partial(pass_over_queue, _RULES),
)

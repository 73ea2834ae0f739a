"""Promises for the tasks of a snapshot."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from collector.features.promises.ledger.promises import Promise
from collector.features.promises.snapshot import TaskPromises
from collector.snapshot.tables import NOWHERE, Snapshot

CLASSES = (
    Promise(name="gold", availability=1.0, importance=1),
    Promise(name="silver", availability=0.9, importance=2),
    Promise(name="bronze", availability=0.5, importance=3),
)
GOLD, SILVER, BRONZE = range(3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Promised:
    """How the promise of one task stands."""

    promise: int = SILVER
    slack_seconds: float = 100.0
    startup_seconds: float = 0.0


def with_promises(snapshot: Snapshot, promised: Mapping[str, Promised]) -> Snapshot:
    """The same snapshot with promises to some of its tasks."""
    ids, none = snapshot.tasks.ids, Promised(promise=NOWHERE, slack_seconds=np.nan)
    rows = [promised.get(name, none) for name in ids]
    nothing = np.zeros(len(ids))
    slo = TaskPromises(
        promises=CLASSES,
        promise=np.array([each.promise for each in rows], dtype=np.int8),
        slack_seconds=np.array([each.slack_seconds for each in rows], dtype=np.float64),
        preemption_ratio=nothing,
        startup_seconds=np.array([each.startup_seconds for each in rows], dtype=np.float64),
        admitted_seconds=nothing + 100.0,
        is_spare=np.zeros(len(ids), dtype=np.bool_),
    )
    return snapshot.with_part(slo)

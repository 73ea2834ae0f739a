from dataclasses import replace

import numpy as np

from collector.features.promises.ledger.promises import Promise
from collector.features.promises.snapshot import TaskPromises, WaitingPromises, unpromised
from collector.snapshot.pending import with_waiting
from tests.collector.snapshot.test_waiting import SNAPSHOT, WAITING


def test_the_promises_of_waiting_tasks_come_after_those_of_running_ones() -> None:
    silver = (Promise(name="silver", availability=0.9, importance=2),)
    waiting = replace(
        unpromised(silver, 3),
        promise=np.array([0, 0, -1], dtype=np.int8),
        admitted_seconds=np.array([1.0, 3.0, 0]),
    )
    promises = unpromised(silver, 1)
    # The first of those that wait runs again.
    known = replace(promises, waiting=WaitingPromises({"2": 0, "4": 1}, waiting))
    more = with_waiting(SNAPSHOT.with_part(known), WAITING).part(TaskPromises)
    assert more is not None
    assert more.promises == silver
    assert more.promise.tolist() == [-1, 0, -1, 0]
    assert more.admitted_seconds.tolist() == [0, 1, 0, 3]
    unknown = with_waiting(SNAPSHOT.with_part(promises), WAITING).part(TaskPromises)
    assert unknown is not None
    assert unknown.promise.tolist() == [-1] * 4
    assert with_waiting(SNAPSHOT, WAITING).part(TaskPromises) is None

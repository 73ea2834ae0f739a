"""Submissions of services to a cluster: `second,task,class,availability,cpu,memory_gb`.

As in the validation of QoS-driven scheduling. Each service is one container that stays. A class with a higher
promise is more important.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path

import numpy as np

from collector.features.promises.ledger.promises import Promise
from replay.readers.period import Period
from replay.readers.queues.rows import not_negative, read_rows
from replay.readers.queues.workload import queued_workload
from replay.setup.scenario import Machines
from replay.setup.workload import Workload
from wire.errors import UserError

_COLUMNS = ("second", "task", "class", "availability", "cpu", "memory_gb")
_GIBIBYTE = float(1 << 30)


@dataclass(frozen=True, slots=True)
class _Submission:
    second: float
    task: str
    promise: str
    availability: float
    cpu: float
    memory_gb: float


def read(path: Path, machines: Sequence[Machines], period: Period | None = None) -> Workload:
    """Read all services of the file, up to the end of the hour of the last one."""
    del machines  # sizes are in the file
    submissions = sorted(read_rows(path, _COLUMNS, _parse), key=lambda each: each.second)
    promised = {each.promise: each.availability for each in submissions}
    if any(promised[each.promise] != each.availability for each in submissions):
        raise UserError(f"{path}: all services of a class must have the same availability")
    classes = sorted(promised, key=lambda name: (-promised[name], name))
    count = len(submissions)
    return queued_workload(
        path,
        names=[f"{each.promise}-{each.task}" for each in submissions],
        services=[f"{each.promise}-{each.task}" for each in submissions],
        cores=np.array([each.cpu for each in submissions]),
        memory_bytes=np.array([each.memory_gb for each in submissions]) * _GIBIBYTE,
        arrival_seconds=np.array([each.second for each in submissions]),
        lifetime_seconds=np.full(count, inf),
        promises=tuple(
            Promise(name=name, availability=promised[name], importance=place)
            for place, name in enumerate(classes, start=1)
        ),
        promise=np.array([classes.index(each.promise) for each in submissions], dtype=np.int8),
        spread=np.zeros(count, dtype=np.bool_),
        constraints=(),
        period=period,
    )


def _parse(row: Mapping[str, str]) -> _Submission:
    availability = float(row["availability"])
    if not 0 < availability <= 1:
        raise ValueError(f"availability {row['availability']} is not above 0 and up to 1")
    return _Submission(
        second=not_negative(row["second"]),
        task=row["task"],
        promise=row["class"],
        availability=availability,
        cpu=not_negative(row["cpu"]),
        memory_gb=not_negative(row["memory_gb"]),
    )

"""Requests to a cluster: `second,task,job,duration_seconds,cpu,memory,priority,anti_affinity,constraints`.

As in the study of QoS-driven scheduling, from Google's trace of 2011. Amounts are shares of the largest
machine, priorities are Google's 0 to 11, and constraints are `attribute operator value`, separated by
semicolons. A job is a service, and each of its tasks has its own promise. A job with tasks of several classes
becomes a service per class.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from collector.features.promises.ledger.promises import Promise
from collector.snapshot.constraints import Constraint, Operator
from replay.readers.google2011 import WHOLE
from replay.readers.period import Period
from replay.readers.queues.rows import not_negative, read_rows
from replay.readers.queues.workload import queued_workload
from replay.setup.hosts import MEBIBYTE
from replay.setup.scenario import MIPS_PER_CORE, Machines
from replay.setup.workload import Workload

_COLUMNS = (
    "second",
    "task",
    "job",
    "duration_seconds",
    "cpu",
    "memory",
    "priority",
    "anti_affinity",
    "constraints",
)
PROMISES = (
    Promise(name="A", availability=1.0, importance=1),
    Promise(name="B", availability=0.9, importance=2),
    Promise(name="C", availability=0.5, importance=3),
)
_LOWEST_PRIORITY_OF_A, _LOWEST_PRIORITY_OF_B, _HIGHEST_PRIORITY = 9, 2, 11
_NOT_EQUAL = "/="
_PARTS = 3


@dataclass(frozen=True, slots=True)
class _Request:
    second: float
    task: str
    job: str
    duration_seconds: float
    cpu: float
    memory: float
    promise: int
    spread: bool
    constraints: tuple[Constraint, ...]


def read(path: Path, machines: Sequence[Machines], period: Period | None = None) -> Workload:
    """Read all requests of the file, up to the end of the hour of the last one."""
    whole = machines[0] if machines else WHOLE
    requests = sorted(read_rows(path, _COLUMNS, _parse), key=lambda each: each.second)
    cpu, memory = (np.array([getattr(each, name) for each in requests]) for name in ("cpu", "memory"))
    return queued_workload(
        path,
        names=[each.task for each in requests],
        services=_services(requests),
        cores=cpu * whole.cpu_mips / MIPS_PER_CORE,
        memory_bytes=memory * whole.memory_mb * MEBIBYTE,
        arrival_seconds=np.array([each.second for each in requests]),
        lifetime_seconds=np.array([each.duration_seconds for each in requests]),
        promises=PROMISES,
        promise=np.array([each.promise for each in requests], dtype=np.int8),
        spread=np.array([each.spread for each in requests], dtype=np.bool_),
        constraints=tuple(each.constraints for each in requests),
        period=period,
    )


def _parse(row: Mapping[str, str]) -> _Request:
    duration = not_negative(row["duration_seconds"])
    if not duration:
        raise ValueError("the duration of a request must be above 0")
    return _Request(
        second=not_negative(row["second"]),
        task=row["task"],
        job=row["job"],
        duration_seconds=duration,
        cpu=not_negative(row["cpu"]),
        memory=not_negative(row["memory"]),
        promise=_promise(int(row["priority"])),
        spread=bool(int(row["anti_affinity"] or 0)),
        constraints=tuple(_constraint(each) for each in row["constraints"].split(";") if each.strip()),
    )


def _promise(priority: int) -> int:
    if not 0 <= priority <= _HIGHEST_PRIORITY:
        raise ValueError(f"priority {priority} is not one of 0 to {_HIGHEST_PRIORITY}")
    return (priority < _LOWEST_PRIORITY_OF_A) + (priority < _LOWEST_PRIORITY_OF_B)


def _constraint(text: str) -> Constraint:
    parts = text.split()
    if len(parts) != _PARTS:
        raise ValueError(f"a constraint is an attribute, an operator and a value: {text!r}")
    label, operator, value = parts
    return Constraint(label, Operator("!=" if operator == _NOT_EQUAL else operator), value)


def _services(requests: Sequence[_Request]) -> list[str]:
    classes: dict[str, set[int]] = defaultdict(set)
    for each in requests:
        classes[each.job].add(each.promise)
    return [
        each.job if len(classes[each.job]) == 1 else f"{each.job}-{PROMISES[each.promise].name}"
        for each in requests
    ]

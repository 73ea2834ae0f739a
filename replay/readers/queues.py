"""CSV files with a header: workloads whose containers wait in a queue, and what such a scenario needs.

`requests` is `second,task,job,duration_seconds,cpu,memory,priority,anti_affinity,constraints`, as in the
study of QoS-driven scheduling, from Google's trace of 2011. Amounts are shares of the largest machine,
priorities are Google's 0 to 11, and constraints are `attribute operator value`, separated by semicolons. A
job is a service, and each of its tasks has its own promise. A job with tasks of several classes becomes a
service per class.

`submissions` is `second,task,class,availability,cpu,memory_gb`, as in the validation of that study. Each
service is one container that stays. A class with a higher promise is more important.

Hosts are `host,cpu,memory,attributes`, as shares of the largest machine. Attributes are `name=value`,
separated by semicolons. The power of these hosts is unknown and counts as 0.
"""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from sys import float_info
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from collector.common.arrays import Floats
from collector.features.promises.ledger.promises import Promise
from collector.snapshot.constraints import Constraint, Operator
from replay.generators.arrivals import STEP_SECONDS, Arrivals
from replay.readers.files import read_rows
from replay.readers.google2011 import WHOLE
from replay.readers.samples import Period
from replay.setup.hosts import MEBIBYTE
from replay.setup.scenario import MIPS_PER_CORE, Host, Machines
from replay.setup.workload import PromisedContainers, Reserved, Workload, build_workload, columns
from wire.errors import UserError

PROMISES = (
    Promise(name="A", availability=1.0, importance=1),
    Promise(name="B", availability=0.9, importance=2),
    Promise(name="C", availability=0.5, importance=3),
)
_LOWEST_PRIORITY_OF_A, _LOWEST_PRIORITY_OF_B, _HIGHEST_PRIORITY = 9, 2, 11
_HOUR_SECONDS = 3600.0
_STEP_SECONDS = 60.0
_GIBIBYTE = float(1 << 30)
_NO_WATTS = (0.0, 0.0)
_FEWEST_ARRIVALS = 2

_NotNegative = Annotated[float, Meta(ge=0, le=float_info.max)]
_Positive = Annotated[float, Meta(gt=0, le=float_info.max)]
"""Finite numbers."""


class _Request(msgspec.Struct):
    second: _NotNegative
    task: str
    job: str
    duration_seconds: _Positive
    cpu: _NotNegative
    memory: _NotNegative
    priority: Annotated[int, Meta(ge=0, le=_HIGHEST_PRIORITY)]
    anti_affinity: str
    constraints: str
    rules: tuple[Constraint, ...] = ()
    spread: bool = False

    def __post_init__(self) -> None:
        self.rules = tuple(_constraint(each) for each in self.constraints.split(";") if each.strip())
        self.spread = bool(int(self.anti_affinity or 0))

    @property
    def promise(self) -> int:
        return (self.priority < _LOWEST_PRIORITY_OF_A) + (self.priority < _LOWEST_PRIORITY_OF_B)


class _Submission(msgspec.Struct):
    second: _NotNegative
    task: str
    promise: str = msgspec.field(name="class")
    availability: Annotated[float, Meta(gt=0, le=1)]
    cpu: _NotNegative
    memory_gb: _NotNegative


class _Host(msgspec.Struct):
    host: Annotated[str, Meta(min_length=1)]
    cpu: _Positive
    memory: _Positive
    attributes: str
    labels: dict[str, str] = {}

    def __post_init__(self) -> None:
        pairs = [pair.partition("=") for pair in self.attributes.split(";") if pair]
        if any(not equals for _, equals, _ in pairs):
            raise ValueError(f"attributes are name=value, separated by semicolons: {self.attributes}")
        self.labels = {name: value for name, _, value in pairs}


class _Seconds(msgspec.Struct):
    seconds: _NotNegative


class _Arrival(msgspec.Struct):
    seconds: _NotNegative
    requests_per_second: _NotNegative


def _constraint(text: str) -> Constraint:
    try:
        label, operator, value = text.split()
    except ValueError:
        raise ValueError(f"a constraint is an attribute, an operator and a value: {text!r}") from None
    return Constraint(label, Operator("!=" if operator == "/=" else operator), value)


def read_requests(path: Path, machines: Sequence[Machines], period: Period | None = None) -> Workload:
    """Read all requests of the file, up to the end of the hour of the last one."""
    whole = machines[0] if machines else WHOLE
    requests = sorted(read_rows(path, _Request), key=lambda each: each.second)
    classes: defaultdict[str, set[int]] = defaultdict(set)
    for each in requests:
        classes[each.job].add(each.promise)
    services = [
        each.job if len(classes[each.job]) == 1 else f"{each.job}-{PROMISES[each.promise].name}"
        for each in requests
    ]
    return _workload(
        path,
        requests,
        period,
        names=[each.task for each in requests],
        services=services,
        cores=np.array([each.cpu for each in requests]) * whole.cpu_mips / MIPS_PER_CORE,
        memory_bytes=np.array([each.memory for each in requests]) * whole.memory_mb * MEBIBYTE,
        lifetime_seconds=np.array([each.duration_seconds for each in requests]),
        promises=PROMISES,
        promise=[each.promise for each in requests],
        spread=[each.spread for each in requests],
        constraints=[each.rules for each in requests],
    )


def read_submissions(path: Path, _machines: Sequence[Machines], period: Period | None = None) -> Workload:
    """Read all services of the file, up to the end of the hour of the last one; it has their sizes."""
    submissions = sorted(read_rows(path, _Submission), key=lambda each: each.second)
    promised = {each.promise: each.availability for each in submissions}
    if any(promised[each.promise] != each.availability for each in submissions):
        raise UserError(f"{path}: all services of a class must have the same availability")
    classes = sorted(promised, key=lambda name: (-promised[name], name))
    names = [f"{each.promise}-{each.task}" for each in submissions]
    return _workload(
        path,
        submissions,
        period,
        names=names,
        services=names,
        cores=np.array([each.cpu for each in submissions]),
        memory_bytes=np.array([each.memory_gb for each in submissions]) * _GIBIBYTE,
        lifetime_seconds=np.full(len(names), np.inf),
        promises=tuple(
            Promise(name=name, availability=promised[name], importance=place)
            for place, name in enumerate(classes, start=1)
        ),
        promise=[classes.index(each.promise) for each in submissions],
        spread=[False] * len(names),
        constraints=[()] * len(names),
    )


def _workload(  # noqa: PLR0913 - the columns of a workload
    path: Path,
    rows: Sequence[_Request | _Submission],
    period: Period | None,
    *,
    names: Sequence[str],
    services: Sequence[str],
    cores: Floats,
    memory_bytes: Floats,
    lifetime_seconds: Floats,
    promises: tuple[Promise, ...],
    promise: Sequence[int],
    spread: Sequence[bool],
    constraints: Sequence[tuple[Constraint, ...]],
) -> Workload:
    """A workload of all rows in the period, up to the end of the hour of the last arrival.

    Rows are in order of arrival. Ids begin with the number of the row, so that they sort in the same order.
    """
    if not names:
        raise UserError(f"{path} has no requests")
    if len(set(names)) != len(names):
        raise UserError(f"{path}: a task occurs twice")
    arrival_seconds = np.array([each.second for each in rows])
    kept = np.arange(len(names)) if period is None else np.flatnonzero(period.covers(arrival_seconds))
    if not kept.size:
        raise UserError(f"{path} has no requests in the requested period")
    width = len(str(len(names)))
    # Whole bytes, as agents report them.
    requested = columns(cores[kept], np.rint(memory_bytes[kept]), rest=np.nan, count=kept.size)
    return build_workload(
        [f"{place:0{width}}-{names[place]}" for place in kept.tolist()],
        requested,
        Reserved(requested),
        services=tuple(services[place] for place in kept.tolist()),
        duration_seconds=_HOUR_SECONDS * (float(arrival_seconds[kept].max()) // _HOUR_SECONDS + 1),
        step_seconds=_STEP_SECONDS,
        arrival_seconds=arrival_seconds[kept],
        lifetime_seconds=lifetime_seconds[kept],
        jobs_stretch=False,
        constraints=tuple(constraints[place] for place in kept.tolist()) if any(constraints) else (),
        promised=PromisedContainers(
            promises=promises,
            promise=np.array(promise, dtype=np.int8)[kept],
            spread=np.array(spread, dtype=np.bool_)[kept],
        ),
    )


def read_hosts(path: Path, whole: Machines = WHOLE) -> tuple[Host, ...]:
    """Read every host of the file; `whole` is the size of the largest machine."""
    hosts = tuple(
        Host(
            name=each.host,
            cpu_cores=each.cpu * whole.cpu_mips / MIPS_PER_CORE,
            memory_mb=each.memory * whole.memory_mb,
            watts=_NO_WATTS,
            labels=each.labels,
        )
        for each in read_rows(path, _Host)
    )
    if not hosts:
        raise UserError(f"{path} has no hosts")
    if len({host.name for host in hosts}) != len(hosts):
        raise UserError(f"{path}: two hosts have the same name")
    return hosts


def read_startup_seconds(path: Path) -> tuple[float, ...]:
    """Read measured start-up times: a CSV with the column `seconds`."""
    seconds = tuple(each.seconds for each in read_rows(path, _Seconds))
    if not seconds:
        raise UserError(f"{path} has no start-up times")
    return seconds


def read_arrivals(path: Path) -> Arrivals:
    """Read arrival rates of requests, `seconds,requests_per_second`; a rate holds until the next one.

    They end with the last row, whose rate does not count.
    """
    found = list(read_rows(path, _Arrival))
    seconds = np.array([each.seconds for each in found])
    if seconds.size < _FEWEST_ARRIVALS or np.any(np.diff(seconds) <= 0):
        raise UserError(f"{path} needs at least two rows, with ascending seconds")
    at = seconds[0] + STEP_SECONDS * np.arange(int((seconds[-1] - seconds[0]) / STEP_SECONDS))
    if not at.size:
        raise UserError(f"{path} covers less than {STEP_SECONDS:g} seconds")
    rates = np.array([each.requests_per_second for each in found])
    return Arrivals(STEP_SECONDS, rates[np.searchsorted(seconds, at, side="right") - 1])

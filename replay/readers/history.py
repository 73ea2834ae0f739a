"""A collector's own history: its hosts, and the usage of their containers.

Reads the SQLite file of a collector, which may continue to write. Nodes report changes, and everything with
every heartbeat; the usage of a container holds until its next report. Policies place every container again,
as if they had run from the beginning.

Samples are stored for some hours (`history.retention_hours`). More days are read from the sums of every five
minutes, or of every hour: whichever goes back far enough. Within a step, usage is its mean: peaks are lost,
and a container that ran for a part of it counts as less for all of it, with the same work.
"""

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from replay.readers.samples import timeline
from replay.setup.hosts import MEBIBYTE, MEGABYTE
from replay.setup.scenario import Host, Scenario
from replay.setup.workload import Workload
from wire.errors import UserError
from wire.messages import PowerCurve
from wire.resources import RESOURCES, Quantities

_STEP_SECONDS = 60.0
_ROLLUP_SECONDS = (300, 3600)
_SECONDS_PER_DAY = 86400.0
_BOOT_SECONDS = 120.0
"""Nobody told how long nodes take to boot."""
_POINTS = 41

_NODES = """
SELECT n.name, f.body FROM node_samples s
JOIN reports r ON r.id = s.report_id JOIN boots b ON b.id = r.boot_id JOIN nodes n ON n.id = b.node_id
JOIN facts f ON f.id = s.facts_id
ORDER BY s.report_id
"""
_HEARTBEATS = """
SELECT n.name, r.heartbeat FROM reports r JOIN boots b ON b.id = r.boot_id JOIN nodes n ON n.id = b.node_id
WHERE r.heartbeat IS NOT NULL ORDER BY r.id
"""
_SAMPLES = """
SELECT n.name || '/' || c.runtime_id, f.body, r.at,
       s.cpu_cores, s.memory_bytes, s.disk_bytes_per_second, s.network_bytes_per_second
FROM container_samples s JOIN reports r ON r.id = s.report_id JOIN containers c ON c.id = s.container_id
JOIN nodes n ON n.id = c.node_id JOIN facts f ON f.id = s.facts_id
ORDER BY r.at
"""
_ROLLUPS = """
SELECT n.name || '/' || c.runtime_id, f.body, r.slot * r.step,
       r.cpu_core_seconds / r.step, r.memory_byte_seconds / r.step,
       r.disk_bytes / r.step, r.network_bytes / r.step
FROM container_rollups r JOIN containers c ON c.id = r.container_id JOIN nodes n ON n.id = c.node_id
JOIN facts f ON f.id = c.facts_id
WHERE r.step = ? AND r.slot >= ? ORDER BY r.slot
"""

_Sample = tuple[str, str, float, float | None, float | None, float | None, float | None]
"""A container, its facts, when, and what it used of the four resources."""


@dataclass(frozen=True, slots=True)
class _Told:
    """What a history tells of a time, in steps of one length."""

    step_seconds: float
    samples: list[_Sample]


class _NodeFacts(msgspec.Struct):
    """What is needed of what is kept of a node."""

    capacity: Quantities = Quantities()


class _Heartbeat(msgspec.Struct):
    """The same of a heartbeat."""

    power_curve: PowerCurve | None = None


class _ContainerFacts(msgspec.Struct):
    """The same of a container."""

    name: str = ""
    limit: Quantities = Quantities()
    service: str | None = None


def read_history(path: Path, days: float | None = None) -> tuple[Scenario, Workload]:
    """The hosts as a scenario, and what ran: in so many days, or as long as samples are kept in full."""
    if not path.is_file():
        raise UserError(f"there is no history at {path}: give the collector's history.path")
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            hosts = _hosts(connection)
            told = _told(connection, days)
    except sqlite3.Error as error:
        raise UserError(f"{path} cannot be read as a collector's history: {error}") from None
    if not told.samples:
        raise UserError(f"{path} has no samples of containers yet: let agents report for a while")
    return Scenario(title="What happened here", hosts=hosts), _workload(told)


def _told(connection: sqlite3.Connection, days: float | None) -> _Told:
    samples: list[_Sample] = connection.execute(_SAMPLES).fetchall()
    if days is None or not samples:
        return _Told(_STEP_SECONDS, samples)
    since = samples[-1][2] - days * _SECONDS_PER_DAY
    step = _step_for(since, samples[0][2], connection)
    if step is not None:
        return _Told(step, connection.execute(_ROLLUPS, (step, int(since // step))).fetchall())
    return _Told(_STEP_SECONDS, [sample for sample in samples if sample[2] >= since])


def _step_for(since: float, known_from: float, connection: sqlite3.Connection) -> int | None:
    """The finest sums that go back to a moment, or else as far as any do; none if samples do."""
    found = None
    for step in _ROLLUP_SECONDS:
        (oldest,) = connection.execute(
            "SELECT min(slot) FROM container_rollups WHERE step = ?", (step,)
        ).fetchone()
        # A slot that began earlier may yet hold nothing that is older.
        if known_from > since and oldest is not None and (oldest + 1) * step < known_from:
            found, known_from = step, float(oldest * step)
    return found


def _hosts(connection: sqlite3.Connection) -> tuple[Host, ...]:
    capacities = {
        name: msgspec.json.decode(body, type=_NodeFacts).capacity for name, body in connection.execute(_NODES)
    }
    curves: dict[str, PowerCurve] = {}
    for name, body in connection.execute(_HEARTBEATS):
        curve = msgspec.json.decode(body, type=_Heartbeat).power_curve
        if curve is not None:
            curves[name] = curve
    if unknown := sorted(set(capacities) - set(curves)):
        raise UserError(
            f"{', '.join(unknown)} told no power curve yet: it comes with the heartbeats, every few minutes"
        )
    return tuple(_host(name, capacity, curves[name]) for name, capacity in sorted(capacities.items()))


def _host(name: str, capacity: Quantities, curve: PowerCurve) -> Host:
    if not capacity.cpu_cores or not capacity.memory_bytes:
        raise UserError(f"{name} did not tell how much CPU and memory it has: it cannot be simulated")
    added = np.interp(np.linspace(0.0, 1.0, _POINTS), curve.cpu_ratios, curve.cpu_watts)
    watts = tuple(float(curve.idle_watts + each) for each in added)
    disk, network = capacity.disk_bytes_per_second, capacity.network_bytes_per_second
    return Host(
        name=name,
        cpu_cores=capacity.cpu_cores,
        memory_mb=capacity.memory_bytes / MEBIBYTE,
        disk_mb_per_second=disk / MEGABYTE if disk else None,
        network_mb_per_second=network / MEGABYTE if network else None,
        watts=watts,
        memory_watts=curve.memory_watts,
        disk_watts=curve.disk_watts,
        network_watts=curve.network_watts,
        boot_seconds=_BOOT_SECONDS,
        boot_joules=_BOOT_SECONDS * watts[-1],
    )


def _workload(told: _Told) -> Workload:
    facts: dict[str, _ContainerFacts] = {}
    place: dict[str, int] = {}
    who, at, used = [], [], []
    for name, body, seconds, *values in told.samples:
        if name not in place:
            facts[name] = msgspec.json.decode(body, type=_ContainerFacts)
        who.append(place.setdefault(name, len(place)))
        at.append(seconds)
        used.append([0.0 if value is None else float(value) for value in values])
    step = (np.array(at) // told.step_seconds).astype(np.intp)
    line = timeline(np.array(who, dtype=np.intp), list(place), step, np.array(used), told.step_seconds)
    limits = [[facts[name].limit.of(resource) for resource in RESOURCES] for name in line.names]
    requested = np.array([[np.nan if each is None else each for each in row] for row in limits])
    count = len(line.names)
    return Workload(
        ids=line.names,
        services=tuple(facts[name].service or facts[name].name or name for name in line.names),
        requested=requested.astype(np.float64),
        use=line.use,
        duration_seconds=line.use.duration_seconds + told.step_seconds,
        step_seconds=told.step_seconds,
        arrival_seconds=line.use.first_seconds,
        lifetime_seconds=line.use.lifetime_seconds,
        task_class=np.ones(count, dtype=np.int8),
        kind=np.zeros(count, dtype=np.int8),
    )

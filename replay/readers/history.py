"""A collector's own history: its hosts, and the usage of their containers.

Reads the SQLite file of a collector, which may continue to write. Nodes report changes, and all containers
with every heartbeat; the usage of a container holds until its next report. Policies place every container
again, as if they had run from the beginning, except daemons, which stay on their host. Labels, generations,
domains, classes and kinds are those that the collector stored last. The load of a host outside containers is
the median of the difference between its usage and that of its containers.

Samples are stored for some hours (`history.retention_hours`). More days are read from the sums of five
minutes, or of an hour if those do not go back far enough. Usage is the mean of such a step: peaks are lost,
and a container that ran for a part of the step counts with less usage for all of it.
"""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from collector.common.arrays import Floats
from collector.common.labels import MOVE_LABEL, NEVER
from collector.decide.policies.interface import STRICTEST_CLASS
from collector.observe.traits import TaskTraits, task_traits
from collector.runtime.traits import NODE_TRAITS, SERVICE_TRAITS, StoredNodeTraits, StoredServiceTraits
from collector.snapshot.constraints import Constraint, Operator
from collector.snapshot.tables import TaskKind
from replay.readers.samples import Timeline, timeline
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
"""Assumed, as nodes do not report how long they take to boot."""
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
SELECT n.name || '/' || c.runtime_id, f.body, r.bucket * r.step,
       r.cpu_core_seconds / r.step, r.memory_byte_seconds / r.step,
       r.disk_bytes / r.step, r.network_bytes / r.step
FROM container_rollups r JOIN containers c ON c.id = r.container_id JOIN nodes n ON n.id = c.node_id
JOIN facts f ON f.id = c.facts_id
WHERE r.step = ? AND r.bucket >= ? ORDER BY r.bucket
"""

_NODE_SAMPLES = """
SELECT n.name, r.at, s.cpu_cores, s.memory_bytes FROM node_samples s
JOIN reports r ON r.id = s.report_id JOIN boots b ON b.id = r.boot_id JOIN nodes n ON n.id = b.node_id
WHERE s.cpu_cores IS NOT NULL AND s.memory_bytes IS NOT NULL
ORDER BY r.at
"""
_NODE_ROLLUPS = """
SELECT n.name, r.bucket * r.step, r.cpu_core_seconds / r.step, r.memory_byte_seconds / r.step
FROM node_rollups r JOIN nodes n ON n.id = r.node_id
WHERE r.step = ? AND r.bucket >= ? AND r.cpu_core_seconds IS NOT NULL AND r.memory_byte_seconds IS NOT NULL
ORDER BY r.bucket
"""
_VALUES = "SELECT key, value FROM key_values WHERE kind = ?"

_NodeSample = tuple[str, float, float, float]
"""A node, the time, and its CPU and memory in use."""
_Sample = tuple[str, str, float, float | None, float | None, float | None, float | None]
"""A container, its facts, the time, and its usage of the four resources."""


@dataclass(frozen=True, slots=True)
class _Recording:
    """The samples of a period, in steps of one length."""

    step_seconds: float
    samples: list[_Sample]
    of_nodes: list[_NodeSample]


class _NodeFacts(msgspec.Struct):
    """The stored facts of a node that replay needs."""

    capacity: Quantities = Quantities()


class _Heartbeat(msgspec.Struct):
    """The part of a heartbeat that replay needs."""

    power_curve: PowerCurve | None = None


class _ContainerFacts(msgspec.Struct):
    """The stored facts of a container that replay needs."""

    name: str = ""
    limit: Quantities = Quantities()
    service: str | None = None
    labels: dict[str, str] = {}


def read_history(path: Path, days: float | None = None) -> tuple[Scenario, Workload]:
    """Read the hosts as a scenario, and their containers over these days, by default over all samples."""
    if not path.is_file():
        raise UserError(f"there is no history at {path}: give the collector's history.path")
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            recording = _recording(connection, days)
            line, facts = _timeline(recording) if recording.samples else (None, {})
            system = {} if line is None else _system(line, recording)
            hosts = _hosts(connection, system)
            traits = {
                name: msgspec.json.decode(value, type=StoredServiceTraits)
                for name, value in connection.execute(_VALUES, (SERVICE_TRAITS,))
            }
    except sqlite3.Error as error:
        raise UserError(f"{path} cannot be read as a collector's history: {error}") from None
    if line is None:
        raise UserError(f"{path} has no samples of containers yet: let agents report for a while")
    return Scenario(title="History of this cluster", hosts=hosts), _workload(line, facts, traits)


def _recording(connection: sqlite3.Connection, days: float | None) -> _Recording:
    samples: list[_Sample] = connection.execute(_SAMPLES).fetchall()
    of_nodes: list[_NodeSample] = connection.execute(_NODE_SAMPLES).fetchall()
    if days is None or not samples:
        return _Recording(_STEP_SECONDS, samples, of_nodes)
    since = samples[-1][2] - days * _SECONDS_PER_DAY
    step = _step_for(since, samples[0][2], connection)
    if step is not None:
        period = step, int(since // step)
        return _Recording(
            step,
            connection.execute(_ROLLUPS, period).fetchall(),
            connection.execute(_NODE_ROLLUPS, period).fetchall(),
        )
    return _Recording(_STEP_SECONDS, [sample for sample in samples if sample[2] >= since], of_nodes)


def _step_for(since: float, known_from: float, connection: sqlite3.Connection) -> int | None:
    """The step of the finest sums that go back to this time, or else furthest; None if samples do."""
    found = None
    for step in _ROLLUP_SECONDS:
        (oldest,) = connection.execute(
            "SELECT min(bucket) FROM container_rollups WHERE step = ?", (step,)
        ).fetchone()
        # The oldest bucket may contain no older data than the samples.
        if known_from > since and oldest is not None and (oldest + 1) * step < known_from:
            found, known_from = step, float(oldest * step)
    return found


def _system(line: Timeline, recording: _Recording) -> dict[str, Floats]:
    """The load of each host outside containers: cores, and bytes of memory."""
    first = int(min(at for _, _, at, *_ in recording.samples) // recording.step_seconds)
    use = line.use
    owner = np.repeat(np.arange(len(line.names)), use.steps)
    step = use.first_step[owner] + np.arange(owner.size) - use.start[owner]
    of_containers: dict[str, Floats] = {}
    host_of = [name.partition("/")[0] for name in line.names]
    for host in set(host_of):
        mine = np.array([name == host for name in host_of])[owner]
        of_containers[host] = np.column_stack(
            [
                np.bincount(step[mine], weights=use.values[mine, column], minlength=int(step.max()) + 1)
                for column in (0, 1)
            ]
        )
    rest: dict[str, list[Floats]] = {}
    for name, at, cores, memory_bytes in recording.of_nodes:
        place = int(at // recording.step_seconds) - first
        if name in of_containers and 0 <= place < len(of_containers[name]):
            rest.setdefault(name, []).append(np.array([cores, memory_bytes]) - of_containers[name][place])
    return {name: np.maximum(0.0, np.median(each, axis=0)) for name, each in rest.items()}


def _hosts(connection: sqlite3.Connection, system: Mapping[str, Floats]) -> tuple[Host, ...]:
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
            f"{', '.join(unknown)} reported no power curve yet: wait for the next heartbeat, a few minutes"
        )
    traits = {
        name: msgspec.json.decode(value, type=StoredNodeTraits)
        for name, value in connection.execute(_VALUES, (NODE_TRAITS,))
    }
    return tuple(
        _host(
            name,
            capacity,
            curves[name],
            system.get(name, np.zeros(2)),
            traits.get(name) or StoredNodeTraits(),
        )
        for name, capacity in sorted(capacities.items())
    )


def _host(
    name: str, capacity: Quantities, curve: PowerCurve, system: Floats, traits: StoredNodeTraits
) -> Host:
    if not capacity.cpu_cores or not capacity.memory_bytes:
        raise UserError(
            f"{name} did not report its CPU and memory, so it cannot be simulated: check that its agent runs"
        )
    system_cores, system_bytes = system.tolist()
    added = np.interp(np.linspace(0.0, 1.0, _POINTS), curve.cpu_ratios, curve.cpu_watts)
    watts = tuple(float(curve.idle_watts + each) for each in added)
    disk, network = capacity.disk_bytes_per_second, capacity.network_bytes_per_second
    return Host(
        name=name,
        cpu_cores=capacity.cpu_cores,
        memory_mb=capacity.memory_bytes / MEBIBYTE,
        disk_mb_per_second=disk / MEGABYTE if disk else None,
        network_mb_per_second=network / MEGABYTE if network else None,
        system_cores=min(system_cores, capacity.cpu_cores),
        system_memory_mb=min(system_bytes, capacity.memory_bytes) / MEBIBYTE,
        generation=traits.generation,
        domain=traits.domain,
        labels=traits.labels,
        watts=watts,
        memory_watts=curve.memory_watts,
        disk_watts=curve.disk_watts,
        network_watts=curve.network_watts,
        boot_seconds=_BOOT_SECONDS,
        boot_joules=_BOOT_SECONDS * watts[-1],
    )


def _timeline(recording: _Recording) -> tuple[Timeline, dict[str, _ContainerFacts]]:
    """The usage of all containers, and their facts."""
    facts: dict[str, _ContainerFacts] = {}
    place: dict[str, int] = {}
    container, at, used = [], [], []
    for name, body, seconds, *values in recording.samples:
        if name not in place:
            facts[name] = msgspec.json.decode(body, type=_ContainerFacts)
        container.append(place.setdefault(name, len(place)))
        at.append(seconds)
        used.append([0.0 if value is None else float(value) for value in values])
    containers, step_seconds = np.array(container, dtype=np.intp), recording.step_seconds
    return timeline(containers, list(place), np.array(at), np.array(used), step_seconds), facts


def _workload(
    line: Timeline, facts: Mapping[str, _ContainerFacts], traits: Mapping[str, StoredServiceTraits]
) -> Workload:
    limits = [[facts[name].limit.of(resource) for resource in RESOURCES] for name in line.names]
    requested = np.array([[np.nan if each is None else each for each in row] for row in limits])
    of_each = [_traits(facts[name], traits) for name in line.names]
    return line.workload(
        requested.astype(np.float64),
        [facts[name].service or facts[name].name or name for name in line.names],
        task_class=np.array([each.task_class for each in of_each], dtype=np.int8),
        kind=np.array([each.kind for each in of_each], dtype=np.int8),
        constraints=tuple(
            (Constraint("node", Operator.IS, name.partition("/")[0]),) if each.kind is TaskKind.DAEMON else ()
            for name, each in zip(line.names, of_each, strict=True)
        ),
        labels=tuple(
            {**facts[name].labels, **({} if each.movable else {MOVE_LABEL: NEVER})}
            for name, each in zip(line.names, of_each, strict=True)
        ),
    )


def _traits(facts: _ContainerFacts, of_services: Mapping[str, StoredServiceTraits]) -> TaskTraits:
    """The traits of a container: those of its service, or else its own labels."""
    stored = of_services.get(facts.service or "")
    if stored is None:
        return task_traits(facts.labels, STRICTEST_CLASS)
    return TaskTraits(stored.task_class, TaskKind[stored.kind.upper()], stored.movable)

"""Observations of an elastic service: its metric, replicas, CPU time, last change, and watts per core."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np

from collector.act.records import CARRIED_OUT, IN_MOTION, Step, StepState
from collector.common.arrays import Floats
from collector.common.errors import HistoryUnavailable
from collector.common.orchestrator import OrchestratorState
from collector.decide.policies.actions import Scale, ServiceAction
from collector.features.elastic.scaling.interface import Target
from collector.history.promql import Client
from collector.runtime.parts import Core
from collector.snapshot.tables import NOWHERE, Snapshot

_CPU = 0
_QUANTILE = 0.95
_CHANGED = (*CARRIED_OUT, *IN_MOTION, StepState.UNDONE, StepState.UNCLEAR)
"""States of a step that changed the service, at least temporarily."""


# --- Containers ---------------------------------------------------------------------------------------


def running_containers(service: str, view: OrchestratorState) -> dict[str, str]:
    """Return the running containers of a service, with their nodes."""
    return {each.container: each.node for each in view.tasks if each.service == service and each.is_running}


def reported_containers(service: str, snapshot: Snapshot) -> dict[str, str]:
    """Return the same from the reports of agents, for a collector without an orchestrator."""
    row, tasks = snapshot.services.index.get(service, NOWHERE), snapshot.tasks
    if row == NOWHERE:
        return {}
    return {
        tasks.ids[task]: snapshot.nodes.names[tasks.node[task]]
        for task in snapshot.tasks_of(row).tolist()
        if tasks.node[task] != NOWHERE
    }


@dataclass(frozen=True, slots=True)
class Reading:
    """A container, as its agent reported it last."""

    at: float
    """By the clock of the node."""
    cpu_seconds: float
    used_cores: float | None
    """CPU usage over its last window."""
    limit_cores: float | None = None
    node_cores: float | None = None
    """Capacity of its node, which bounds its usage."""


def read_containers(core: Core, containers: Mapping[str, str]) -> dict[str, Reading]:
    """Return what the nodes of containers reported last about them."""
    readings = {}
    for node in set(containers.values()):
        for entry in core.registry.nodes(core.clock(), node=node):
            state = entry.run.state
            for container, reported in entry.run.containers.items():
                if containers.get(container) == node:
                    value = reported.value
                    readings[container] = Reading(
                        reported.at,
                        value.cpu_seconds_total,
                        value.used.cpu_cores,
                        value.limit.cpu_cores,
                        None if state is None else state.value.capacity.cpu_cores,
                    )
    return readings


def cpu_cores(now: Mapping[str, Reading], before: Mapping[str, Reading]) -> float | None:
    """Return the CPU time of some containers since an earlier reading, in cores; None if unknown.

    A container that reported no newer CPU time since then counts with its last window; likewise one on a
    node that reports no capacity, since nothing bounds what its counters claim.
    """
    used = []
    for name, reading in now.items():
        earlier, most = before.get(name), reading.node_cores
        is_newer = (
            earlier is not None and earlier.at < reading.at and earlier.cpu_seconds <= reading.cpu_seconds
        )
        if earlier is not None and is_newer and most is not None:
            cores = (reading.cpu_seconds - earlier.cpu_seconds) / (reading.at - earlier.at)
            used.append(min(cores, most))
        elif reading.used_cores is not None:
            used.append(reading.used_cores)
    return sum(used) if used else None


# --- The metric ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Metric:
    """The value of a metric, or why it is unknown."""

    value: float | None = None
    requests: int | None = None
    """Requests that it is computed from; None for a query."""
    failed: int | None = None
    problem: str | None = None


def probed_metric(core: Core, containers: Mapping[str, str], since: float) -> Metric:
    """Return the response times of a service since a time, from its containers and their nodes."""
    found = core.registry.probes.summary(containers, since, _QUANTILE)
    if found is None:
        return Metric(
            problem="no response time was reported since the last decision; if this persists, set"
            " probe.enabled of the agents, and the container label wattpack.probe"
        )
    return Metric(found.seconds, found.requests, found.failed)


async def query_metrics(store: Client | None, due: Mapping[str, Target], now: float) -> dict[str, Metric]:
    """Return the results of all queries, by service. They run concurrently, because a store may be slow."""
    queries = {name: target.query for name, target in due.items() if target.query}
    found = await asyncio.gather(*(query_metric(store, query, now) for query in queries.values()))
    return dict(zip(queries, found, strict=True))


async def query_metric(store: Client | None, query: str, now: float) -> Metric:
    """Return the result of a query; of several series, the highest finite value."""
    if store is None:
        return Metric(problem="store.url is not set")
    try:
        found = await store.query(query, now)
    except HistoryUnavailable as error:
        return Metric(problem=f"the store does not answer the query: {error}")
    values = [value for each in found if isfinite(value := float(each.value[1]))]
    return Metric(max(values)) if values else Metric(problem="the query has no result")


# --- Changes and power --------------------------------------------------------------------------------


def last_change(service: str, steps: Iterable[Step]) -> tuple[float | None, float | None]:
    """Return when the last change of a service began, and how long new replicas took; None if unknown.

    `steps` are those of the journal, in order.
    """
    changed_at = effect_seconds = None
    for step in steps:
        action = step.action
        if not isinstance(action, ServiceAction) or action.service != service:
            continue
        if step.started_at is None or step.state not in _CHANGED:
            continue
        changed_at = step.started_at
        is_larger = isinstance(action, Scale) and action.replicas > action.replicas_before
        if is_larger and step.state is StepState.VERIFIED and step.done_at is not None:
            effect_seconds = step.done_at - step.started_at
    return changed_at, effect_seconds


def core_watts(snapshot: Snapshot, nodes: Sequence[str]) -> tuple[float | None, float | None]:
    """Return the power of one more core in use, and the idle power per core of the capacity; None if unknown.

    Both are the median over these nodes: what one of them claims has no bound.
    """
    table = snapshot.nodes
    rows = np.array([table.index[name] for name in nodes if name in table.index], dtype=np.intp)
    cores = table.capacity[rows, _CPU]
    rows, cores = rows[cores > 0], cores[cores > 0]
    if not rows.size:
        return None, None
    step = np.minimum(1.0, 1.0 / cores)
    low = np.nan_to_num(table.used_ratio[rows], nan=0.0).copy()
    low[:, _CPU] = np.minimum(low[:, _CPU], 1.0 - step)
    high = low.copy()
    high[:, _CPU] += step
    curves = table.power
    added = (curves.watts(high, rows) - curves.watts(low, rows)) / (step * cores)
    with np.errstate(over="ignore"):
        return _median(added), _median(curves.idle_watts[rows] / cores)


def _median(values: Floats) -> float | None:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if known.size else None

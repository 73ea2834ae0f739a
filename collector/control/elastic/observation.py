"""Observations of an elastic service: replicas, limits, CPU time, metric, watts per core. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from collector.common.arrays import Floats
from collector.control.records import CARRIED_OUT, IN_MOTION, Step, StepState
from collector.drivers.interface import OrchestratorState, ServiceView
from collector.elastic.interface import Observation
from collector.policies.actions import Scale, ServiceAction
from collector.snapshot.tables import NOWHERE, Snapshot

_CPU = 0
_CHANGED = (*CARRIED_OUT, *IN_MOTION, StepState.UNDONE, StepState.UNCLEAR)
"""States of a step that changed the service, at least temporarily."""


@dataclass(frozen=True, slots=True)
class CpuReading:
    """The CPU time of a container, as its agent reported it last."""

    at: float
    """By the clock of the node."""
    cpu_seconds: float
    used_cores: float | None
    """CPU usage over its last window."""
    limit_cores: float | None = None
    node_cores: float | None = None
    """Capacity of its node, which bounds its usage."""


def cpu_cores(now: Mapping[str, CpuReading], before: Mapping[str, CpuReading]) -> float | None:
    """Return the CPU time of some containers since an earlier reading, in cores; None if unknown.

    A container that reported no newer CPU time since then counts with its last window; likewise one on a
    node that reports no capacity, since nothing bounds what its counters claim.
    """
    used = []
    for name, reading in now.items():
        earlier, most = before.get(name), reading.node_cores
        if earlier is None or earlier.at >= reading.at or earlier.cpu_seconds > reading.cpu_seconds:
            earlier = None
        if earlier is not None and most is not None:
            cores = (reading.cpu_seconds - earlier.cpu_seconds) / (reading.at - earlier.at)
            used.append(min(cores, most))
        elif reading.used_cores is not None:
            used.append(reading.used_cores)
    return sum(used) if used else None


@dataclass(frozen=True, slots=True)
class CorePower:
    """Power per core on the nodes of a service; None if unknown."""

    used_watts: float | None
    """Power of one more core in use."""
    reserved_watts: float | None
    """Idle power, per core of the capacity."""


def core_power(snapshot: Snapshot, nodes: Sequence[str]) -> CorePower:
    """Return the power per core, as the median over these nodes: what one of them claims has no bound."""
    table = snapshot.nodes
    rows = np.array([table.index[name] for name in nodes if name in table.index], dtype=np.intp)
    cores = table.capacity[rows, _CPU]
    rows, cores = rows[cores > 0], cores[cores > 0]
    if not rows.size:
        return CorePower(None, None)
    step = np.minimum(1.0, 1.0 / cores)
    low = np.nan_to_num(table.used_ratio[rows], nan=0.0).copy()
    low[:, _CPU] = np.minimum(low[:, _CPU], 1.0 - step)
    high = low.copy()
    high[:, _CPU] += step
    curves = table.power
    added = (curves.watts(high, rows) - curves.watts(low, rows)) / (step * cores)
    with np.errstate(over="ignore"):
        return CorePower(_median(added), _median(curves.idle_watts[rows] / cores))


def _median(values: Floats) -> float | None:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if known.size else None


def observe(  # noqa: PLR0913 - one for each source
    *,
    now: float,
    service: ServiceView,
    running: int,
    cpu_used_cores: float | None,
    metric: float | None,
    steps: Iterable[Step],
    power: CorePower,
) -> Observation:
    """Return an observation of a service. `steps` are its changes so far, in order."""
    changed_at = effect_seconds = None
    for step in steps:
        action = step.action
        if not isinstance(action, ServiceAction) or action.service != service.name:
            continue
        if step.started_at is None or step.state not in _CHANGED:
            continue
        changed_at = step.started_at
        is_larger = isinstance(action, Scale) and action.replicas > action.replicas_before
        if is_larger and step.state is StepState.VERIFIED and step.done_at is not None:
            effect_seconds = step.done_at - step.started_at
    return Observation(
        at_seconds=now,
        replicas=running,
        cpu_limit_cores=service.limit.cpu_cores,
        cpu_used_cores=cpu_used_cores,
        metric=metric,
        changed_at_seconds=changed_at,
        effect_seconds=effect_seconds,
        used_core_watts=power.used_watts,
        reserved_core_watts=power.reserved_watts,
    )


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

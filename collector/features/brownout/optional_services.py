"""Optional services of the orchestrator, their usage, and the nodes that are short. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from math import isfinite

import numpy as np

from collector.analysis.usage import to_quantities
from collector.common.arrays import Floats
from collector.common.labels import OPTIONAL_LABEL, WEIGHT_LABEL
from collector.common.liveness import Liveness
from collector.common.orchestrator import Mode, OrchestratorState, TaskView
from collector.features.brownout.rule import OptionalService
from collector.snapshot.tables import NOWHERE, Snapshot
from wire.resources import RESOURCES, Quantities

_YES = "true"
_DEFAULT_WEIGHT = 1.0


def is_optional(labels: Mapping[str, str]) -> bool:
    """Whether labels make a service optional."""
    return labels.get(OPTIONAL_LABEL) == _YES


def weight_of(labels: Mapping[str, str]) -> float:
    """Return the weight of an optional service; an invalid value counts as unset."""
    try:
        weight = float(labels.get(WEIGHT_LABEL, _DEFAULT_WEIGHT))
    except ValueError:
        return _DEFAULT_WEIGHT
    return weight if isfinite(weight) and weight >= 0 else _DEFAULT_WEIGHT


def optional_services(view: OrchestratorState) -> Iterator[OptionalService]:
    """Return the running optional services. A daemon is never optional: it belongs to its node."""
    optional = [
        each
        for each in view.services
        if is_optional(each.labels) and each.mode is not Mode.GLOBAL and each.replicas
    ]
    running: dict[str, list[TaskView]] = {each.name: [] for each in optional}
    for task in view.tasks:
        if task.is_running and task.service in running:
            running[task.service].append(task)
    for service in optional:
        tasks = running[service.name]
        weight = weight_of(service.labels)
        if service.mode is Mode.REPLICATED:
            yield OptionalService(
                name=service.name,
                weight=weight,
                replicas=service.replicas,
                nodes=tuple(each.node for each in tasks),
                containers=tuple(each.container for each in tasks),
            )
            continue
        for task in tasks:
            yield standalone_container(service.name, weight, task.node, task.container)


def standalone_container(name: str, weight: float, node: str, container: str) -> OptionalService:
    """Return a single container that no orchestrator manages."""
    return OptionalService(
        name=name, weight=weight, replicas=1, nodes=(node,), containers=(container,), is_standalone=True
    )


def usage_by_node(snapshot: Snapshot, containers: Iterable[str]) -> dict[str, Quantities]:
    """Return the usage of containers on each of their nodes."""
    tasks = snapshot.tasks
    found: dict[str, Floats] = {}
    for container in containers:
        row = tasks.index.get(container, NOWHERE)
        if row == NOWHERE or tasks.node[row] == NOWHERE:
            continue
        used = np.fmax(tasks.used[row], tasks.mean[row])
        name = snapshot.nodes.names[tasks.node[row]]
        found[name] = found.get(name, np.zeros(len(RESOURCES))) + np.nan_to_num(used, nan=0.0)
    return {name: to_quantities(amounts) for name, amounts in found.items()}


def free_by_node(snapshot: Snapshot, fill_ratio: float) -> dict[str, Quantities]:
    """Return the capacity of each reporting node that is left below this share of its resources."""
    nodes = snapshot.nodes
    left = nodes.capacity * fill_ratio - np.fmax(nodes.used, 0.0)
    rows = np.flatnonzero(nodes.on & (nodes.liveness == Liveness.UP))
    return {nodes.names[row]: to_quantities(left[row]) for row in rows.tolist()}


def short_nodes(snapshot: Snapshot) -> dict[str, str]:
    """Return the nodes with an open alert, with a sentence about what they are short of."""
    nodes = snapshot.nodes
    found: dict[str, str] = {}
    for row in np.flatnonzero(nodes.has_bottleneck & nodes.on & (nodes.liveness != Liveness.DOWN)).tolist():
        resources = [str(RESOURCES[column]) for column in np.flatnonzero(nodes.bottleneck[row])]
        found[nodes.names[row]] = f"{nodes.names[row]} is short of {' and '.join(resources)}"
    return found


def cluster_watts(snapshot: Snapshot) -> float:
    """Return the total known power of all nodes that are not down."""
    nodes = snapshot.nodes
    return float(np.nansum(nodes.watts[nodes.on & (nodes.liveness != Liveness.DOWN)]))

"""The rules of brownout: which services are optional, which stops next, and which starts again. Pure.

The lightest service stops first. For a node that is short of a resource, a service qualifies if at least half
of its running containers are on such nodes; for the power budget, any service does. The heaviest service
starts again first, when none of its nodes has been short and the budget has been kept for some time, and its
usage fits with room to spare. That time doubles with every stop within the last hour, so that services do not
flap.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite

import msgspec
import numpy as np

from collector.analysis.usage import to_quantities
from collector.common.arrays import Floats
from collector.common.labels import OPTIONAL_LABEL, WEIGHT_LABEL
from collector.common.liveness import Liveness
from collector.common.orchestrator import Mode, OrchestratorState, TaskView
from collector.features.brownout.settings import BrownoutConfig
from collector.snapshot.tables import NOWHERE, Snapshot
from wire.resources import RESOURCES, Quantities, Resource

RESERVED = (Resource.CPU, Resource.MEMORY)
"""Resources that must suffice for a service to start again. The capacity of disks and links is the highest
throughput observed so far, which says little about what is left."""
_YES = "true"
_DEFAULT_WEIGHT = 1.0
BUDGET = ""
"""The key of the power budget among the names of nodes."""
RECENT_SECONDS = 3600.0
_MAX_DOUBLINGS = 7
"""Limit of the doubling: with the default settings, most of an hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionalService:
    """An optional service that runs."""

    name: str
    weight: float
    replicas: int
    nodes: tuple[str, ...]
    """The node of each running container."""
    containers: tuple[str, ...]
    is_standalone: bool = False
    """Whether no orchestrator manages it: it is a single container."""

    @property
    def key(self) -> str:
        """Its identifier: names of single containers are unique only within a host."""
        return self.containers[0] if self.is_standalone else self.name


class StoppedService(msgspec.Struct, frozen=True, kw_only=True):
    """An optional service that is stopped because resources are short."""

    service: str
    weight: float
    """Value of the label `wattpack.weight`: the lowest weight stops first and starts last."""
    replicas: int
    """Number of replicas when it starts again."""
    since: float
    """Unix time at which it was stopped."""
    why: str
    """The shortage that stopped it."""
    used: dict[str, Quantities] = {}
    """Its usage on each of its nodes."""
    watts: float = 0.0
    """Power that it used."""
    container: str | None = None
    """Its only container, if no orchestrator manages it; else null."""
    stops: int = 1
    """Number of its stops within an hour, including this one."""
    waits_for: str = "it starts now"
    """Why it does not start yet."""

    def __post_init__(self) -> None:
        if self.container is not None and len(self.used) != 1:
            raise ValueError("a single container runs on one node")
        if not isfinite(self.weight + self.watts + self.since):
            raise ValueError("weight, watts and since must be finite numbers")

    @property
    def key(self) -> str:
        """Its identifier, as in `OptionalService`."""
        return self.container or self.service


@dataclass(slots=True, kw_only=True)
class Shortages:
    """Nodes that are short of a resource, and the power budget, with the times of shortages and actions."""

    now: float = 0.0
    short: Mapping[str, str] = field(default_factory=dict)
    """A sentence about each shortage, by node or `BUDGET`."""
    acted_at: dict[str, float] = field(default_factory=dict)
    """When a service was last stopped or started, by node or `BUDGET`."""
    short_until: dict[str, float] = field(default_factory=dict)
    """When each of them was last short."""
    began_at: float
    """Start of the observation: a restarted collector does not know earlier shortages."""


def choose_to_stop(
    optional: Iterable[OptionalService], shortages: Shortages, settings: BrownoutConfig
) -> tuple[OptionalService, tuple[str, ...]] | None:
    """Return the service that stops next, and the shortages that it relieves; None if there is none."""
    urgent = {
        subject
        for subject in shortages.short
        if shortages.now - shortages.acted_at.get(subject, -settings.step_seconds) >= settings.step_seconds
    }
    # While the effect of the last action may not show yet, nothing else stops for the same shortage.
    waiting = shortages.short.keys() - urgent
    for service in sorted(optional, key=lambda each: (each.weight, each.name)):
        short_nodes = [node for node in service.nodes if node in shortages.short]
        subjects = set(short_nodes) if 2 * len(short_nodes) >= len(service.nodes) else set()
        if BUDGET in shortages.short:
            subjects.add(BUDGET)
        if subjects and not subjects & waiting:
            return service, tuple(sorted(subjects))
    return None


def required_calm_seconds(times: int, settings: BrownoutConfig) -> float:
    """Return how long to wait after so many recent stops, or failed attempts, of a service."""
    return settings.calm_seconds * 2.0 ** min(max(times - 1, 0), _MAX_DOUBLINGS)


def reason_to_wait(
    service: StoppedService,
    shortages: Shortages,
    settings: BrownoutConfig,
    *,
    free: Mapping[str, Quantities],
    free_watts: float | None,
) -> str | None:
    """Return why a stopped service does not start yet; None if it does.

    `free` is the capacity of each node that is left below `fill_ratio`; `free_watts` is the same for the
    power budget, if there is one.
    """
    subjects = [*service.used, BUDGET]
    for subject in subjects:
        if subject in shortages.short:
            return shortages.short[subject]
        if shortages.now - shortages.acted_at.get(subject, shortages.began_at) < settings.step_seconds:
            return "another service was just stopped or started there"
    calm = required_calm_seconds(service.stops, settings)
    last = max(shortages.short_until.get(subject, shortages.began_at) for subject in subjects)
    if shortages.now - last < calm:
        return f"no shortage for {shortages.now - last:.0f} of {calm:.0f} s"
    for node, used in service.used.items():
        for resource in RESERVED:
            need, left = used.of(resource), None if node not in free else free[node].of(resource)
            if need and left is not None and need > left:
                return f"{node} has less {resource} left than the service used"
    if free_watts is not None and service.watts > free_watts:
        return f"the power budget leaves {max(free_watts, 0.0):.1f} W; the service used {service.watts:.1f} W"
    return None


def start_order(stopped: Iterable[StoppedService]) -> list[StoppedService]:
    """Return stopped services in the order in which they start again: the heaviest, then the last, first."""
    return sorted(stopped, key=lambda each: (-each.weight, -each.since, each.service))


# --- What the orchestrator and agents report ---------------------------------------------------------


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

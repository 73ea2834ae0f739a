"""The tables of a snapshot: nodes, tasks (containers) and services, one array per column."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from collector.common.applications import ApplicationTraits
from collector.common.arrays import Codes, Flags, Floats, Rows
from collector.snapshot.claims import NO_CLAIMS, Claims
from collector.snapshot.constraints import Constraint, PlacementRules, parse_number
from collector.snapshot.experience import NO_EXPERIENCE, Experience
from collector.snapshot.parts import AnyPart, SnapshotPart
from collector.snapshot.power_curves import PowerCurves
from collector.snapshot.windows import TaskWindows
from wire.resources import RESOURCES

T = TypeVar("T")

NOWHERE = -1
"""In a column of row numbers: none. A task whose node is `NOWHERE` waits for one."""
_NO_ROWS: Rows = np.empty(0, dtype=np.intp)
_NODES_WITHOUT_PENDING = "nodes without pending tasks"


class Region(IntEnum):
    """Energy efficiency of a node, by the higher of its CPU and memory utilisation."""

    LEE = 0
    """Low energy efficiency: below half."""
    DEE = 1
    """Desired energy efficiency."""
    EED = 2
    """Energy efficiency degradation: above 85 %, where containers slow each other down."""


class Generation(IntEnum):
    """The GenPack generation of containers that a node is reserved for."""

    ANY = 0
    NURSERY = 1
    YOUNG = 2
    OLD = 3


class TaskKind(IntEnum):
    """How long a task is expected to run."""

    SERVICE = 0
    JOB = 1
    DAEMON = 2
    """As long as its node: one instance runs on every node."""


_DERIVED = (
    ("names", "index"),
    ("labels", "_label_columns"),
    ("labels", "_number_columns"),
    ("bottleneck", "has_bottleneck"),
    ("busy", "is_busy"),
    ("capacity", "known_capacity"),
)
"""Columns, and the cached property that depends on that column alone."""
_RESOURCE_COLUMNS = ("capacity", "used", "bottleneck", "allocated", "envelope_sum", "mean", "variance")


@dataclass(frozen=True, eq=False, kw_only=True)
class Nodes:
    """Nodes, by name. Ratios are of `capacity`; NaN is unknown."""

    names: tuple[str, ...]
    capacity: Floats
    learned: Flags
    """Per resource: whether `capacity` is only the highest use seen."""
    used: Floats
    """The mean over the last window that the node reported."""
    reported_watts: Floats
    """Its power in that window, measured or estimated by its agent; NaN if it reports none."""
    busy: Floats
    """Per resource: the share of that window in which it was busy, or tasks waited for it; NaN if unknown."""
    liveness: Codes
    on: Flags
    """Whether it has power; a node that is off can be switched on."""
    accepts: Flags
    """Whether it takes new tasks: it is not drained, paused or opted out."""
    report_age_seconds: Floats
    generation: Codes
    failures: NDArray[np.int32]
    """Tasks that died on it; older failures count less."""
    bottleneck: Flags
    """Per resource: whether an alert is open."""
    culprit: Rows
    """Per resource: the row of the task that the open alert names; `NOWHERE` if there is none."""
    excess: Floats
    """Per resource: the share of its use that must go before the open alert closes; NaN if it is unknown."""
    by_time: Flags
    """Per resource: whether the open alert is about `busy`, not about `used`."""
    domain: NDArray[np.int32]
    """Its failure domain, as a place in `Snapshot.domain_names`; `NOWHERE` if it has none."""
    history: Floats
    """Past ratios of use: one plane per node, from the oldest bucket to the newest; NaN where unknown."""
    power: PowerCurves
    labels: tuple[Mapping[str, str], ...]
    # Sums over the tasks of each node.
    tasks: NDArray[np.int32]
    allocated: Floats
    """The resources promised to its tasks."""
    envelope_sum: Floats
    """The sum of its tasks' envelopes, pending tasks included."""
    mean: Floats
    variance: Floats
    """Added up as if the tasks were independent of each other."""
    strictest_class: Codes
    """The lowest SLA class among its tasks; 0 without tasks."""

    def __post_init__(self) -> None:
        # Column-major: policies read one resource of all nodes, which is several times as fast this way.
        for name in _RESOURCE_COLUMNS:
            object.__setattr__(self, name, np.asfortranarray(getattr(self, name)))

    def with_columns(self, **columns: Any) -> "Nodes":  # noqa: ANN401 - columns of several types
        """The same nodes with some columns replaced."""
        return replace(self, **columns).reuse_cached(self)

    def reuse_cached(self, other: "Nodes") -> "Nodes":
        """Take over the cached properties of `other` whose column is the same object here."""
        for column, derived in _DERIVED:
            if derived in other.__dict__ and getattr(self, column) is getattr(other, column):
                # A cached property is stored in `__dict__`, which a frozen dataclass does not guard.
                self.__dict__[derived] = other.__dict__[derived]
        return self

    @cached_property
    def index(self) -> Mapping[str, int]:
        """The row of each name."""
        return {name: row for row, name in enumerate(self.names)}

    @cached_property
    def _label_columns(self) -> dict[str, tuple[Mapping[str, int], NDArray[np.int32]]]:
        return {}

    def labelled(self, label: str, value: str) -> Flags:
        """Which nodes carry a label with this value. The label `node` is the node's own name.

        A label becomes a column of numbers on first use: of many labels, few are ever needed.
        """
        if label == "node":
            matches = np.zeros(len(self.names), dtype=np.bool_)
            if value in self.index:
                matches[self.index[value]] = True
            return matches
        if label not in self._label_columns:
            values = [labels.get(label) for labels in self.labels]
            numbers = {
                each: number for number, each in enumerate({each for each in values if each is not None})
            }
            column = [NOWHERE if value is None else numbers[value] for value in values]
            self._label_columns[label] = numbers, np.array(column, dtype=np.int32)
        number_of, column_of = self._label_columns[label]
        # A value that no node carries has a number that no node has.
        return np.equal(column_of, number_of.get(value, NOWHERE - 1))

    @cached_property
    def _number_columns(self) -> dict[str, Floats]:
        return {}

    def label_numbers(self, label: str) -> Floats:
        """The number that each node has as the value of a label; NaN where there is none."""
        if label not in self._number_columns:
            values = self.names if label == "node" else tuple(labels.get(label) for labels in self.labels)
            self._number_columns[label] = np.array([parse_number(each) for each in values], dtype=np.float64)
        return self._number_columns[label]

    @cached_property
    def known_capacity(self) -> Floats:
        """The capacity; NaN where it is 0 too, so that amounts divided by it are ratios, or unknown."""
        return np.where(self.capacity > 0, self.capacity, np.nan)

    @cached_property
    def used_ratio(self) -> Floats:
        return self.used / self.known_capacity

    @cached_property
    def allocated_ratio(self) -> Floats:
        return self.allocated / self.known_capacity

    @cached_property
    def has_bottleneck(self) -> Flags:
        """Whether an alert is open for any resource."""
        flags: Flags = np.any(self.bottleneck, axis=1)
        return flags

    @cached_property
    def is_busy(self) -> Flags:
        """Whether a resource is busy, or tasks wait for it, most of the time."""
        flags: Flags = np.any(np.nan_to_num(self.busy, nan=0.0) > BUSY_RATIO, axis=1)
        return flags

    @cached_property
    def utilisation(self) -> Floats:
        """The higher of CPU and memory use, as Energy4Cloud defines it; unknown counts as 0."""
        return highest_ratio(self.used, self.capacity)

    @cached_property
    def overbooking(self) -> Floats:
        """The higher of the promised CPU and memory, as a ratio of the capacity."""
        return highest_ratio(self.allocated, self.capacity)

    @cached_property
    def region(self) -> Codes:
        return region_of(self.utilisation)

    @cached_property
    def estimated_watts(self) -> Floats:
        """The power of its curve at the present use; NaN without a curve."""
        return self.power.watts(self.used_ratio)

    @cached_property
    def watts(self) -> Floats:
        """The power that it reports, or else that of its power curve at the present use.

        0 for a node that is off, NaN if it has neither.
        """
        watts = np.where(np.isnan(self.reported_watts), self.estimated_watts, self.reported_watts)
        return np.where(self.on, watts, 0.0)


@dataclass(frozen=True, eq=False, kw_only=True)
class Tasks:
    """Containers, by id."""

    ids: tuple[str, ...]
    names: tuple[str, ...]
    node: Rows
    """The row of its node; `NOWHERE` while it waits."""
    service: Rows
    used: Floats
    mean: Floats
    variance: Floats
    envelope: Floats
    """Its expected need: a percentile per resource; never NaN, a guess where `observed_seconds` is 0."""
    observed_seconds: Floats
    """Time of the samples that `envelope`, `mean` and `variance` come from; 0 if they are estimates."""
    requested: Floats
    """The resources promised at its start; NaN where none were."""
    allocated: Floats
    """The resources promised now, after cuts."""
    task_class: Codes
    """Its SLA class: 1 (never cut) to 4."""
    kind: Codes
    group: Codes
    """The number of its k-means group; `NOWHERE` without one."""
    age_seconds: Floats
    """Time since its start; of a container that was moved, since the start of the first one."""
    settled_seconds: Floats
    """Time on its present node."""
    came_from: Rows
    """The node it was last moved from; `NOWHERE` if it was never moved."""
    movable: Flags
    cuttable: Flags
    """Whether a cut frees room for others; otherwise an orchestrator still counts the whole reservation."""
    windows: TaskWindows = field(default_factory=lambda: TaskWindows((), _NO_ROWS))
    """Amounts used in the last buckets of five minutes, which are those of `Nodes.history`."""

    @cached_property
    def index(self) -> Mapping[str, int]:
        """The row of each id."""
        return {name: row for row, name in enumerate(self.ids)}


@dataclass(frozen=True, eq=False, kw_only=True)
class Services:
    """Services, by name; the numbers are of one instance."""

    names: tuple[str, ...]
    profiled: Flags
    """Whether its envelope was learnt from enough samples, now or earlier."""
    dominant: Codes
    """Its dominant resource, as a place in `RESOURCES`; `NOWHERE` if unknown."""
    confidence: Floats
    """Confidence in `dominant`, 0-1."""
    envelope: Floats
    mean: Floats
    variance: Floats
    images: tuple[str, ...]
    """Empty if unknown."""

    @cached_property
    def index(self) -> Mapping[str, int]:
        """The row of each name."""
        return {name: row for row, name in enumerate(self.names)}

    @cached_property
    def by_image(self) -> Mapping[str, int]:
        """The row of a profiled service that runs an image."""
        return {image: row for row, image in enumerate(self.images) if image and self.profiled[row]}


class Pending(NamedTuple):
    """Tasks that were placed but not reported yet: they have no row in `Tasks`. One row each."""

    nodes: Rows = _NO_ROWS
    services: Rows = _NO_ROWS
    is_known: Flags = np.empty(0, dtype=np.bool_)
    """Whether `mean` comes from observed use; otherwise from the reservation."""
    mean: Floats = np.empty((0, len(RESOURCES)))
    allocated: Floats = np.empty((0, len(RESOURCES)))
    applications: tuple[ApplicationTraits, ...] = ()
    """Those that the requests named."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Snapshot:
    """A cluster at one moment."""

    at: float
    nodes: Nodes
    tasks: Tasks
    services: Services
    turn: int = 0
    """Number of placements decided so far: round robin and random choices continue from here."""
    seed: int = 0
    domain_names: tuple[str, ...] = field(default=())
    pending: Pending = field(default_factory=Pending)
    parts: Mapping[type[SnapshotPart], SnapshotPart] = field(default_factory=dict)
    """What features add, by its type."""
    rules: Mapping[int, PlacementRules] = field(default_factory=dict)
    """Where waiting tasks may run, by their rows; only of tasks with rules."""
    constraints: Mapping[int, tuple[Constraint, ...]] = field(default_factory=dict)
    """Where the tasks of a service may run, by the row of the service; only of services with constraints."""
    claims: Claims = field(default=NO_CLAIMS)
    experience: Experience = NO_EXPERIENCE
    is_filtered: bool = True
    """Whether the filters of features apply: plans without them show what they cost."""

    _cache: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)
    _cache_with_pending: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    def part(self, kind: type[AnyPart]) -> AnyPart | None:
        """What a feature added; None if it added nothing."""
        found = self.parts.get(kind)
        return found if isinstance(found, kind) else None

    def with_part(self, part: SnapshotPart) -> "Snapshot":
        """The same cluster with a part, in place of an earlier one of its type."""
        return replace(self, parts={**self.parts, type(part): part})

    def without_part(self, kind: type[SnapshotPart]) -> "Snapshot":
        return replace(self, parts={each: part for each, part in self.parts.items() if each is not kind})

    def with_pending(self, nodes: Nodes, services: Services, pending: Pending, turn: int) -> "Snapshot":
        """The same cluster with pending tasks; cached values stay, since none depends on those."""
        snapshot = replace(self, nodes=nodes, services=services, pending=pending, turn=turn)
        if not self.pending.nodes.size:
            self._cache[_NODES_WITHOUT_PENDING] = self.nodes
        object.__setattr__(snapshot, "_cache", self._cache)
        return snapshot

    @property
    def nodes_without_pending(self) -> Nodes | None:
        """The nodes before pending tasks were added; None if the snapshot was stored together with those."""
        return self._cache.get(_NODES_WITHOUT_PENDING) if self.pending.nodes.size else self.nodes

    def stored(self) -> dict[str, Any]:
        """All attributes but computed values, for `restored`."""
        found = {each.name: getattr(self, each.name) for each in fields(self) if each.init}
        return found | {_NODES_WITHOUT_PENDING: self._cache.get(_NODES_WITHOUT_PENDING)}

    @classmethod
    def restored(cls, stored: Mapping[str, Any]) -> "Snapshot":
        """The snapshot of `stored`, with computed values shared as `_cache`, if it is there."""
        attributes = dict(stored)
        cache, nodes = attributes.pop("_cache", {}), attributes.pop(_NODES_WITHOUT_PENDING)
        snapshot = cls(**attributes)
        object.__setattr__(snapshot, "_cache", cache)
        if nodes is not None:
            cache[_NODES_WITHOUT_PENDING] = nodes
        return snapshot

    def without_filters(self) -> "Snapshot":
        """The same cluster without the filters of features; cached values stay: none depends on those."""
        snapshot = replace(self, is_filtered=False)
        object.__setattr__(snapshot, "_cache", self._cache)
        return snapshot

    def cached(self, key: Hashable, compute: Callable[[], T]) -> T:
        """A value computed from the tasks, or from the nodes' state, power curves and history, on first use.

        Snapshots that differ in their pending tasks share it, so it must not depend on the nodes' use or
        sums.
        """
        return _cached(self._cache, key, compute)

    def cached_with_pending(self, key: Hashable, compute: Callable[[], T]) -> T:
        """A value that depends on the pending tasks too: computed again once there are others."""
        return _cached(self._cache_with_pending, key, compute)

    def build_indexes(self) -> None:
        """Build the indexes of nodes, services and tasks, which are otherwise built on first use."""
        self.nodes.index, self.services.index, self._by_node, self._by_service  # noqa: B018 - cached

    @property
    def _by_node(self) -> "_Grouped":
        return self.cached("tasks by node", lambda: _group(self.tasks.node, len(self.nodes.names)))

    @property
    def _by_service(self) -> "_Grouped":
        # Services of pending tasks may follow those of the tasks: they have no task yet.
        return self.cached("tasks by service", lambda: _group(self.tasks.service, len(self.services.names)))

    def tasks_on(self, node: int) -> Rows:
        """The rows of the tasks on a node, in the order of their ids."""
        return self._by_node.rows_of(node)

    def tasks_on_any(self, nodes: Rows) -> Rows:
        """The rows of the tasks on some nodes, node by node."""
        order, starts = self._by_node
        counts = starts[nodes + 1] - starts[nodes]
        skipped = starts[nodes] - (np.cumsum(counts) - counts)
        rows: Rows = order[np.arange(counts.sum()) + np.repeat(skipped, counts)]
        return rows

    @cached_property
    def waiting(self) -> Rows:
        """The rows of the tasks that have no node."""
        return np.flatnonzero(self.tasks.node == NOWHERE)

    def tasks_of(self, service: int) -> Rows:
        return self._by_service.rows_of(service)

    def instances(self, service: int) -> NDArray[np.int64]:
        """How many tasks of a service each node has, pending ones included."""
        on = self.tasks.node[self.tasks_of(service)]
        on = np.concatenate((on[on != NOWHERE], self.pending.nodes[self.pending.services == service]))
        return np.bincount(on, minlength=len(self.nodes.names))


class _Grouped(NamedTuple):
    """Rows of tasks, sorted by what they belong to."""

    order: Rows
    starts: Rows
    """Where the rows of each group begin; and, last, where those of the last group end."""

    def rows_of(self, group: int) -> Rows:
        if group + 1 >= self.starts.size:
            return _NO_ROWS
        return self.order[self.starts[group] : self.starts[group + 1]]


def _group(column: Rows, count: int) -> _Grouped:
    """Group the rows of a column of `count` row numbers; those of `NOWHERE` are in no group."""
    numbers = column - NOWHERE
    # numpy sorts 16-bit integers by radix, several times as fast as larger ones.
    keys = numbers.astype(np.uint16) if count < np.iinfo(np.uint16).max else numbers
    ends = np.cumsum(np.bincount(numbers, minlength=count + 1))
    return _Grouped(np.argsort(keys, kind="stable"), ends)


BUSY_RATIO = 0.8
"""A resource that is busy longer has no room: in a queue, requests then wait four times as long as they take,
and the wait grows without bound from there."""
BUSY_CPU_RATIO = 0.7
"""At less CPU usage, tasks that wait for a CPU wait for their own quota, not for the node."""
DESIRED_RATIO, DEGRADED_RATIO = 0.5, 0.85
"""Lower and upper bound of the region DEE."""
OVERBOOKING_LIMITS = (np.inf, 1.0, 1.2, 1.5, 2.0)
"""How far reservations may exceed the capacity of a node, by class. A node without tasks (0) has no limit."""


def region_of(utilisation: Floats) -> Codes:
    """LEE below a half, DEE up to 85 %, EED above."""
    # Each bound that is exceeded adds one to the code.
    return (utilisation >= DESIRED_RATIO).astype(np.int8) + (utilisation > DEGRADED_RATIO)


def highest_ratio(part: Floats, capacity: Floats) -> Floats:
    """The higher of the ratios of CPU and memory, per row; unknown counts as 0."""
    ratios = share(part[:, :2], capacity[:, :2])
    highest: Floats = np.nan_to_num(ratios, nan=0.0).max(axis=1, initial=0.0)
    return highest


def _cached(cache: dict[Hashable, Any], key: Hashable, compute: Callable[[], T]) -> T:
    if key not in cache:
        cache[key] = compute()
    value: T = cache[key]
    return value


def share(part: Floats, whole: Floats) -> Floats:
    """The ratio of part to whole; NaN where the whole is 0 or unknown."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(whole > 0, part / whole, np.nan)

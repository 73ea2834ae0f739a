"""The tables of a snapshot."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from collector.snapshot.power_curves import Floats, PowerCurves, Rows
from wire.resources import RESOURCES

Flags = NDArray[np.bool_]
Codes = NDArray[np.int8]
T = TypeVar("T")

NOWHERE = -1
"""In a column of rows: none. Of a task's node: it waits for one."""
_NO_ROWS: Rows = np.empty(0, dtype=np.intp)


class Region(IntEnum):
    """How well a node's energy is used, by its most used resource."""

    LEE = 0
    """Low energy efficiency: below half."""
    DEE = 1
    """Desired energy efficiency."""
    EED = 2
    """Energy efficiency degradation: above 85 %, where work suffers."""


class Generation(IntEnum):
    """What sort of containers a node is kept for."""

    ANY = 0
    NURSERY = 1
    YOUNG = 2
    OLD = 3


class TaskKind(IntEnum):
    """How long a task means to run."""

    SERVICE = 0
    JOB = 1
    DAEMON = 2
    """As long as its node does: one runs on every node, comes with it and goes with it."""


_MADE_OF = (
    ("names", "index"),
    ("labels", "_label_columns"),
    ("history", "deviation"),
    ("bottleneck", "short"),
)
_OF_RESOURCES = ("capacity", "used", "bottleneck", "allocated", "reserved", "mean", "variance")


@dataclass(frozen=True, eq=False, kw_only=True)
class Nodes:
    """Hosts, by name. Ratios are of `capacity`; NaN is not known."""

    names: tuple[str, ...]
    capacity: Floats
    used: Floats
    """The mean over the last window that the node told of."""
    liveness: Codes
    on: Flags
    """Has power; one that is off can be switched on."""
    accepts: Flags
    """May be given tasks: neither drained, nor paused, nor opted out."""
    heard_seconds_ago: Floats
    generation: Codes
    failures: NDArray[np.int32]
    """Tasks that died on it of late."""
    bottleneck: Flags
    """Per resource: has an open alert."""
    domain: NDArray[np.int32]
    """What it would fail together with, as a number; `NOWHERE` where nobody told."""
    history: Floats
    """Ratios used of late: one plane per node, its rows from the oldest to the newest, NaN before those."""
    power: PowerCurves
    labels: tuple[Mapping[str, str], ...]
    # What the tasks come to; made by `assemble`.
    tasks: NDArray[np.int32]
    allocated: Floats
    """What its tasks were promised."""
    reserved: Floats
    """What its tasks' envelopes add up to, with tasks that were sent there and are not seen yet."""
    mean: Floats
    variance: Floats
    """Sums over its tasks, as if they moved independently of each other."""
    strictest_class: Codes
    """The lowest class among its tasks; 0 without any."""

    def __post_init__(self) -> None:
        # One resource of all nodes after the other: policies go along the nodes, which is several times as
        # fast as hopping over the other three resources.
        for name in _OF_RESOURCES:
            object.__setattr__(self, name, np.asfortranarray(getattr(self, name)))

    def with_more(self, **columns: Any) -> "Nodes":  # noqa: ANN401 - columns of several types
        """The same nodes, told to carry more."""
        return replace(self, **columns).knowing(self)

    def knowing(self, other: "Nodes") -> "Nodes":
        """These nodes, with what was made already of names, labels and past, where they are the same."""
        for of, made in _MADE_OF:
            if made in other.__dict__ and getattr(self, of) is getattr(other, of):
                # Values that are made once stand beside the fields, where a frozen class does not guard them.
                self.__dict__[made] = other.__dict__[made]
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

        A label is made into a column of numbers when it is first asked for: there may be many labels, and
        few are ever asked for.
        """
        if label == "node":
            matches = np.zeros(len(self.names), dtype=np.bool_)
            if value in self.index:
                matches[self.index[value]] = True
            return matches
        if label not in self._label_columns:
            told = [labels.get(label) for labels in self.labels]
            numbers = {
                each: number for number, each in enumerate({each for each in told if each is not None})
            }
            column = [NOWHERE if each is None else numbers[each] for each in told]
            self._label_columns[label] = numbers, np.array(column, dtype=np.int32)
        number_of, numbers_told = self._label_columns[label]
        # No number is that of a value that no node carries.
        return np.equal(numbers_told, number_of.get(value, NOWHERE - 1))

    @cached_property
    def used_ratio(self) -> Floats:
        return _ratio(self.used, self.capacity)

    @cached_property
    def reserved_ratio(self) -> Floats:
        return _ratio(self.reserved, self.capacity)

    @cached_property
    def allocated_ratio(self) -> Floats:
        return _ratio(self.allocated, self.capacity)

    @cached_property
    def deviation(self) -> Floats:
        """How much the shares that were used of late varied; 0 where nothing is known."""
        known = ~np.isnan(self.history)
        past, count = np.where(known, self.history, 0.0), np.maximum(known.sum(axis=1), 1)
        mean = past.sum(axis=1) / count
        past -= mean[:, np.newaxis]
        past *= known
        deviation: Floats = np.sqrt(np.einsum("ijk,ijk->ik", past, past) / count)
        return deviation

    @cached_property
    def short(self) -> Flags:
        """Has an open alert of any resource."""
        short: Flags = np.any(self.bottleneck, axis=1)
        return short

    @cached_property
    def utilisation(self) -> Floats:
        """The most used of CPU and memory, as Energy4Cloud has it."""
        return _most(_ratio(self.used[:, :2], self.capacity[:, :2]))

    @cached_property
    def overbooking(self) -> Floats:
        """The most promised of CPU and memory, by what there is."""
        return _most(_ratio(self.allocated[:, :2], self.capacity[:, :2]))

    @cached_property
    def region(self) -> Codes:
        return region_of(self.utilisation)

    @cached_property
    def watts(self) -> Floats:
        """What each draws as it is used now; 0 without power, NaN without a curve."""
        return np.where(self.on, self.power.watts(self.used_ratio), 0.0)


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
    """What it is reckoned to need: a percentile per resource; never NaN, a guess where `samples` is 0."""
    samples: NDArray[np.int64]
    requested: Floats
    """What it was promised at first; NaN where nothing was."""
    allocated: Floats
    """What it is promised now, after cuts."""
    task_class: Codes
    """1 (nothing may be taken from it) to 4."""
    kind: Codes
    group: Codes
    """The class that its envelope falls into, as a number; `NOWHERE` before it is known."""
    age_seconds: Floats
    settled_seconds: Floats
    """Since it came to its node."""
    came_from: Rows
    """Where it was moved away from last; `NOWHERE` if it was not."""
    movable: Flags
    history: Floats = field(default_factory=lambda: np.empty((0, 0, len(RESOURCES))))
    """What it used of late, as `Nodes.history` but in amounts; without rows where nobody keeps that."""

    @cached_property
    def index(self) -> Mapping[str, int]:
        """The row of each id."""
        return {name: row for row, name in enumerate(self.ids)}


@dataclass(frozen=True, eq=False, kw_only=True)
class Services:
    """What containers are instances of, by name."""

    names: tuple[str, ...]
    known: Flags
    """Its envelope was learnt from enough samples, now or earlier."""
    dominant: Codes
    """The resource it takes the largest share of, as its place in `RESOURCES`; `NOWHERE` if not known."""
    confidence: Floats
    """Of that, 0-1."""
    envelope: Floats
    """Of one instance."""
    mean: Floats
    variance: Floats
    images: tuple[str, ...]
    """Empty where nobody told."""

    @cached_property
    def index(self) -> Mapping[str, int]:
        """The row of each name."""
        return {name: row for row, name in enumerate(self.names)}

    @cached_property
    def by_image(self) -> Mapping[str, int]:
        """The row of a known service that runs an image."""
        return {image: row for row, image in enumerate(self.images) if image and self.known[row]}


@dataclass(frozen=True, eq=False, kw_only=True)
class Snapshot:
    """A cluster at one moment."""

    at: float
    nodes: Nodes
    tasks: Tasks
    services: Services
    turn: int = 0
    """Placements decided so far: what takes turns, or chances, goes on from here."""
    seed: int = 0
    domain_names: tuple[str, ...] = field(default=())
    sent: tuple[Rows, Rows] = field(default=(_NO_ROWS, _NO_ROWS))
    """Nodes and services of tasks that were sent and are not seen yet: they have no row of their own."""

    _made: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    def with_sent(self, nodes: Nodes, services: Services, sent: tuple[Rows, Rows], turn: int) -> "Snapshot":
        """The same cluster, with tasks on their way to its nodes; what was made of the others is kept."""
        snapshot = replace(self, nodes=nodes, services=services, sent=sent, turn=turn)
        # Sent or not, the tasks that are seen stand where they stood.
        object.__setattr__(snapshot, "_made", self._made)
        return snapshot

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What is worked out of the tasks, or of the nodes' state, curves and past, when first asked for.

        It holds for a snapshot that differs only in what was sent, so it must not be made of the nodes' use
        nor of their sums.
        """
        if key not in self._made:
            self._made[key] = make()
        made: T = self._made[key]
        return made

    @property
    def _by_node(self) -> tuple[Rows, Rows]:
        return self.once("tasks by node", self._sort_by_node)

    def _sort_by_node(self) -> tuple[Rows, Rows]:
        order = np.argsort(self.tasks.node, kind="stable")
        starts = np.searchsorted(self.tasks.node[order], np.arange(len(self.nodes.names) + 1))
        return order, starts

    def tasks_on(self, node: int) -> Rows:
        """The rows of the tasks on a node, in the order of their ids."""
        order, starts = self._by_node
        return order[starts[node] : starts[node + 1]]

    @cached_property
    def waiting(self) -> Rows:
        """The rows of the tasks that have no node."""
        return np.flatnonzero(self.tasks.node == NOWHERE)

    @property
    def _by_service(self) -> tuple[Rows, Rows]:
        key = "tasks by service", len(self.services.names)
        return self.once(key, self._sort_by_service)

    def _sort_by_service(self) -> tuple[Rows, Rows]:
        order = np.argsort(self.tasks.service, kind="stable")
        starts = np.searchsorted(self.tasks.service[order], np.arange(len(self.services.names) + 1))
        return order, starts

    def tasks_of(self, service: int) -> Rows:
        """The rows of a service's tasks."""
        order, starts = self._by_service
        return order[starts[service] : starts[service + 1]]

    def instances(self, service: int) -> NDArray[np.int64]:
        """How many tasks of a service each node runs, or was sent."""
        on = self.tasks.node[np.flatnonzero(self.tasks.service == service)]
        nodes_sent, services_sent = self.sent
        on = np.concatenate((on[on != NOWHERE], nodes_sent[services_sent == service]))
        return np.bincount(on, minlength=len(self.nodes.names))


DESIRED_RATIO, DEGRADED_RATIO = 0.5, 0.85
"""Where the desired region begins, and where it ends."""


def region_of(utilisation: Floats) -> Codes:
    """LEE below a half, DEE up to 85 %, EED above."""
    # Each border that is passed is one region on.
    return (utilisation >= DESIRED_RATIO).astype(np.int8) + (utilisation > DEGRADED_RATIO)


def _most(ratios: Floats) -> Floats:
    highest: Floats = np.nan_to_num(ratios, nan=0.0).max(axis=1, initial=0.0)
    return highest


def _ratio(part: Floats, whole: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(whole > 0, part / whole, np.nan)

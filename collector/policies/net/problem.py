"""The placement of an application as arrays: the input of its solvers.

Pods with the same needs are one kind. The objective is ge-kube's F = D / D_max + (Z - 1) / (|N| - 1): D is
the number of pods whose image is absent from their node, Z the number of nodes in use.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from collector.common.arrays import Flags, Floats, Rows
from collector.policies.distance import within
from collector.snapshot.delays import Delays

Counts = NDArray[np.int64]
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False, kw_only=True)
class Problem:
    """Kinds of pods, and the nodes that could be used."""

    nodes: Rows
    """The row in the snapshot of each node. All other arrays have the places of nodes here."""
    counts: Counts
    """How many pods each kind has."""
    most: Counts
    """How many pods of each kind a node may have."""
    sizes: Floats
    """What a pod of each kind takes: a row per kind."""
    free: Floats
    """What each node has left, with the same columns."""
    allowed: Flags
    """The nodes that each kind may use: a row per kind, a column per node."""
    absent: Flags
    """The nodes without the image of each kind."""
    talks: Flags
    """The kinds that must be near each other: a row and a column per kind."""
    used: Flags
    """The nodes that run members of the application already: using them adds none."""
    delays: Delays | None
    bound: float
    """Maximum round-trip time between the nodes of kinds that talk, in seconds; infinite without one."""
    absent_weight: float
    """What a pod without its image adds to F: 1 / D_max."""
    node_weight: float
    """What a node in use adds to F: 1 / (|N| - 1)."""

    @property
    def is_bounded(self) -> bool:
        return self.delays is not None and np.isfinite(self.bound)

    @cached_property
    def all_talk(self) -> bool:
        """Whether every kind must be near every other."""
        return bool(self.talks.all())

    @cached_property
    def near(self) -> Flags:
        """Which nodes are within the bound of each other: a row and a column per node."""
        count = len(self.nodes)
        if self.delays is None or not self.is_bounded:
            return np.ones((count, count), dtype=np.bool_)
        return within(self.delays.among(self.nodes), self.bound)

    @cached_property
    def distance(self) -> Floats | None:
        """Round-trip times as shares of the longest: a row and a column per node; None if there are none.

        An unknown time counts as the longest.
        """
        if self.delays is None:
            return None
        seconds = self.delays.among(self.nodes)
        longest = float(np.nanmax(seconds, initial=0.0))
        return np.nan_to_num(seconds / longest, nan=1.0) if longest > 0 else None

    def near_to(self, node: int) -> Flags:
        """Return the nodes within the bound of one."""
        if "near" in self.__dict__ or self.delays is None or not self.is_bounded:
            near: Flags = self.near[node]
            return near
        return within(self.delays.from_node(int(self.nodes[node]))[self.nodes], self.bound)

    @cached_property
    def room(self) -> Counts:
        """How many pods of each kind a node has room for, if it takes no other: at most all of them."""
        room = np.repeat(np.minimum(self.most, self.counts)[:, np.newaxis], len(self.nodes), axis=1)
        for size, free in zip(self.sizes.T, self.free.T, strict=True):
            takes = size > 0
            fits = np.floor(free / size[takes, np.newaxis] + _ROUNDING)
            room[takes] = np.minimum(room[takes], np.maximum(fits, 0.0).astype(np.int64))
        room[~self.allowed] = 0
        return room

    def among(self, places: Rows) -> "Problem":
        """Return the same problem with some of the nodes only; the weights stay."""
        part = Problem(
            nodes=self.nodes[places],
            counts=self.counts,
            most=self.most,
            sizes=self.sizes,
            free=self.free[places],
            allowed=self.allowed[:, places],
            absent=self.absent[:, places],
            talks=self.talks,
            used=self.used[places],
            delays=self.delays,
            bound=self.bound,
            absent_weight=self.absent_weight,
            node_weight=self.node_weight,
        )
        if "near" in self.__dict__:
            part.__dict__["near"] = self.near[np.ix_(places, places)]
        return part

    def objective(self, placed: Counts) -> "Objective":
        """Return F of the pods of each kind on each node."""
        in_use = int((self.used | placed.any(axis=0)).sum())
        return Objective(
            absent=int(placed[self.absent].sum()),
            pods=int(self.counts.sum()),
            in_use=in_use,
            absent_weight=self.absent_weight,
            node_weight=self.node_weight,
        )


@dataclass(frozen=True, slots=True)
class Objective:
    """F and its terms."""

    absent: int
    """Pods whose image is absent from their node: D."""
    pods: int
    """All pods: D_max."""
    in_use: int
    """Nodes in use by the application, those of running members included: Z."""
    absent_weight: float
    node_weight: float

    @property
    def value(self) -> float:
        """F: the lower the better."""
        return self.absent * self.absent_weight + max(self.in_use - 1, 0) * self.node_weight


def kinds_of(keys: Sequence[object]) -> Rows:
    """Return the number of the kind of each pod, by keys that are equal for pods of one kind."""
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.intp)

"""The placement of an application as arrays, from a snapshot and requests: the input of its solvers.

Pods with the same needs are one kind. The objective is ge-kube's F = D / D_max + (Z - 1) / (|N| - 1): D is
the number of pods whose image is absent from their node, Z the number of nodes in use.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from collector.common.applications import is_named
from collector.common.arrays import Codes, Flags, Floats, Rows
from collector.decide.policies.filters import eligible_unfiltered, free_of_allocated, without_room
from collector.decide.policies.interface import Objective, Rejection, Request
from collector.features.network.applications.distance import (
    application_of,
    bound_of,
    near_members,
    nodes_of,
    within,
)
from collector.features.network.applications.images import ImageTable
from collector.features.network.applications.table import applications_in
from collector.features.network.mesh.delays import Delays
from collector.snapshot.columns import as_row
from collector.snapshot.tables import NOWHERE, Snapshot

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
    candidates: int
    """Nodes that could be used, whatever their distance and room: |N|."""
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
        return replace(
            self,
            nodes=self.nodes[places],
            free=self.free[places],
            allowed=self.allowed[:, places],
            absent=self.absent[:, places],
            used=self.used[places],
        )

    def objective(self, placed: Counts) -> Objective:
        """Return F of the pods of each kind on each node, and its terms."""
        absent = int(placed[self.absent].sum())
        in_use = int((self.used | placed.any(axis=0)).sum())
        return Objective(
            value=absent * self.absent_weight + max(in_use - 1, 0) * self.node_weight,
            absent_images=absent,
            containers=int(self.counts.sum()),
            nodes_in_use=in_use,
            candidates=self.candidates,
        )


def kinds_of(keys: Sequence[object]) -> tuple[Rows, Rows]:
    """Return the kind of each pod, by keys that are equal for pods of one kind; and the first of each."""
    numbers: dict[object, int] = {}
    kind = np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.intp)
    return kind, np.unique(kind, return_index=True)[1]


@dataclass(frozen=True, eq=False, kw_only=True)
class BuiltProblem:
    """A problem, and what its kinds stand for."""

    problem: Problem
    kinds: tuple[Request, ...]
    """A request of each kind."""
    kind: Rows
    """The kind of each request."""
    refused: Codes
    """Why each kind may not use each node: a row per kind."""


def build(
    snapshot: Snapshot,
    requests: Sequence[Request],
    *,
    stale_seconds: float,
    bound: float | None = None,
    spreads: bool = False,
) -> BuiltProblem:
    """Build the problem. `bound` replaces that of the requests, in seconds.

    With `spreads`, containers that are to be spread do not share a node with others of their service.
    """
    kind, first = kinds_of(requests)
    kinds = tuple(requests[each] for each in first)
    if bound is None:
        bound = min(bound_of(snapshot, each) for each in kinds)
    sizes = np.array([np.concatenate((as_row(each.reserve), as_row(each.demand))) for each in kinds])
    free = free_amounts(snapshot)
    takes = sizes.any(axis=0)
    counts = np.bincount(kind, minlength=len(kinds))
    # No node takes more than all pods need, so that unknown amounts, which do not limit, become finite.
    all_of_them = counts @ sizes
    refused = np.array([eligible_unfiltered(snapshot, each, stale_seconds=stale_seconds) for each in kinds])
    application = next((name for each in kinds if (name := application_of(snapshot, each))), None)
    used = used_nodes(snapshot, application)
    could = (refused == Rejection.NOT).any(axis=0) | used
    refused = np.array(
        [
            _refused(snapshot, each, before, free, near_members(snapshot, each, bound), spreads=spreads)
            for each, before in zip(kinds, refused, strict=True)
        ]
    )
    candidates = int(could.sum())
    problem = Problem(
        nodes=np.arange(len(snapshot.nodes.names)),
        counts=counts,
        most=np.where([spreads and each.spread for each in kinds], 1, counts),
        sizes=sizes[:, takes],
        free=np.minimum(free, all_of_them)[:, takes],
        allowed=refused == Rejection.NOT,
        absent=np.array([absent_image(snapshot, each) for each in kinds]),
        talks=_talks(snapshot, kinds, application),
        used=used,
        delays=snapshot.part(Delays),
        bound=bound,
        absent_weight=1 / len(requests),
        candidates=candidates,
        node_weight=1 / max(candidates - 1, 1),
    )
    return BuiltProblem(problem=problem, kinds=kinds, kind=kind, refused=refused)


def _refused(  # noqa: PLR0913 - question and nodes
    snapshot: Snapshot, request: Request, refused: Codes, free: Floats, near: Flags | None, *, spreads: bool
) -> Codes:
    """Reject the nodes as well that lack room, are too far from members, or run the service already."""
    refused = without_room(refused, free[:, :4], as_row(request.reserve))
    refused = without_room(refused, free[:, 4:], as_row(request.demand))
    if near is not None:
        refused[(refused == Rejection.NOT) & ~near] = Rejection.DISTANCE
    service = snapshot.services.index.get(request.service or "")
    if spreads and request.spread and service is not None:
        has_one = snapshot.instances(service) > 0
        refused[(refused == Rejection.NOT) & has_one] = Rejection.AVOIDED
    return refused


def free_amounts(snapshot: Snapshot) -> Floats:
    """Return what each node has left for reservations, then what it has left for use; unknown is infinite.

    The use of a node is the expected use of its containers, or the use that it reports if that is more.
    """
    nodes = snapshot.nodes
    free = np.column_stack(
        (free_of_allocated(snapshot), nodes.capacity - np.fmax(nodes.used, nodes.envelope_sum))
    )
    return np.where(np.isnan(free), np.inf, free)


def absent_image(snapshot: Snapshot, request: Request) -> Flags:
    """Return the nodes without the image of a request; all if nothing is reported about it."""
    image = request.image
    if image is None:
        row = snapshot.services.index.get(request.service or "", NOWHERE)
        image = None if row == NOWHERE else snapshot.services.images[row]
    images = snapshot.part(ImageTable)
    if not image or images is None:
        return np.ones(len(snapshot.nodes.names), dtype=np.bool_)
    return ~images.on_nodes(image)


def used_nodes(snapshot: Snapshot, application: str | None) -> Flags:
    """Return the nodes that an application uses already."""
    applications = applications_in(snapshot)
    used = np.zeros(len(snapshot.nodes.names), dtype=np.bool_)
    if application is not None and application in applications.index:
        used[nodes_of(snapshot, applications.services_of(applications.index[application]))] = True
    return used


def _talks(snapshot: Snapshot, kinds: Sequence[Request], application: str | None) -> Flags:
    """Return which kinds talk to which: all to all, unless links or requests list the pairs."""
    applications = applications_in(snapshot)
    links = applications.links.get(applications.index.get(application or "", NOWHERE))
    if links is None and not any(each.application.talks_to for each in kinds):
        return np.ones((len(kinds), len(kinds)), dtype=np.bool_)
    names = snapshot.services.names
    pairs = {(names[one], names[other]) for one, other in links or ()}
    talks = [
        [
            (one.service, other.service) in pairs
            or any(is_named(other.service or "", each) for each in one.application.talks_to)
            for other in kinds
        ]
        for one in kinds
    ]
    flags = np.array(talks, dtype=np.bool_)
    return np.logical_or(flags, flags.T)

"""The problem of placing an application, from a snapshot and requests."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from collector.common.applications import is_named
from collector.common.arrays import Codes, Flags, Floats, Rows
from collector.features.network.applications.distance import (
    application_of,
    bound_of,
    near_members,
    nodes_of,
)
from collector.features.network.applications.images import ImageTable
from collector.features.network.applications.problem import Problem, kinds_of
from collector.features.network.applications.table import applications_in
from collector.features.network.mesh.delays import Delays
from collector.policies.filters import eligible_unfiltered, free_of_allocated, without_room
from collector.policies.interface import Rejection, Request
from collector.snapshot.columns import as_row
from collector.snapshot.tables import NOWHERE, Snapshot


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
    candidates: int
    """Nodes that could be used, whatever their distance and room: |N|."""
    application: str | None


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
    kind = kinds_of(requests)
    kinds = tuple(requests[int(np.flatnonzero(kind == each)[0])] for each in range(int(kind.max()) + 1))
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
        node_weight=1 / max(candidates - 1, 1),
    )
    return BuiltProblem(
        problem=problem,
        kinds=kinds,
        kind=kind,
        refused=refused,
        candidates=candidates,
        application=application,
    )


def _refused(  # noqa: PLR0913 - question and nodes
    snapshot: Snapshot, request: Request, refused: Codes, free: Floats, near: Flags | None, *, spreads: bool
) -> Codes:
    """Reject the nodes as well that lack room, are too far from members, or run the service already."""
    refused = without_room(refused, free[:, :4], request.reserve)
    refused = without_room(refused, free[:, 4:], request.demand)
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

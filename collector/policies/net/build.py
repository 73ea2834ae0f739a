"""The problem of placing an application, from a snapshot and requests."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from collector.common.arrays import Codes, Flags, Floats, Rows
from collector.policies.distance import application_of, bound_of, near_all, nodes_of, peers_of
from collector.policies.filters import eligible_at_any_distance, free_of_allocated, without_room
from collector.policies.interface import Rejection, Request
from collector.policies.net.problem import Problem, kinds_of
from collector.snapshot.applications import NO_APPLICATIONS
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
    refused = np.array(
        [eligible_at_any_distance(snapshot, each, stale_seconds=stale_seconds) for each in kinds]
    )
    application = next((name for each in kinds if (name := application_of(snapshot, each))), None)
    used = used_nodes(snapshot, application)
    could = (refused == Rejection.NOT).any(axis=0) | used
    near_members = _NearMembers(snapshot, bound)
    refused = np.array(
        [
            _refused(snapshot, each, before, free, near_members.of(each), spreads=spreads)
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
        delays=snapshot.delays,
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
    if not image or snapshot.images is None:
        return np.ones(len(snapshot.nodes.names), dtype=np.bool_)
    return ~snapshot.images.on_nodes(image)


def used_nodes(snapshot: Snapshot, application: str | None) -> Flags:
    """Return the nodes that an application uses already."""
    applications = snapshot.applications or NO_APPLICATIONS
    used = np.zeros(len(snapshot.nodes.names), dtype=np.bool_)
    if application is not None and application in applications.index:
        used[nodes_of(snapshot, applications.services_of(applications.index[application]))] = True
    return used


@dataclass(frozen=True, eq=False)
class _NearMembers:
    """The nodes that are near enough to the running members that each request talks to."""

    snapshot: Snapshot
    bound: float
    _found: dict[bytes, Flags | None] = field(default_factory=dict)
    """By the services of these members: most requests have the same."""

    def of(self, request: Request) -> Flags | None:
        delays = self.snapshot.delays
        if delays is None or np.isinf(self.bound):
            return None
        peers = peers_of(self.snapshot, request)
        key = peers.tobytes()
        if key not in self._found:
            members = nodes_of(self.snapshot, peers)
            self._found[key] = near_all(delays, members, self.bound) if members.size else None
        return self._found[key]


def _talks(snapshot: Snapshot, kinds: Sequence[Request], application: str | None) -> Flags:
    """Return which kinds talk to which: all to all, unless links or requests list the pairs."""
    applications = snapshot.applications or NO_APPLICATIONS
    links = applications.links.get(applications.index.get(application or "", NOWHERE))
    if links is None and not any(each.talks_to for each in kinds):
        return np.ones((len(kinds), len(kinds)), dtype=np.bool_)
    names = snapshot.services.names
    pairs = {(names[one], names[other]) for one, other in links or ()}
    pairs |= {(each.service or "", other) for each in kinds for other in each.talks_to}
    pairs |= {(other, one) for one, other in pairs}
    return np.array([[(one.service, other.service) in pairs for other in kinds] for one in kinds])

"""`net-aware`: ge-kube's placement of applications, and plans that bring them together.

An application is placed as a whole: on few nodes, where the images of its containers are, within its bound of
round-trip times. A single container goes where it adds the least to F; of equal nodes, to the one that is
nearest to the other members.
"""

from collections.abc import Sequence

import numpy as np

from collector.common.arrays import Floats
from collector.decide.policies.filters import eligible, without_room
from collector.decide.policies.interface import (
    ApplicationPlacement,
    Plan,
    Policy,
    Ranking,
    Rejection,
    Request,
    Stability,
)
from collector.decide.policies.scoring import instances_near, same_domain
from collector.features.network.applications import greedy
from collector.features.network.applications.answer import placed_answer, refused_answer
from collector.features.network.applications.distance import (
    application_of,
    bound_of,
    milliseconds,
    nodes_of,
    peers_of,
)
from collector.features.network.applications.problem import absent_image, build, free_amounts, used_nodes
from collector.features.network.applications.together import bring_together
from collector.features.network.mesh.delays import Delays
from collector.snapshot.columns import as_row
from collector.snapshot.tables import Snapshot

_SPREAD_PENALTY = 10.0
"""More than the largest F."""
_NEAR = 1e-6
"""Weight of the round-trip time in seconds: it decides only between nodes with the same F."""


def place(snapshot: Snapshot, request: Request, settings: Stability) -> Ranking:
    """Rank nodes by what one more container adds to F."""
    reasons_against = eligible(snapshot, request, stale_seconds=settings.stale_seconds)
    free = free_amounts(snapshot)
    refused = without_room(reasons_against, free[:, :4], as_row(request.reserve))
    refused = without_room(refused, free[:, 4:], as_row(request.demand))
    application = application_of(snapshot, request)
    used = used_nodes(snapshot, application)
    could = int((np.isin(reasons_against, (Rejection.NOT, Rejection.DISTANCE)) | used).sum())
    absent = absent_image(snapshot, request)
    in_use = used.sum() + ~used
    value = absent + (in_use - 1) / max(could - 1, 1)
    seconds = _round_trips(snapshot, request)
    near = instances_near(snapshot, request.service) if request.spread else np.zeros(len(used))
    scores = -(value + _SPREAD_PENALTY * near + _NEAR * np.nan_to_num(seconds, nan=0.0))
    order = np.flatnonzero(refused == Rejection.NOT)
    order = order[np.argsort(-scores[order], kind="stable")]
    bound = bound_of(snapshot, request)

    def explain(row: int) -> tuple[str, ...]:
        image = "the image is absent or not reported" if absent[row] else "the node has the image"
        nodes = "runs members already" if used[row] else f"would be node {int(in_use[row])} in use"
        reasons = [f"F = {value[row]:.3f}: {image}"]
        if application is not None:
            reasons.append(f"application {application}: {nodes}")
        if not np.isnan(seconds[row]) and np.isfinite(bound):
            reasons.append(
                f"at most {milliseconds(float(seconds[row]))} from its members, the bound is"
                f" {milliseconds(bound)}"
            )
        return (*reasons, same_domain(near[row])) if near[row] else tuple(reasons)

    return Ranking(
        rows=order,
        scores=scores[order],
        score_is=(
            "minus F of this container: 1 if its image is absent, plus the share of other nodes that its"
            " application uses; of equals, the nearest to its members"
        ),
        refused=refused,
        explain=explain,
    )


def _round_trips(snapshot: Snapshot, request: Request) -> Floats:
    """Return the longest round-trip time from each node to the members of an application; NaN if unknown."""
    delays, members = snapshot.part(Delays), nodes_of(snapshot, peers_of(snapshot, request))
    if delays is None or not members.size:
        return np.full(len(snapshot.nodes.names), np.nan)
    longest: Floats = np.max([delays.from_node(row) for row in members.tolist()], axis=0)
    return longest


def place_greedily(
    snapshot: Snapshot, requests: Sequence[Request], settings: Stability
) -> ApplicationPlacement:
    """Place an application by the greedy.

    Containers that are to be spread go to different nodes, and share some only if that is not possible.
    """
    spreads = any(each.spread for each in requests)
    built = build(snapshot, requests, stale_seconds=settings.stale_seconds, spreads=spreads)
    placed = greedy.solve(built.problem)
    if placed is None and spreads:
        built = build(snapshot, requests, stale_seconds=settings.stale_seconds)
        placed = greedy.solve(built.problem)
    if placed is None:
        return refused_answer(snapshot, requests, built, stale_seconds=settings.stale_seconds)
    return placed_answer(snapshot, built, placed)


def rebalance_greedily(snapshot: Snapshot, settings: Stability) -> Plan:
    """Bring applications together that are apart, by the greedy."""
    return bring_together(snapshot, settings, greedy.solve)


NET_AWARE = Policy(
    name="net-aware",
    summary="ge-kube's greedy: an application on few nodes that have its images, within its bound of delay",
    for_whom="applications whose containers talk to each other across regions or slow links",
    settings=Stability,
    place=place,
    rebalance=rebalance_greedily,
    place_all=place_greedily,
)
POLICIES = (NET_AWARE,)

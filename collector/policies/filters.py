"""Which nodes a request may go to at all: asked by every policy before it ranks."""

from collections.abc import Mapping

import numpy as np

from collector.common.liveness import Liveness
from collector.policies.interface import STALE_SECONDS, Constraint, Operator, Rejection, Request
from collector.snapshot.columns import four
from collector.snapshot.power_curves import Floats
from collector.snapshot.tables import NOWHERE, Codes, Flags, Nodes, Snapshot
from wire.resources import Quantities

_SHORT_OF = (Rejection.CPU, Rejection.MEMORY, Rejection.DISK, Rejection.NETWORK)
_ROUNDING = 1e-9


def eligible(
    snapshot: Snapshot, request: Request, *, stale_seconds: float = STALE_SECONDS, wake: bool = False
) -> Codes:
    """Why each node is out of the question for a request, room apart; the first reason that holds.

    With `wake`, a node that is off is as good as one that is on, and is not expected to be heard of.
    """
    key = "eligible", stale_seconds, wake
    refused = snapshot.cached(key, lambda: _whoever_asks(snapshot.nodes, stale_seconds, wake=wake)).copy()
    for name in request.exclude:
        row = snapshot.nodes.index.get(name, NOWHERE)
        if row != NOWHERE and refused[row] == Rejection.NOT:
            refused[row] = Rejection.EXCLUDED
    for constraint in request.constraints:
        _refuse(refused, ~_fulfils(snapshot, constraint), Rejection.CONSTRAINT)
    for service in request.avoid:
        row = snapshot.services.index.get(service, NOWHERE)
        if row != NOWHERE:
            _refuse(refused, snapshot.instances(row) > 0, Rejection.AVOIDED)
    return refused


def _whoever_asks(nodes: Nodes, stale_seconds: float, *, wake: bool) -> Codes:
    """The refusals that no request has a part in."""
    refused = np.zeros(len(nodes.names), dtype=np.int8)
    if not wake:
        _refuse(refused, ~nodes.on, Rejection.OFF)
    _refuse(refused, nodes.on & (nodes.liveness == Liveness.DOWN), Rejection.DOWN)
    _refuse(refused, ~nodes.accepts, Rejection.CLOSED)
    _refuse(refused, nodes.on & (nodes.report_age_seconds > stale_seconds), Rejection.STALE)
    unknown = np.isnan(nodes.capacity[:, 0]) | np.isnan(nodes.capacity[:, 1])
    _refuse(refused, unknown, Rejection.UNKNOWN_CAPACITY)
    return refused


def without_room(refused: Codes, free: Floats, wanted: Quantities) -> Codes:
    """Also refuse the nodes that have less free than is wanted, naming the first resource that lacks.

    What is free of a resource may be unknown (NaN): then it does not stand in the way.
    """
    refused = refused.copy()
    for place, amount in enumerate(four(wanted, missing=0.0)):
        if amount > 0:
            _refuse(refused, free[:, place] < amount * (1 - _ROUNDING), _SHORT_OF[place])
    return refused


def free_of_reserved(snapshot: Snapshot) -> Floats:
    """What envelopes leave of each node; NaN where the capacity is not known."""
    return snapshot.nodes.capacity - snapshot.nodes.envelope_sum


def free_of_allocated(snapshot: Snapshot) -> Floats:
    """What promises leave of each node."""
    return snapshot.nodes.capacity - snapshot.nodes.allocated


def free_of_load(snapshot: Snapshot) -> Floats:
    """What is left beside the load: the use that was told, or what the tasks come to where that is more.

    A task that was sent to a node lately is no part of the node's use before it was heard of there.
    """
    return snapshot.nodes.capacity - np.fmax(snapshot.nodes.used, snapshot.nodes.mean)


def _refuse(refused: Codes, where: Flags, why: Rejection) -> None:
    np.putmask(refused, where & (refused == Rejection.NOT), why)


def _fulfils(snapshot: Snapshot, constraint: Constraint) -> Flags:
    matches = snapshot.nodes.labelled(constraint.label, constraint.value)
    return matches if constraint.operator is Operator.IS else ~matches


_WHY: Mapping[int, str] = {
    Rejection.DOWN: "it is down: nothing was heard of it",
    Rejection.OFF: "it is switched off",
    Rejection.CLOSED: "it takes no tasks: drained, paused or opted out",
    Rejection.STALE: "what is known of it is too old to decide on",
    Rejection.UNKNOWN_CAPACITY: "it has not told how much CPU and memory it has",
    Rejection.EXCLUDED: "the request excludes it",
    Rejection.CONSTRAINT: "its labels do not fulfil the request's constraints",
    Rejection.AVOIDED: "it runs a service that the request must not share a node with",
    Rejection.CPU: "too little CPU is free",
    Rejection.MEMORY: "too little memory is free",
    Rejection.DISK: "too little disk bandwidth is free",
    Rejection.NETWORK: "too little network bandwidth is free",
    Rejection.CLASS: "a stricter class runs there",
    Rejection.OVERBOOKED: "more would be promised than its class allows",
    Rejection.GENERATION: "it belongs to another generation",
    Rejection.BOTTLENECK: "it has a bottleneck now",
    Rejection.CAME_FROM: "the container was moved away from it lately",
    Rejection.POLICY: "the policy does not consider it",
}


def why(code: int) -> str:
    """What a refusal means, for a person."""
    return _WHY[code]

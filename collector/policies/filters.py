"""Which nodes a request may go to at all: asked by every policy before it ranks."""

from collections.abc import Mapping

import numpy as np

from collector.policies.interface import STALE_SECONDS, Constraint, Operator, Refused, Request
from collector.snapshot.assembly import four
from collector.snapshot.power_curves import Floats
from collector.snapshot.tables import NOWHERE, Codes, Flags, Liveness, Nodes, Snapshot
from wire.resources import Quantities

_SHORT_OF = (Refused.CPU, Refused.MEMORY, Refused.DISK, Refused.NETWORK)
_ROUNDING = 1e-9


def eligible(
    snapshot: Snapshot, request: Request, *, stale_seconds: float = STALE_SECONDS, wake: bool = False
) -> Codes:
    """Why each node is out of the question for a request, room apart; the first reason that holds.

    With `wake`, a node that is off is as good as one that is on, and is not expected to be heard of.
    """
    key = "eligible", stale_seconds, wake
    refused = snapshot.once(key, lambda: _whoever_asks(snapshot.nodes, stale_seconds, wake=wake)).copy()
    for name in request.exclude:
        row = snapshot.nodes.index.get(name, NOWHERE)
        if row != NOWHERE and refused[row] == Refused.NOT:
            refused[row] = Refused.EXCLUDED
    for constraint in request.constraints:
        _refuse(refused, ~_fulfils(snapshot, constraint), Refused.CONSTRAINT)
    for service in request.avoid:
        row = snapshot.services.index.get(service, NOWHERE)
        if row != NOWHERE:
            _refuse(refused, snapshot.instances(row) > 0, Refused.AVOIDED)
    return refused


def _whoever_asks(nodes: Nodes, stale_seconds: float, *, wake: bool) -> Codes:
    """The refusals that no request has a part in."""
    refused = np.zeros(len(nodes.names), dtype=np.int8)
    if not wake:
        _refuse(refused, ~nodes.on, Refused.OFF)
    _refuse(refused, nodes.on & (nodes.liveness == Liveness.DOWN), Refused.DOWN)
    _refuse(refused, ~nodes.accepts, Refused.CLOSED)
    _refuse(refused, nodes.on & (nodes.heard_seconds_ago > stale_seconds), Refused.STALE)
    unknown = np.isnan(nodes.capacity[:, 0]) | np.isnan(nodes.capacity[:, 1])
    _refuse(refused, unknown, Refused.UNKNOWN_CAPACITY)
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
    return snapshot.nodes.capacity - snapshot.nodes.reserved


def free_of_allocated(snapshot: Snapshot) -> Floats:
    """What promises leave of each node."""
    return snapshot.nodes.capacity - snapshot.nodes.allocated


def free_of_load(snapshot: Snapshot) -> Floats:
    """What is left beside the load: the use that was told, or what the tasks come to where that is more.

    A task that was sent to a node lately is no part of the node's use before it was heard of there.
    """
    return snapshot.nodes.capacity - np.fmax(snapshot.nodes.used, snapshot.nodes.mean)


def free_of_used(snapshot: Snapshot) -> Floats:
    """What is not used now."""
    return snapshot.nodes.capacity - snapshot.nodes.used


def _refuse(refused: Codes, where: Flags, why: Refused) -> None:
    np.putmask(refused, where & (refused == Refused.NOT), why)


def _fulfils(snapshot: Snapshot, constraint: Constraint) -> Flags:
    matches = snapshot.nodes.labelled(constraint.label, constraint.value)
    return matches if constraint.operator is Operator.IS else ~matches


_WHY: Mapping[int, str] = {
    Refused.DOWN: "it is down: nothing was heard of it",
    Refused.OFF: "it is switched off",
    Refused.CLOSED: "it takes no tasks: drained, paused or opted out",
    Refused.STALE: "what is known of it is too old to decide on",
    Refused.UNKNOWN_CAPACITY: "it has not told how much CPU and memory it has",
    Refused.EXCLUDED: "the request excludes it",
    Refused.CONSTRAINT: "its labels do not fulfil the request's constraints",
    Refused.AVOIDED: "it runs a service that the request must not share a node with",
    Refused.CPU: "too little CPU is free",
    Refused.MEMORY: "too little memory is free",
    Refused.DISK: "too little disk bandwidth is free",
    Refused.NETWORK: "too little network bandwidth is free",
    Refused.CLASS: "a stricter class runs there",
    Refused.OVERBOOKED: "more would be promised than its class allows",
    Refused.GENERATION: "it belongs to another generation",
    Refused.BOTTLENECK: "it has a bottleneck now",
    Refused.CAME_FROM: "the container was moved away from it lately",
    Refused.POLICY: "the policy does not consider it",
}


def why(code: int) -> str:
    """What a refusal means, for a person."""
    return _WHY[code]

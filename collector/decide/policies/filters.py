"""Which nodes are eligible for a request, and for each task of a plan."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from collector.common.arrays import Codes, Flags, Floats, Rows
from collector.common.extensions import extend
from collector.common.labels import ACT_LABEL, NEVER
from collector.common.liveness import Liveness
from collector.decide.policies.interface import STALE_SECONDS, Rejection, Request
from collector.snapshot.matching import nodes_for, nodes_matching
from collector.snapshot.tables import NOWHERE, Nodes, Snapshot

_NO_ROOM = (Rejection.CPU, Rejection.MEMORY, Rejection.DISK, Rejection.NETWORK)
_ROUNDING = 1e-9


class PlanFilter(Protocol):
    """A filter while a plan is made, which moves tasks one after the other."""

    def open_to(self, task: int, home: Rows) -> Flags | None:
        """Return the nodes that a task may go to while all tasks are at `home`; None for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFilter:
    """A rule of a feature about the nodes that a container may use."""

    rejection: Rejection
    """Why it refuses a node. Each filter has its own."""
    subject: str
    """What it enforces, in the plural."""
    nodes_for: Callable[[Snapshot, Request], Flags | None]
    """The nodes that a request may use; None for all."""
    describe: Callable[[Snapshot, Request, int], str]
    """Why a request may not use a node, given by its row."""
    note: Callable[[Snapshot, Request], str | None]
    """Why the filter cannot be applied to a request that it concerns; None if it can."""
    services: Callable[[Snapshot], Flags | None]
    """The services whose containers it restricts; None for none. Services after these are not restricted."""
    of_plan: Callable[[Snapshot], PlanFilter]
    """The filter for one plan."""


def node_filters(snapshot: Snapshot) -> tuple[NodeFilter, ...]:
    """Return the filters of all features; none for a snapshot without them."""
    return extend("filters", "FILTERS") if snapshot.is_filtered else ()


class OpenNodes:
    """Where each task may go while a plan is made: to nodes that meet its constraints and all filters."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._filters = [each.of_plan(snapshot) for each in node_filters(snapshot)]

    def open_to(self, task: int, home: Rows) -> Flags | None:
        """Return the nodes that a task may go to while all tasks are at `home`; None for all."""
        found = nodes_for(self._snapshot, task)
        for each in self._filters:
            more = each.open_to(task, home)
            if more is not None:
                found = more if found is None else found & more
        return found


def eligible(
    snapshot: Snapshot, request: Request, *, stale_seconds: float = STALE_SECONDS, wake: bool = False
) -> Codes:
    """Return the first reason against each node for a request, free capacity apart.

    With `wake`, nodes that are off are eligible too, and need not have reported.
    """
    refused = eligible_unfiltered(snapshot, request, stale_seconds=stale_seconds, wake=wake)
    return reject_filtered(snapshot, request, refused)


def reject_filtered(snapshot: Snapshot, request: Request, refused: Codes) -> Codes:
    """Reject the nodes as well that a filter of a feature refuses."""
    refused = refused.copy()
    for each in node_filters(snapshot):
        open_to = each.nodes_for(snapshot, request)
        if open_to is not None:
            _reject(refused, ~open_to, each.rejection)
    return refused


def eligible_unfiltered(
    snapshot: Snapshot, request: Request, *, stale_seconds: float = STALE_SECONDS, wake: bool = False
) -> Codes:
    """Return the same without the filters of features."""
    key = "eligible", stale_seconds, wake
    refused = snapshot.cached(key, lambda: _unavailable(snapshot.nodes, stale_seconds, wake=wake)).copy()
    for name in request.exclude:
        row = snapshot.nodes.index.get(name, NOWHERE)
        if row != NOWHERE and refused[row] == Rejection.NOT:
            refused[row] = Rejection.EXCLUDED
    for constraint in request.constraints:
        _reject(refused, ~nodes_matching(snapshot.nodes, constraint), Rejection.CONSTRAINT)
    for service in request.avoid:
        row = snapshot.services.index.get(service, NOWHERE)
        if row != NOWHERE:
            _reject(refused, snapshot.instances(row) > 0, Rejection.AVOIDED)
    return refused


def _unavailable(nodes: Nodes, stale_seconds: float, *, wake: bool) -> Codes:
    """Return the reasons against each node that hold for all requests."""
    refused = np.zeros(len(nodes.names), dtype=np.int8)
    if not wake:
        _reject(refused, ~nodes.on, Rejection.OFF)
    _reject(refused, nodes.on & (nodes.liveness == Liveness.DOWN), Rejection.DOWN)
    _reject(refused, ~nodes.accepts | nodes.labelled(ACT_LABEL, NEVER), Rejection.CLOSED)
    _reject(refused, nodes.on & (nodes.report_age_seconds > stale_seconds), Rejection.STALE)
    unknown = np.isnan(nodes.capacity[:, 0]) | np.isnan(nodes.capacity[:, 1])
    _reject(refused, unknown, Rejection.UNKNOWN_CAPACITY)
    return refused


def reject_strained(nodes: Nodes, refused: Codes) -> Codes:
    """Reject the nodes as well that have an open alert, or a resource that is busy most of the time."""
    refused = refused.copy()
    _reject(refused, nodes.has_bottleneck, Rejection.BOTTLENECK)
    _reject(refused, nodes.is_busy, Rejection.BUSY)
    return refused


def without_room(refused: Codes, free: Floats, wanted: Floats) -> Codes:
    """Reject nodes with less free than wanted as well, by the first resource that is short.

    A resource whose free amount is unknown (NaN) does not count against a node.
    """
    refused = refused.copy()
    for place, amount in enumerate(wanted.tolist()):
        if amount > 0:
            _reject(refused, free[:, place] < amount * (1 - _ROUNDING), _NO_ROOM[place])
    return refused


def free_of_allocated(snapshot: Snapshot) -> Floats:
    """Return the capacity that the reservations on each node leave."""
    nodes = snapshot.nodes
    return snapshot.cached_with_pending("free of allocated", lambda: nodes.capacity - nodes.allocated)


def free_of_load(snapshot: Snapshot) -> Floats:
    """Return the capacity that the load leaves: the reported use, or the sum of the tasks if that is more.

    A task that was just sent to a node is not part of the node's reported use yet.
    """
    nodes = snapshot.nodes
    return snapshot.cached_with_pending(
        "free of load", lambda: nodes.capacity - np.fmax(nodes.used, nodes.mean)
    )


def _reject(refused: Codes, where: Flags, reason: Rejection) -> None:
    np.putmask(refused, where & (refused == Rejection.NOT), reason)


def describe_refusal(snapshot: Snapshot, request: Request, code: int, row: int) -> str:
    """Return why a node is refused for a request, as exactly as possible."""
    for each in node_filters(snapshot):
        if each.rejection == code:
            return each.describe(snapshot, request, row)
    return Rejection(code).text

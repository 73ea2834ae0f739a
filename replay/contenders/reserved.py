"""Reservations on nodes, which the schedulers of orchestrators decide by."""

from collector.common.arrays import Codes, Floats
from collector.decide.policies.filters import eligible, free_of_allocated, without_room
from collector.decide.policies.interface import Request
from collector.snapshot.columns import as_row
from collector.snapshot.tables import Snapshot

CPU_AND_MEMORY = slice(0, 2)
"""The resources that orchestrators let a container reserve."""


def reject_unless_reservation_fits(snapshot: Snapshot, request: Request) -> Codes:
    """Reject the nodes where the reservation does not fit next to those that are there."""
    return without_room(eligible(snapshot, request), free_of_allocated(snapshot), request.reserve)


def allocated_ratio(snapshot: Snapshot, request: Request) -> Floats:
    """Return the reserved shares of each node's CPU and memory, this request included."""
    nodes, more = snapshot.nodes, as_row(request.reserve)[CPU_AND_MEMORY]
    return (nodes.allocated[:, CPU_AND_MEMORY] + more) / nodes.known_capacity[:, CPU_AND_MEMORY]

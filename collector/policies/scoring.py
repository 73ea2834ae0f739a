"""Arithmetic that several policies share: ratios of capacity, availability, and how reasons print them."""

from math import isnan

import numpy as np

from collector.common.text import counted
from collector.policies.filters import eligible, free_of_allocated, without_room
from collector.policies.interface import Request
from collector.snapshot.columns import as_row
from collector.snapshot.power_curves import Floats
from collector.snapshot.tables import NOWHERE, Codes, Snapshot
from wire.resources import RESOURCES

CPU_AND_MEMORY = slice(0, 2)
"""The resources that orchestrators let a container reserve."""


def reject_unless_reservation_fits(snapshot: Snapshot, request: Request) -> Codes:
    """Reject the nodes where the reservation does not fit next to those that are there."""
    return without_room(eligible(snapshot, request), free_of_allocated(snapshot), request.reserve)


def allocated_ratio(snapshot: Snapshot, request: Request) -> Floats:
    """Return the reserved shares of each node's CPU and memory, this request included."""
    nodes, more = snapshot.nodes, as_row(request.reserve)[CPU_AND_MEMORY]
    return (nodes.allocated[:, CPU_AND_MEMORY] + more) / nodes.known_capacity[:, CPU_AND_MEMORY]


def share(part: Floats, whole: Floats) -> Floats:
    """Return the ratio of part to whole; NaN where the whole is 0 or unknown."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(whole > 0, part / whole, np.nan)


def availability(free_ratio: Floats) -> Floats:
    """Return the length of the vector of free shares: 0 for a full node, 2 for an empty one."""
    free = np.maximum(np.nan_to_num(free_ratio, nan=0.0), 0.0)
    length: Floats = np.sqrt(np.einsum("ij,ij->i", free, free))
    return length


def instances_near(snapshot: Snapshot, service: str | None) -> Floats:
    """Count the tasks of a service in each node's failure domain, or on the node if it has none."""
    row = NOWHERE if service is None else snapshot.services.index.get(service, NOWHERE)
    if row == NOWHERE:
        return np.zeros(len(snapshot.nodes.names))
    near = snapshot.instances(row).astype(np.float64)
    domain = snapshot.nodes.domain
    has_domain = domain != NOWHERE
    if has_domain.any():
        by_domain = np.bincount(domain[has_domain], weights=near[has_domain])
        near[has_domain] = by_domain[domain[has_domain]]
    return near


def same_domain(tasks: float) -> str:
    """Describe the tasks of a service that fail together with a node."""
    return f"its failure domain runs {counted(int(tasks), 'task')} of this service"


def percent(ratio: float) -> str:
    """Format a ratio."""
    return "unknown" if isnan(ratio) else f"{ratio:.1%}"


def each_percent(ratios: Floats) -> str:
    """Format the ratios of several resources, without the unknown ones."""
    pairs = zip(RESOURCES, ratios.tolist(), strict=False)
    return ", ".join(f"{resource} {ratio:.1%}" for resource, ratio in pairs if not isnan(ratio))

"""Arithmetic that several policies share: ratios of capacity, availability, and how reasons print them."""

from math import isnan

import numpy as np

from collector.common.arrays import Floats
from collector.common.text import counted
from collector.snapshot.tables import NOWHERE, Snapshot
from wire.resources import RESOURCES


def share_or_zero(amounts: Floats, capacity: Floats) -> Floats:
    """The ratio of amounts to capacity; 0 where the capacity is 0 or unknown, and so does not limit."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(capacity > 0, amounts / capacity, 0.0)


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

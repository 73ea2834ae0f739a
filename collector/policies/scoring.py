"""What several policies reckon alike: shares of what there is, and how they are told to a person."""

from math import isnan

import numpy as np

from collector.policies.filters import eligible, free_of_allocated, without_room
from collector.policies.interface import Request
from collector.snapshot.columns import four
from collector.snapshot.power_curves import Floats
from collector.snapshot.tables import NOWHERE, Codes, Snapshot
from wire.resources import RESOURCES, Quantities

CPU_AND_MEMORY = slice(0, 2)
"""What orchestrators let a container reserve."""


def where_promises_fit(snapshot: Snapshot, request: Request) -> Codes:
    """The filter of all who count reservations: what is promised already leaves room for what is asked."""
    return without_room(eligible(snapshot, request), free_of_allocated(snapshot), request.reserve)


def promised_ratio(snapshot: Snapshot, request: Request) -> Floats:
    """Shares of each node's CPU and memory that are promised once the request is there too."""
    return share(
        snapshot.nodes.allocated[:, CPU_AND_MEMORY] + amounts(request.reserve)[CPU_AND_MEMORY],
        snapshot.nodes.capacity[:, CPU_AND_MEMORY],
    )


def amounts(quantities: Quantities) -> Floats:
    """Quantities as a row; nothing where it is not told."""
    return np.array(four(quantities, missing=0.0))


def share(part: Floats, whole: Floats) -> Floats:
    """A part of what there is; NaN where that is nothing or not known."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(whole > 0, part / whole, np.nan)


def availability(free_ratio: Floats) -> Floats:
    """The length of the vector of what is free: 0 for a full node, 2 for one with all of four resources."""
    free = np.maximum(np.nan_to_num(free_ratio, nan=0.0), 0.0)
    length: Floats = np.sqrt(np.einsum("ij,ij->i", free, free))
    return length


def instances_near(snapshot: Snapshot, service: str | None) -> Floats:
    """How many tasks of a service fail together with each node: those of its domain, or its own."""
    row = NOWHERE if service is None else snapshot.services.index.get(service, NOWHERE)
    if row == NOWHERE:
        return np.zeros(len(snapshot.nodes.names))
    own = snapshot.instances(row).astype(np.float64)
    domain = snapshot.nodes.domain
    told = domain != NOWHERE
    if not told.any():
        return own
    by_domain = np.bincount(domain[told], weights=own[told])
    near = own.copy()
    near[told] = by_domain[domain[told]]
    return near


def percent(ratio: float) -> str:
    """A share for a person."""
    return "unknown" if isnan(ratio) else f"{ratio:.1%}"


def each_percent(ratios: Floats) -> str:
    """Shares of several resources for a person; those that are not known are left out."""
    pairs = zip(RESOURCES, ratios.tolist(), strict=False)
    return ", ".join(f"{resource} {ratio:.1%}" for resource, ratio in pairs if not isnan(ratio))

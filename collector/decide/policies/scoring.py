"""Arithmetic that several policies share: sorting, ratios of capacity, and how reasons print them."""

from math import isnan

import numpy as np

from collector.common.arrays import Floats, Rows
from collector.common.text import counted
from collector.snapshot.tables import NOWHERE, Snapshot
from wire.resources import RESOURCES

_FEW = 1500
"""Below this size, comparing is faster."""
_SIGN = np.int64(-(2**63))
_LAST = np.int64(2**63 - 1)
_DIGIT_BITS = 16


def stable_argsort(values: Floats) -> Rows:
    """Return the indices of values in ascending order, stable, NaN last.

    Does what numpy's stable argsort does in a third of its time: numpy compares floats, but sorts 16-bit
    integers by radix. So each float is sorted as four digits of 16 bits, the least significant first.
    """
    if values.size < _FEW:
        return np.argsort(values, kind="stable")
    bits = (values + 0.0).view(np.int64)  # Adding 0.0 turns -0.0 into 0.0.
    bits[np.isnan(values)] = _LAST
    # Unsigned bits sort like their floats if the sign bit of positive floats is set, and all bits of negative
    # ones are flipped.
    keys = bits ^ ((bits >> 63) | _SIGN)
    order = np.argsort(keys.astype(np.uint16), kind="stable")
    for shift in range(_DIGIT_BITS, 64, _DIGIT_BITS):
        digits = (keys >> shift).astype(np.uint16)
        order = order[np.argsort(digits[order], kind="stable")]
    return order


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

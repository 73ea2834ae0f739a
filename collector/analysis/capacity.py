"""The capacity of the whole cluster, per resource, and whether it is known or only the least that it can be.

Few disks and links state their throughput. Where they do not, a node's capacity is the highest use seen. It
depends on what happened to run, and is only the least that the capacity can be. Disks have a better measure,
the time in which they were busy: what they do per busy second is what they can do. Links have none: the
kernel counts no time in which processes wait for the network.
"""

from math import exp
from typing import NamedTuple

import numpy as np

from collector.analysis.contributions import far_out
from collector.analysis.dominance import LEAD
from collector.common.arrays import Flags, Floats
from collector.common.liveness import Liveness
from collector.snapshot.tables import Nodes
from wire.resources import RESOURCES, Resource

_DISK = RESOURCES.index(Resource.DISK)
_MEMORY_SECONDS = 86_400.0
"""Mean age of what is remembered of disks: a day has every kind of load."""


class ClusterCapacity(NamedTuple):
    """The capacity of all nodes, per resource."""

    amounts: tuple[float, ...]
    """NaN if no node reports it."""
    known: tuple[bool, ...]
    """Where not, the amount is the least that the capacity can be."""

    def equals(self, other: "ClusterCapacity") -> bool:
        return self.known == other.known and np.array_equal(self.amounts, other.amounts, equal_nan=True)


UNKNOWN_CAPACITY = ClusterCapacity((float("nan"),) * len(RESOURCES), (False,) * len(RESOURCES))


class DiskTime(NamedTuple):
    """What disks of undeclared throughput did while they were busy, summed over all nodes and passes."""

    used_bytes: float = 0.0
    busy_seconds: float = 0.0
    observed_seconds: float = 0.0
    """Time of nodes whose disks were in use."""

    def add(self, nodes: Nodes, seconds: float) -> "DiskTime":
        """The sums after a pass, whose nodes stand for this time."""
        work = np.stack((nodes.used[:, _DISK], nodes.busy[:, _DISK]), axis=1)
        counted = nodes.learned[:, _DISK] & (nodes.liveness == Liveness.UP) & (work > 0).all(axis=1)
        now = (*np.nan_to_num(_bounded_totals(work[counted])).tolist(), float(np.count_nonzero(counted)))
        kept = exp(-seconds / _MEMORY_SECONDS)
        return DiskTime(*[kept * sum_ + seconds * more for sum_, more in zip(self, now, strict=True)])


NO_DISK_TIME = DiskTime()


def cluster_capacity(
    capacity: Floats, learned: Flags, disks: DiskTime, enough_seconds: float, before: ClusterCapacity
) -> ClusterCapacity:
    """The capacity of all nodes; that of disks from their busy time, once they were in use for long enough.

    If most nodes declare a capacity, the others count as the median of those.
    """
    reported = ~np.isnan(capacity)
    declared = reported & ~learned
    known = 2 * declared.sum(axis=0) > reported.sum(axis=0)
    amounts = capacity.copy()
    for place in np.flatnonzero(known & learned.any(axis=0)).tolist():
        amounts[reported[:, place] & learned[:, place], place] = np.median(
            capacity[declared[:, place], place]
        )
    totals = _bounded_totals(amounts)
    if not known[_DISK] and disks.busy_seconds > 0 and disks.observed_seconds >= enough_seconds:
        whole = float(reported[:, _DISK].sum()) * disks.used_bytes / disks.busy_seconds
        last = before.amounts[_DISK]
        # The measure always changes a little: less than what makes a resource dominant is no change.
        is_same = before.known[_DISK] and last / LEAD <= whole <= last * LEAD
        known[_DISK], totals[_DISK] = True, last if is_same else whole
    return ClusterCapacity(tuple(totals.tolist()), tuple(known.tolist()))


def _bounded_totals(amounts: Floats) -> Floats:
    """The sum over all nodes, per column; NaN if no node reports it.

    A node can report any amount. So that one wrong report does not distort all shares, a node that claims far
    more than the others counts for what they make plausible.
    """
    known = (~np.isnan(amounts)).sum(axis=0)
    return np.where(known > 0, np.nansum(np.minimum(amounts, far_out(amounts)), axis=0), np.nan)

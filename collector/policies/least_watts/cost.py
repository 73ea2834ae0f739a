"""The watts that a task costs on each node."""

import numpy as np

from collector.policies.interface import LAXEST_CLASS, STRICTEST_CLASS
from collector.policies.outlook import CPU, needed
from collector.policies.overbooking import LIMITS
from collector.snapshot.power_curves import Floats, Rows, picked
from collector.snapshot.tables import Codes, Flags, Snapshot

UNKNOWN_WATTS = 1e6
"""Cost of a node without a power curve: it ranks after all that have one."""
_LIMIT_OF_CLASS = np.array([LIMITS[max(each, STRICTEST_CLASS)] for each in range(LAXEST_CLASS + 1)])


def share(amounts: Floats, capacity: Floats) -> Floats:
    """The part of each capacity; nothing of one that is not known, and so does not limit."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(capacity > 0, amounts / capacity, 0.0)


def _most(ratios: Floats) -> Floats:
    """The largest of the four: column by column, which is many times as fast as row by row."""
    cpu, memory, disk, network = ratios.T
    most: Floats = np.maximum(np.maximum(cpu, memory), np.maximum(disk, network))
    return most


def promise_room(capacity: Floats, allocated: Floats, strictest: Codes, task_class: int) -> Floats:
    """What may still be promised of each node, by the strictest class among its tasks and the one to come."""
    there = np.where(strictest > 0, np.minimum(strictest, task_class), task_class)
    room: Floats = capacity * _LIMIT_OF_CLASS[there][:, None] - allocated
    return room


class Costs:
    """The watts that a task costs on nodes, from what they carry already."""

    def __init__(self, snapshot: Snapshot, spread: Floats) -> None:
        nodes = snapshot.nodes
        self._power, self._cores, self._spread = nodes.power, nodes.capacity[:, CPU], spread
        self._per_unit = snapshot.cached(
            "per unit", lambda: share(np.ones_like(nodes.capacity), nodes.capacity)
        )
        self._idle_watts = snapshot.cached(
            "idle watts", lambda: np.nan_to_num(nodes.power.idle_watts, nan=0.0)
        )

    def of(  # noqa: PLR0913, PLR0917 - what nodes carry and what a task brings, each a sum and its variance
        self,
        rows: Rows,
        expected: Floats,
        variance: Floats,
        more: Floats,
        more_variance: Floats,
        asleep: Flags,
    ) -> tuple[Floats, Floats, Floats]:
        """Per node of `rows`: what it costs, the watts that it adds, and what each resource needs then.

        The cost is what the task makes the node draw and its part of the idle watts: how much more of the
        scarcest resource is taken, of all that is taken then. So a node that is nearly empty, and might soon
        be switched off, costs more than one that is nearly full. A node that sleeps costs its idle watts, for
        as much room as the largest that sleeps would give.
        """
        cores, per_unit = self._cores[rows], picked(self._per_unit, rows)
        before = needed(expected, variance, self._spread)
        with_it = expected + more
        after = needed(with_it, variance + more_variance, self._spread)
        filled = _most(after * per_unit)
        taken = filled - _most(before * per_unit)
        added = self._power.watts(with_it * per_unit, rows)
        added -= self._power.watts(expected * per_unit, rows)
        idle = self._idle_watts[rows]
        part = share(np.maximum(taken, 0.0), filled)
        if asleep.any():
            part[asleep] = cores[asleep].max() / cores[asleep]
        cost = np.where(np.isnan(added), UNKNOWN_WATTS, added) + idle * part
        return cost, added + np.where(asleep, idle, 0.0), after

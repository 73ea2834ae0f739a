"""What can be chosen of `least-watts`, and what it counts: the watts that a task costs on each node."""

from typing import Annotated

import numpy as np
from msgspec import Meta

from collector.policies.interface import LAXEST_CLASS, STRICTEST_CLASS, Stability
from collector.policies.outlook import CPU, deviations, needed
from collector.policies.overbooking import LIMITS
from collector.snapshot.power_curves import Floats, Rows, picked
from collector.snapshot.tables import Codes, Flags, Snapshot

UNKNOWN_WATTS = 1e6
"""What a node that has told no power curve is reckoned to add: it comes after all that have."""
_Share = Annotated[float, Meta(ge=0, le=1)]


_LIMIT_OF_CLASS = np.array([LIMITS[max(each, STRICTEST_CLASS)] for each in range(LAXEST_CLASS + 1)])


class LeastWattsSettings(Stability, frozen=True):
    """What can be chosen of `least-watts`."""

    fill_ratio: Annotated[
        float,
        Meta(gt=0, le=1, description="Neither a placement nor a move takes more of a resource than this."),
    ] = 0.9
    relieve_ratio: Annotated[
        float,
        Meta(gt=0, le=2, description="A node with less taken of every resource is not relieved of anything."),
    ] = 0.95
    confidence: Annotated[
        float,
        Meta(
            ge=0.5, lt=1, description="How sure it must be that a node's CPU suffices for what is put there."
        ),
    ] = 0.99
    correlation: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="How much tasks stray together, as day and night make them: 0 is each on its own, "
            "1 all at once.",
        ),
    ] = 0.1
    unknown_ratio: Annotated[
        tuple[_Share, _Share, _Share, _Share],
        Meta(
            description="How much of the CPU, memory, disk and network that it asks for a task is reckoned "
            "to use, as long as nothing is known of it or of its like."
        ),
    ] = (0.2, 1.0, 0.2, 0.2)
    overbooks: Annotated[
        bool,
        Meta(
            description="Whether only what tasks use counts, and not what they were promised: saves most, "
            "where nobody relies on promises. Else no more is promised than the tasks' classes allow."
        ),
    ] = False
    spare_nodes: Annotated[
        int,
        Meta(
            ge=0,
            le=10_000,
            description="Nodes that stay on although nothing runs there, so that what comes need not wait.",
        ),
    ] = 0
    disturbance_joules: Annotated[
        float,
        Meta(ge=0, le=1e9, description="What a move must save beyond its own energy, for the disturbance."),
    ] = 25_000.0
    moves_per_day: Annotated[
        float,
        Meta(
            ge=0,
            le=1e6,
            description="How often a task may be moved on average. Beyond it no node is emptied, and the "
            "more was moved of late, the worse an overload must be to be relieved.",
        ),
    ] = 0.36
    overload_ratio: Annotated[
        float,
        Meta(
            gt=0,
            le=1,
            description="How much of the time nodes may be found overloaded. Beyond it no node is emptied "
            "and overload is relieved sooner; far beyond it, nodes are woken.",
        ),
    ] = 0.045

    @property
    def deviations(self) -> Floats:
        """How many deviations are kept free of each resource."""
        return deviations(self.confidence)


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

        The cost is what the task makes the node draw and its part of the idle watts, by how much more of the
        scarcest resource is taken. A node that sleeps costs its idle watts, for as much room as the largest
        that sleeps would give.
        """
        cores, per_unit = self._cores[rows], picked(self._per_unit, rows)
        before = needed(expected, variance, self._spread)
        with_it = expected + more
        after = needed(with_it, variance + more_variance, self._spread)
        taken = _most(after * per_unit) - _most(before * per_unit)
        added = self._power.watts(with_it * per_unit, rows)
        added -= self._power.watts(expected * per_unit, rows)
        idle = self._idle_watts[rows]
        part = np.clip(taken, 0.0, 1.0)
        if asleep.any():
            part[asleep] = cores[asleep].max() / cores[asleep]
        cost = np.where(np.isnan(added), UNKNOWN_WATTS, added) + idle * part
        return cost, added + np.where(asleep, idle, 0.0), after

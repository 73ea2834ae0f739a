"""The input and output of a pass over the queue, as arrays: the same for a snapshot and for replay."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from collector.common.arrays import Flags, Floats, Rows
from collector.snapshot.tables import NOWHERE

_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False, kw_only=True)
class Hosts:
    """Hosts, one row each. The two columns of an amount are CPU and memory."""

    capacity: Floats
    free: Floats
    """Capacity without what running instances reserve."""
    masks: Flags
    """The hosts that a set of constraints allows: one row per set. A host that no row has takes no instance
    and loses none."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Instances:
    """Instances, one row each, in any order: those that run, and those that wait."""

    host: Rows
    """The row of its host; `NOWHERE` while it waits."""
    demand: Floats
    """What it reserves: CPU and memory."""
    mask: Rows
    """The row in `Hosts.masks` of its constraints; used only while it waits."""
    group: Rows
    """Of instances with the same number, each host runs at most one; `NOWHERE` without such a rule."""
    last_host: Rows
    """The host that it ran on before it waited, where it starts faster; `NOWHERE` if there is none."""

    @property
    def waiting(self) -> Rows:
        """The rows of those that wait."""
        return np.flatnonzero(self.host == NOWHERE)


@dataclass(frozen=True, eq=False, kw_only=True)
class Terms:
    """The decisions of a policy about the instances: which start first, and which stop for which.

    `Terms` depend on the time, and are computed before each pass. They do not change during a pass.
    """

    queue: Rows
    """The rows of waiting instances, the most urgent first."""
    level: NDArray[np.int8]
    """Its importance: 0 is the most important."""
    slack: Floats
    """How long it can wait. Of waiting instances with the same level, a later one has no less."""
    limits: Floats
    """One row per level: an instance is stopped for a waiting one of that level whose slack is lower than
    this. Minus infinity: never."""
    order: Floats
    """On a host, the instances with the highest value are stopped first."""
    costs: Floats
    """The cost of stopping an instance. Costs of the victims on a host add up; hosts compare by the first
    row, then by the second, and so on. Lower is better."""
    is_safe: Flags
    """The instances that the last row of `costs` is about: a host without one among its victims comes before
    those with one."""
    keeps_order: bool = False
    """Whether the most urgent of the instances with the same needs start, also where room was found only
    after their turn, or was lost again."""
    home_after: int | None = None
    """The number of rows of `costs` after which the host that an instance ran on before comes first of those
    that are equal so far. None: it never does."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """A waiting instance that starts, and the instances that stop for it first."""

    instance: int
    host: int
    victims: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a pass."""

    assignments: tuple[Assignment, ...]
    left: tuple[int, ...]
    """The instances that still wait, in the order of the queue."""
    operations: int
    """How often a host was checked and scored for a waiting instance."""


def padded(free: Floats, capacity: Floats) -> Floats:
    """Return the free amounts with a margin for rounding errors."""
    # An unknown capacity counts as 0.
    return free + _ROUNDING * np.fmax(capacity, 0.0)

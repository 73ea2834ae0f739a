"""The running instances of all hosts in one array, in the order in which they are stopped.

Each host has a segment of cells, with a few spare ones for instances that start during the pass.
"""

from dataclasses import dataclass

import numpy as np

from collector.common.arrays import Floats, Rows
from collector.features.promises.qos.queue import Instances, Terms
from collector.snapshot.tables import NOWHERE

_SPARE_CELLS = 4


@dataclass(frozen=True, eq=False, slots=True)
class Evaluation:
    """Whether victims make room on some hosts: one column per host."""

    reach: Floats
    """The slack below which a waiting instance may stop these victims; minus infinity if they are too few."""
    costs: Floats
    freed: Floats
    """What the victims give back."""


class VictimTable:
    """The instances that may be stopped on each host."""

    def __init__(self, instances: Instances, terms: Terms, hosts: int) -> None:
        self._instances, self._terms, self._hosts = instances, terms, hosts
        self._preemptible = terms.limits.max(axis=0, initial=-np.inf) > -np.inf
        self._spare = _SPARE_CELLS
        self._home = instances.host.copy()
        self._lay_out()

    def _lay_out(self) -> None:
        terms = self._terms
        rows = np.flatnonzero(self._preemptible & (self._home != NOWHERE))
        home = self._home[rows]
        rows = rows[np.lexsort((-terms.order[rows], home))]
        counts = np.bincount(home, minlength=self._hosts)
        self._lengths = counts + self._spare
        self._starts = np.concatenate(([0], np.cumsum(self._lengths)[:-1]))
        self._used = counts
        cells = np.arange(rows.size) + self._spare * self._home[rows]
        total = int(self._lengths.sum())
        self._task = np.full(total, NOWHERE, dtype=np.intp)
        self._task[cells] = rows
        self._demand = np.zeros((2, total))
        self._demand[:, cells] = self._instances.demand[rows].T
        self._limits = np.full((terms.limits.shape[0], total), -np.inf)
        self._limits[:, cells] = terms.limits[:, rows]
        self._costs = np.zeros((terms.costs.shape[0], total))
        self._costs[:, cells] = terms.costs[:, rows]
        self._is_safe = np.zeros(total, dtype=np.bool_)
        self._is_safe[cells] = terms.is_safe[rows]

    def add(self, instance: int, host: int) -> None:
        """An instance starts on a host: one that is more important may still take its place."""
        self._home[instance] = host
        if not self._preemptible[instance]:
            return
        used = int(self._used[host])
        if used == self._lengths[host]:
            self._spare *= 2
            self._lay_out()
            return
        start = int(self._starts[host])
        order = self._terms.order
        at = start + int(np.searchsorted(-order[self._task[start : start + used]], -order[instance]))
        for cells in (self._task, self._is_safe, *self._demand, *self._limits, *self._costs):
            cells[at + 1 : start + used + 1] = cells[at : start + used].copy()
        self._task[at] = instance
        self._demand[:, at] = self._instances.demand[instance]
        self._limits[:, at] = self._terms.limits[:, instance]
        self._costs[:, at] = self._terms.costs[:, instance]
        self._is_safe[at] = self._terms.is_safe[instance]
        self._used[host] += 1

    def remove(self, instance: int) -> None:
        """An instance is stopped. Its cell stays, without effect, and keeps its place in the order."""
        host = int(self._home[instance])
        self._home[instance] = NOWHERE
        if not self._preemptible[instance]:
            return
        start = int(self._starts[host])
        at = start + int(np.flatnonzero(self._task[start : start + int(self._used[host])] == instance)[0])
        self._limits[:, at] = -np.inf

    def evaluate(self, rows: Rows, level: int, slack: float, need: Floats) -> Evaluation:
        """Find out where victims make room for an instance that needs this much more on each host."""
        lengths = self._lengths[rows]
        ends = np.cumsum(lengths)
        starts = ends - lengths
        cells = np.arange(ends[-1]) + np.repeat(self._starts[rows] - starts, lengths)
        limits = self._limits[level, cells]
        may_stop = limits > slack
        enough = np.ones(cells.size, dtype=np.bool_)
        sums = []
        for amounts, wanted in zip(self._demand, need.T, strict=True):
            sums.append(np.cumsum(np.where(may_stop, amounts[cells], 0.0)))
            before = np.where(starts > 0, sums[-1][starts - 1], 0.0)
            enough &= sums[-1] >= np.repeat(wanted + before, lengths)
        # The sums rise within a host: the first cell where both are enough ends the victims.
        last = starts + np.add.reduceat(~enough, starts, dtype=np.intp)
        reach = np.full(rows.size, -np.inf)
        costs, freed = np.zeros((len(self._costs), rows.size)), np.zeros((rows.size, 2))
        found = np.flatnonzero(last < ends)
        if not found.size:
            return Evaluation(reach, costs, freed)
        ends_at = np.full(rows.size, NOWHERE)
        ends_at[found] = last[found]
        chosen = np.flatnonzero(may_stop & (np.arange(cells.size) <= np.repeat(ends_at, lengths)))
        owner = np.repeat(np.arange(rows.size), lengths)[chosen]
        reach[found] = np.inf
        np.minimum.at(reach, owner, limits[chosen])
        for place, each in enumerate(self._costs):
            costs[place] = np.bincount(owner, weights=each[cells[chosen]], minlength=rows.size)
        is_safe = np.bincount(owner, weights=self._is_safe[cells[chosen]], minlength=rows.size) > 0
        costs[-1] = np.where(is_safe, costs[-1], -np.inf)
        for place, each in enumerate(sums):
            freed[found, place] = each[last[found]] - np.where(starts > 0, each[starts - 1], 0.0)[found]
        return Evaluation(reach, costs, freed)

    def choose(self, host: int, level: int, slack: float, need: Floats) -> list[int]:
        """Return the victims on one host. Those that turn out not to be needed stay, the last found first."""
        start = int(self._starts[host])
        cells = np.arange(start, start + int(self._used[host]))
        cells = cells[self._limits[level, cells] > slack]
        sums = np.cumsum(self._demand[:, cells], axis=1)
        count = int(np.argmax((sums >= need[:, np.newaxis]).all(axis=0))) + 1
        left = sums[:, count - 1] - need
        victims = []
        for cell in cells[:count][::-1]:
            amounts = self._demand[:, cell]
            if (amounts <= left).all():
                left -= amounts
            else:
                victims.append(int(self._task[cell]))
        return victims[::-1]

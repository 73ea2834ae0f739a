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

    def __init__(self, instances: Instances, terms: Terms, home: Rows, hosts: int) -> None:
        """`home` is the host of each instance, also when it changes: the caller sets it before each call."""
        self._demand, self._terms, self._home, self._hosts = instances.demand, terms, home, hosts
        self._preemptible = terms.limits.max(axis=0, initial=-np.inf) > -np.inf
        self._spare = _SPARE_CELLS
        self._lay_out()

    def _lay_out(self) -> None:
        rows = np.flatnonzero(self._preemptible & (self._home != NOWHERE))
        rows = rows[np.lexsort((-self._terms.order[rows], self._home[rows]))]
        home = self._home[rows]
        self._used = np.bincount(home, minlength=self._hosts)
        self._lengths = self._used + self._spare
        self._starts = np.concatenate(([0], np.cumsum(self._lengths)[:-1]))
        self._task = np.full(int(self._lengths.sum()), NOWHERE, dtype=np.intp)
        self._task[np.arange(rows.size) + self._spare * home] = rows

    def add(self, instance: int, host: int) -> None:
        """An instance starts on a host: one that is more important may still take its place."""
        if not self._preemptible[instance]:
            return
        if self._used[host] == self._lengths[host]:
            self._spare *= 2
            self._lay_out()
            return
        start, order = int(self._starts[host]), self._terms.order
        end = start + int(self._used[host])
        at = start + int(np.searchsorted(-order[self._task[start:end]], -order[instance]))
        self._task[at + 1 : end + 1] = self._task[at:end].copy()
        self._task[at] = instance
        self._used[host] += 1

    def remove(self, instance: int, host: int) -> None:
        """An instance on a host is stopped."""
        if not self._preemptible[instance]:
            return
        start = int(self._starts[host])
        end = start + int(self._used[host])
        left = self._task[start:end]
        self._task[start : end - 1] = left[left != instance]
        self._task[end - 1] = NOWHERE
        self._used[host] -= 1

    def evaluate(self, rows: Rows, level: int, slack: float, need: Floats) -> Evaluation:
        """Find out where victims make room for an instance that needs this much more on each host."""
        lengths = self._lengths[rows]
        ends = np.cumsum(lengths)
        starts = ends - lengths
        cells = np.arange(ends[-1]) + np.repeat(self._starts[rows] - starts, lengths)
        tasks = self._task[cells]
        limits = np.where(tasks == NOWHERE, -np.inf, self._terms.limits[level, tasks])
        may_stop = limits > slack
        enough = np.ones(cells.size, dtype=np.bool_)
        sums = []
        for amounts, wanted in zip(self._demand.T, need.T, strict=True):
            sums.append(np.cumsum(np.where(may_stop, amounts[tasks], 0.0)))
            before = np.where(starts > 0, sums[-1][starts - 1], 0.0)
            enough &= sums[-1] >= np.repeat(wanted + before, lengths)
        # The sums rise within a host: the first cell where both are enough ends the victims.
        last = starts + np.add.reduceat(~enough, starts, dtype=np.intp)
        reach = np.full(rows.size, -np.inf)
        costs, freed = np.zeros((len(self._terms.costs), rows.size)), np.zeros((rows.size, 2))
        found = np.flatnonzero(last < ends)
        if not found.size:
            return Evaluation(reach, costs, freed)
        ends_at = np.full(rows.size, NOWHERE)
        ends_at[found] = last[found]
        chosen = np.flatnonzero(may_stop & (np.arange(cells.size) <= np.repeat(ends_at, lengths)))
        owner = np.repeat(np.arange(rows.size), lengths)[chosen]
        reach[found] = np.inf
        np.minimum.at(reach, owner, limits[chosen])
        for place, each in enumerate(self._terms.costs):
            costs[place] = np.bincount(owner, weights=each[tasks[chosen]], minlength=rows.size)
        is_safe = np.bincount(owner, weights=self._terms.is_safe[tasks[chosen]], minlength=rows.size) > 0
        costs[-1] = np.where(is_safe, costs[-1], -np.inf)
        for place, each in enumerate(sums):
            freed[found, place] = each[last[found]] - np.where(starts > 0, each[starts - 1], 0.0)[found]
        return Evaluation(reach, costs, freed)

    def choose(self, host: int, level: int, slack: float, need: Floats) -> list[int]:
        """Return the victims on one host. Those that turn out not to be needed stay, the last found first."""
        start = int(self._starts[host])
        tasks = self._task[start : start + int(self._used[host])]
        tasks = tasks[self._terms.limits[level, tasks] > slack]
        sums = np.cumsum(self._demand[tasks], axis=0)
        count = int(np.argmax((sums >= need).all(axis=1))) + 1
        left = sums[count - 1] - need
        victims = []
        for task in tasks[:count][::-1].tolist():
            if (self._demand[task] <= left).all():
                left -= self._demand[task]
            else:
                victims.append(task)
        return victims[::-1]

"""The running instances of each host, in the order in which they are stopped."""

from dataclasses import dataclass

import numpy as np

from collector.common.arrays import Floats, Rows
from collector.features.promises.qos.queue import Instances, Terms
from collector.snapshot.tables import NOWHERE


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
        """`home` is the host of each instance; `NOWHERE` while it waits."""
        self._demand, self._terms = instances.demand, terms
        self._preemptible = terms.limits.max(axis=0, initial=-np.inf) > -np.inf
        rows = np.flatnonzero(self._preemptible & (home != NOWHERE))
        rows = rows[np.lexsort((-terms.order[rows], home[rows]))]
        self.counts = np.bincount(home[rows], minlength=hosts)
        """The number of instances on each host."""
        ends = np.cumsum(self.counts).tolist()
        self._on = [rows[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def add(self, instance: int, host: int) -> None:
        """An instance starts on a host: one that is more important may still take its place."""
        if self._preemptible[instance]:
            order, tasks = self._terms.order, self._on[host]
            at = np.searchsorted(-order[tasks], -order[instance])
            self._on[host] = np.insert(tasks, at, instance)
            self.counts[host] += 1

    def remove(self, instance: int, host: int) -> None:
        """An instance on a host is stopped."""
        self._on[host] = self._on[host][self._on[host] != instance]
        self.counts[host] = self._on[host].size

    def evaluate(self, rows: Rows, level: int, slack: float, need: Floats) -> Evaluation:
        """Find out where victims make room for an instance that needs this much more on each host.

        Each host has instances that may be stopped.
        """
        lengths = self.counts[rows]
        tasks, ends = np.concatenate([self._on[row] for row in rows.tolist()]), np.cumsum(lengths)
        starts = ends - lengths
        limits = self._terms.limits[level, tasks]
        may_stop = limits > slack
        enough = np.ones(tasks.size, dtype=np.bool_)
        sums = []
        for amounts, wanted in zip(self._demand.T, need.T, strict=True):
            sums.append(np.cumsum(np.where(may_stop, amounts[tasks], 0.0)))
            before = np.where(starts > 0, sums[-1][starts - 1], 0.0)
            enough &= sums[-1] >= np.repeat(wanted + before, lengths)
        # The sums rise within a host: the first instance where both are enough ends the victims.
        last = starts + np.add.reduceat(~enough, starts, dtype=np.intp)
        reach = np.full(rows.size, -np.inf)
        costs, freed = np.zeros((len(self._terms.costs), rows.size)), np.zeros((rows.size, 2))
        found = np.flatnonzero(last < ends)
        if not found.size:
            return Evaluation(reach, costs, freed)
        ends_at = np.full(rows.size, NOWHERE)
        ends_at[found] = last[found]
        chosen = np.flatnonzero(may_stop & (np.arange(tasks.size) <= np.repeat(ends_at, lengths)))
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
        tasks = self._on[host]
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

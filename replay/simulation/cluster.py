"""The simulated cluster: its clock, the host of each container, its demand, and the load of every host."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from collector.common.arrays import Flags, Floats, Rows
from collector.snapshot.columns import sum_by_node
from collector.snapshot.tables import NOWHERE
from replay.setup.hosts import Hosts
from replay.setup.workload import Workload

BEGIN_SECONDS = 1_699_920_000.0
"""Unix time at which traces begin: a midnight, at which buckets of all lengths begin."""
SOON = 1e-6
"""Events that are less than this many seconds apart happen at the same time."""


def unix(seconds: float) -> float:
    """The Unix time of a time of the trace."""
    return BEGIN_SECONDS + seconds


def seconds_of(unix_seconds: float) -> float:
    """The time of the trace of a Unix time."""
    return unix_seconds - BEGIN_SECONDS


class ArrivalQueue:
    """The containers that have not arrived yet. Times are seconds of the trace."""

    def __init__(self, arrival_seconds: Floats) -> None:
        self._order: Rows = np.argsort(arrival_seconds, kind="stable")
        self._seconds: Floats = arrival_seconds[self._order]
        self._arrived = 0

    @property
    def next_at(self) -> float:
        """The time of the next arrival; infinite if there is none."""
        return float(self._seconds[self._arrived]) if self._arrived < self._seconds.size else np.inf

    def pop(self, now: float) -> Rows:
        """Remove and return the containers that arrive up to now."""
        first = self._arrived
        self._arrived = int(np.searchsorted(self._seconds, now + SOON, side="right"))
        return self._order[first : self._arrived]


_CPU = 0


class ContainerPhase(IntEnum):
    """The state of a container."""

    PENDING = 0
    """It has not arrived yet."""
    WAITING = 1
    """It has arrived and has no host."""
    STARTING = 2
    """Its host is still booting."""
    RUNNING = 3
    ENDED = 4


@dataclass(frozen=True, eq=False)
class Load:
    """The demand at one time."""

    seconds: float
    running: Rows
    demand: Floats
    """The demand of each running container, up to its reservation."""
    by_node: Floats


class Cluster:
    """The current state of hosts and containers. Only `driver` and `run` change it."""

    def __init__(self, hosts: Hosts, workload: Workload, migration_use_ratio: float) -> None:
        self.hosts, self.workload = hosts, workload
        self._migration_use_ratio = migration_use_ratio
        count = workload.size
        self.phase: NDArray[np.int8] = np.full(count, ContainerPhase.PENDING, dtype=np.int8)
        self.node: Rows = np.full(count, NOWHERE, dtype=np.intp)
        self.target: Rows = np.full(count, NOWHERE, dtype=np.intp)
        """The target of the current move; `NOWHERE` without one."""
        self.came_from: Rows = np.full(count, NOWHERE, dtype=np.intp)
        self.allocated: Floats = workload.requested.copy()
        self.cut: Flags = np.zeros(count, dtype=np.bool_)
        self.since: Floats = np.zeros(count)
        """The time of its last start."""
        self.killed: Flags = np.zeros(count, dtype=np.bool_)
        """Whether it was killed to make room for others, and is not placed again yet."""
        self.left: Floats = workload.lifetime_seconds.copy()
        """The remaining runtime of each container."""
        self.on: Flags = hosts.on.copy()
        self.booting: Flags = np.zeros(hosts.size, dtype=np.bool_)

    def rows(self, *phases: ContainerPhase) -> Rows:
        return np.flatnonzero(np.isin(self.phase, phases))

    def load(self, seconds: float) -> Load:
        """The demand of all running containers, and its sum on every host.

        A moving container counts in full on its source, and with `migration_use_ratio` on its target.
        """
        running = np.flatnonzero(self.phase == ContainerPhase.RUNNING)
        demand = self.workload.use.at(seconds, running, self.since[running])
        cut = self.cut[running]
        if cut.any():
            rows = running[cut]
            # A container that uses more than its reservation shows that this is a weight, not a limit.
            is_limit = ~(demand[cut] > self.workload.requested[rows])
            demand[cut] = np.where(is_limit, np.fmin(demand[cut], self.allocated[rows]), demand[cut])
        by_node = self.hosts.system * self.on[:, None]
        by_node += sum_by_node(self.node[running], demand, self.hosts.size)
        moving = np.flatnonzero(self.target[running] != NOWHERE)
        if moving.size:
            twice = demand[moving] * self._migration_use_ratio
            by_node += sum_by_node(self.target[running[moving]], twice, self.hosts.size)
        return Load(seconds, running, demand, by_node)

    def usage(self, load: Load) -> Floats:
        """The usage of each running container: its demand, with a share of the CPU of an overloaded host.

        Memory is not shared: a host that lacks memory has run out of it.
        """
        got = load.demand.copy()
        got[:, _CPU] *= self.cpu_ratio(load)
        return got

    def cpu_ratio(self, load: Load) -> Floats:
        """The share of its CPU demand that each running container gets."""
        capacity, demand = self.hosts.capacity[:, _CPU], load.by_node[:, _CPU]
        share = np.divide(capacity, demand, out=np.ones_like(demand), where=demand > capacity)
        return share[self.node[load.running]]

    def cpu_ratio_without_limits(self, load: Load) -> Floats:
        """The share of its CPU demand without limits that each running container gets."""
        unlimited = self.workload.use.at(load.seconds, load.running, self.since[load.running])[:, _CPU]
        got = load.demand[:, _CPU] * self.cpu_ratio(load)
        share: Floats = np.divide(got, unlimited, out=np.ones_like(got), where=unlimited > 0)
        return share

    def on_or_coming(self, node: int) -> Rows:
        """The containers on a host or moving to it."""
        return np.flatnonzero(
            ((self.node == node) | (self.target == node)) & (self.phase != ContainerPhase.ENDED)
        )

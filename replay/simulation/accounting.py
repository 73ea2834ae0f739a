"""Energy, node hours, overload and counts of a run, in total and over time."""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from collector.common.arrays import Flags, Floats
from collector.snapshot.power_curves import GRID
from collector.snapshot.tables import NOWHERE
from replay.setup.hosts import Hosts
from replay.simulation.cluster import Cluster, Load
from wire.resources import RESOURCES

JOULES_PER_KWH = 3.6e6
SECONDS_PER_HOUR = 3600.0
_WIDTH = len(RESOURCES)
_ROUNDING = 1 + 1e-9


@dataclass(slots=True)
class IntervalSums:
    """Sums over an interval, or over the whole run."""

    at: float = 0.0
    seconds: float = 0.0
    joules: float = 0.0
    lower_bound_joules: float = 0.0
    """Energy of the same work on the most efficient hosts, at their most efficient point."""
    node_seconds: float = 0.0
    used: Floats = field(default_factory=lambda: np.zeros(_WIDTH))
    """Served demand, integrated over time; the next is the capacity of nodes that were on."""
    capacity: Floats = field(default_factory=lambda: np.zeros(_WIDTH))
    overloaded_seconds: Floats = field(default_factory=lambda: np.zeros(_WIDTH))
    short_seconds: float = 0.0
    """As in CloudSim: time of hosts where a container gets less CPU than it demands, or that receive one."""
    moves: int = 0
    running: int = 0
    waiting: int = 0

    @property
    def hours(self) -> float:
        return self.at / SECONDS_PER_HOUR

    @property
    def utilisation(self) -> Floats:
        """Usage relative to the capacity of nodes that were on, per resource."""
        ratio: Floats = np.divide(
            self.used, self.capacity, out=np.zeros_like(self.used), where=self.capacity > 0
        )
        return ratio


class Account:
    """Adds up the intervals of a run. Power is linear between two events, as usage is."""

    def __init__(self, cluster: Cluster, *, idle_is_off: bool, warm_up_seconds: float) -> None:
        self._cluster = cluster
        self._idle_is_off, self._warm_up_seconds = idle_is_off, warm_up_seconds
        self.total = IntervalSums()
        self.counts: Counter[str] = Counter()
        self.waited_seconds: list[float] = []
        """For each placed container: the time from arrival to placement."""
        self.cut: Floats = np.zeros(_WIDTH)
        """What all cuts together took."""
        self.first_died_seconds: float | None = None
        self.moments: list[IntervalSums] = []
        self._now = IntervalSums()
        self._least_watts = least_watts_per_unit(cluster.hosts)

    def powered(self, load: Load) -> Flags:
        """The hosts that count as on during an interval that begins with this load."""
        if not self._idle_is_off:
            return self._cluster.on
        used: Flags = np.nan_to_num(load.by_node[:, 0], nan=0.0) > 0
        return used & self._cluster.on

    def add_interval(self, start: float, before: Load, end: float, after: Load) -> None:
        """Account for an interval in which no container started, ended or moved.

        As in CloudSim, energy is the mean of the watts at both ends times the duration, and a host is
        overloaded if its demand exceeds its capacity at the start.
        """
        seconds = end - max(start, self._warm_up_seconds)
        if seconds <= 0:
            return
        cluster = self._cluster
        hosts = cluster.hosts
        powered = self.powered(before)
        rows = np.flatnonzero(powered)
        capacity = hosts.capacity[rows]
        ratios = before.by_node[rows] / capacity
        watts = hosts.power.watts(ratios, rows) + hosts.power.watts(after.by_node[rows] / capacity, rows)
        joules = float(watts.sum()) / 2 * seconds
        booting = cluster.booting
        if booting.any():
            joules += float((hosts.boot_joules[booting] / hosts.boot_seconds[booting]).sum()) * seconds
        least = float(np.max(cluster.usage(before).sum(axis=0) * self._least_watts)) * seconds
        over = ratios > _ROUNDING
        receiving = np.zeros(hosts.size, dtype=np.bool_)
        receiving[cluster.target[cluster.target != NOWHERE]] = True
        short = int((over[:, 0] | receiving[rows]).sum())
        served = np.fmin(before.by_node[rows], capacity)
        for each in (self.total, self._now):
            each.seconds += seconds
            each.joules += joules
            each.lower_bound_joules += least
            each.node_seconds += (rows.size + int(booting.sum())) * seconds
            each.used += np.nansum(served, axis=0) * seconds
            each.capacity += np.nansum(capacity, axis=0) * seconds
            each.overloaded_seconds += over.sum(axis=0) * seconds
            each.short_seconds += short * seconds

    def count(self, what: str, many: int = 1) -> None:
        self.counts[what] += many
        if what == "migrations":
            self._now.moves += many

    def count_placement(self, seconds: float) -> None:
        """Count the first placement of a container, and its waiting time."""
        self.count("placed_later" if seconds > 0 else "placed")
        self.waited_seconds.append(seconds)

    def add_point(self, seconds: float, running: int, waiting: int) -> None:
        """Add the sums since the last point as a point of the charts."""
        self._now.at, self._now.running, self._now.waiting = seconds, running, waiting
        self.moments.append(self._now)
        self._now = IntervalSums()


def least_watts_per_unit(hosts: Hosts) -> Floats:
    """The fewest watts per unit of each resource on any host.

    For CPU, at the most efficient point of the power curve of a host; for the others, its idle power divided
    by its capacity. The largest product of these and the demand is a lower bound for any placement.
    """
    shares = GRID[1:]
    rows = np.repeat(np.arange(hosts.size), shares.size)
    ratios = np.zeros((rows.size, _WIDTH))
    ratios[:, 0] = np.tile(shares, hosts.size)
    watts = hosts.power.watts(ratios, rows).reshape(hosts.size, shares.size)
    per_core = (watts / (shares * hosts.capacity[:, :1])).min()
    others = np.nan_to_num(hosts.power.idle_watts[:, None] / hosts.capacity[:, 1:], nan=0.0).min(axis=0)
    return np.concatenate([[per_core], others])

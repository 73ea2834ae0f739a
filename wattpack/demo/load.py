"""The usage and power of the demo shop's containers at a time. Pure: no state, no clock.

A replica of the elastic service is a queue with one server (M/M/1) whose speed is its CPU limit, and the
balancer gives each replica the same part of the requests. The response time then has an exponential
distribution, with the mean `SERVICE_SECONDS / (1 - busy)`.
"""

from dataclasses import dataclass
from math import floor, pi, sin

import numpy as np

from collector.common.arrays import Floats, Rows
from collector.snapshot.columns import sum_by_node
from collector.snapshot.tables import NOWHERE
from wattpack.demo.shop import Shop
from wattpack.demo.tables import Rhythm
from wire.messages import Pressure

CPU, MEMORY, DISK = range(3)
_DAY_SECONDS = 86_400.0
_NOISE = np.array([0.10, 0.015, 0.25, 0.20])
"""Standard deviation of a sample, relative to its level."""
_SYSTEM = np.array([0.012, 0.018, 0.001, 0.0005])
"""Usage of the host itself, as a share of its capacity."""
BURST_EVERY_SECONDS, BURST_SECONDS = 1200.0, 540.0
BURST_BEGAN_SECONDS = 300.0
"""How long before the start the first burst began: its alert is open when the collector starts."""
_BURST_RATIO = 0.99
SURGE_AFTER_SECONDS, SURGE_EVERY_SECONDS, SURGE_SECONDS = 120.0, 1200.0, 180.0
"""Jobs of a database: when the first begins after the start, how often they begin, and how long they take."""
_SURGE_RATIO = 0.94
"""High enough to open an alert; low enough to close it once the optional service stops."""
SERVICE_SECONDS = 0.02
"""Response time of a replica of the elastic service without load."""
_WAVE_SECONDS, _WAVE_RATIO = 600.0, 0.6
"""Its visitors come in waves of ten minutes, because nobody watches a demo for a day."""
_MOST_BUSY = 0.99
"""The highest load of a replica that counts: the queue is not carried over to the next sample."""
CROWDED_RATIO = 0.7
"""CPU usage of a node above which tasks wait for a core."""
_BUSY_RATIO, _NEAR_LIMIT_RATIO = 0.5, 0.8
_STREAM_BIAS, _STREAM_BURST = 1, 2
"""Streams of random numbers, in addition to the one for each time."""


@dataclass(frozen=True, eq=False, slots=True)
class Moment:
    """The cluster at one time."""

    used: Floats
    """Usage of each container."""
    by_node: Floats
    """Usage of each node: its containers and the host itself."""
    terms: Floats
    """Watts of each node by resource, above idle, in the order of the resources."""
    idle_watts: Floats
    watts: Floats
    """Power of each container."""
    busy: Floats
    """CPU demand of each elastic container as a share of its limit; 0 for other containers."""

    @property
    def node_watts(self) -> Floats:
        total: Floats = self.idle_watts + self.terms.sum(axis=1)
        return total


class DemoLoad:
    """The load of a shop over time."""

    def __init__(self, shop: Shop, starts_at: float) -> None:
        self._shop, self._starts_at = shop, starts_at
        self.curves = [each.machine.curve for each in shop.nodes]
        self.capacity = np.array([each.machine.capacity.values for each in shop.nodes], dtype=np.float64)
        self._idle_watts = np.array([each.idle_watts for each in self.curves])
        self._other_watts = np.array(
            [(0.0, each.memory_watts, each.disk_watts, each.network_watts) for each in self.curves]
        )
        self._bias = 1 + np.random.default_rng([shop.seed, _STREAM_BIAS]).normal(0.0, 0.02, len(shop.nodes))
        """No two machines of a type use the same power."""
        kinds = [each.kind for each in shop.containers]
        self._rhythm = np.array([kind.rhythm for kind in kinds], dtype=np.intp)
        self._elastic = [rows for rows in shop.rows.values() if kinds[rows[0]].replicas_max]
        self._movable = np.array([not kind.is_pinned and not kind.replicas_max for kind in kinds])
        self._is_database = np.array([kind.is_pinned and not kind.is_optional for kind in kinds])

    def at(self, now: float, node_of: Rows) -> Moment:
        """The cluster at a time, with each container on a node, or nowhere."""
        used, busy = self._usage(now, node_of)
        place = np.maximum(node_of, 0)
        by_node = sum_by_node(node_of, used, len(self.capacity)) + _SYSTEM * self.capacity
        ratios = np.minimum(by_node / self.capacity, 1.0)
        terms = ratios * self._other_watts
        terms[:, CPU] = [
            np.interp(ratio, curve.cpu_ratios, curve.cpu_watts)
            for ratio, curve in zip(ratios[:, CPU], self.curves, strict=True)
        ]
        terms *= self._bias[:, None]
        # As in attribution: each term by usage of its resource.
        watts = (terms / by_node)[place] * used
        return Moment(used, by_node, terms, self._idle_watts * self._bias, watts.sum(axis=1), busy)

    def _usage(self, now: float, node_of: Rows) -> tuple[Floats, Floats]:
        """The usage of each container, and how busy elastic containers are."""
        levels = self._shop.levels
        rng = np.random.default_rng([self._shop.seed, floor(now)])
        active = rhythms(now)[self._rhythm]
        used = levels * active[:, None]
        used[:, MEMORY] = levels[:, MEMORY] * (0.75 + 0.25 * active)
        used *= np.maximum(0.05, 1 + _NOISE * rng.standard_normal(used.shape))
        used[:, CPU] += self._burst(used, now) + self._surge(used, now)
        busy = self._share_requests(used, now, node_of)
        used[node_of == NOWHERE] = 0.0
        place = np.maximum(node_of, 0)
        by_node = np.bincount(place, used[:, CPU], len(self.capacity))
        room = self.capacity[:, CPU] * (1 - _SYSTEM[CPU])
        share = np.minimum(1.0, room / np.maximum(by_node, 1e-9))[place]
        used[:, CPU] *= share
        return used, busy / share

    def _share_requests(self, used: Floats, now: float, node_of: Rows) -> Floats:
        """Give each replica of an elastic service its part of the load; return how busy each becomes."""
        busy = np.zeros(len(used))
        for rows in self._elastic:
            running = [row for row in rows if node_of[row] != NOWHERE]
            replicas = self._shop.replicas[self._shop.containers[rows[0]].service]
            ratio = visitors(now - self._starts_at) * replicas / max(1, len(running))
            limit = self._shop.limit(rows[0]).cpu_cores or 1.0
            busy[running] = used[running, CPU] * ratio / limit
            used[running] *= [ratio, 1.0, ratio, ratio]
            used[running, CPU] = np.minimum(used[running, CPU], limit)
        return busy

    def _surge(self, used: Floats, now: float) -> Floats:
        """A job of the databases on one node, which leaves no CPU if the optional service runs there too."""
        since = now - self._starts_at - SURGE_AFTER_SECONDS
        if since < 0 or since % SURGE_EVERY_SECONDS > SURGE_SECONDS:
            return np.zeros(len(used))
        databases = self._is_database.astype(np.float64)
        return self._fill(used, self._shop.surge_node, _SURGE_RATIO, databases)

    def _burst(self, used: Floats, now: float) -> Floats:
        """Work that suddenly arrives at the containers of one node, so that it has too little CPU."""
        since = now - (self._starts_at - BURST_BEGAN_SECONDS)
        number, into = floor(since / BURST_EVERY_SECONDS), since % BURST_EVERY_SECONDS
        if number < 0 or into > BURST_SECONDS:
            return np.zeros(len(used))
        rng = np.random.default_rng([self._shop.seed, _STREAM_BURST, number])
        home, levels = self._shop.placement, self._shop.levels[:, CPU]
        begins = home != NOWHERE
        busy = np.bincount(home[begins], levels[begins], len(self.capacity)) / self.capacity[:, CPU]
        busy[[self._shop.down_node, self._shop.full_disk_node, self._shop.surge_node]] = 0.0
        node = int(rng.choice(np.argsort(-busy)[: max(1, len(busy) // 4)]))
        return self._fill(used, node, _BURST_RATIO, levels * self._movable)

    def _fill(self, used: Floats, node: int, ratio: float, weights: Floats) -> Floats:
        """Fill the CPU of a node up to a ratio. A container that moves away takes its share along."""
        here = self._shop.placement == node
        shares = np.where(here, weights, 0.0)
        left = ratio * self.capacity[node, CPU] - float(used[here, CPU].sum())
        extra: Floats = max(0.0, left) * shares / max(shares.sum(), 1e-9)
        return extra


def rhythms(now: float) -> Floats:
    """The share of its busiest load that each rhythm has at a time of day (UTC) and of the week."""
    days = now / _DAY_SECONDS
    weekend = 0.82 if int(days + 4) % 7 in {6, 0} else 1.0
    found = np.empty(len(Rhythm))
    found[Rhythm.DAY] = (0.30 + 0.70 * _bump(days, 14.0, 5.0)) * weekend
    found[Rhythm.EVENING] = (0.22 + 0.78 * _bump(days, 20.0, 3.2)) * weekend
    found[Rhythm.FLAT] = 0.6
    found[Rhythm.NIGHT] = 0.10 + 0.90 * _bump(days, 2.5, 2.2)
    return found


def _bump(days: float, hour: float, width_hours: float) -> float:
    """1 at an hour of the day, and less before and after it."""
    away = ((days * 24 - hour + 12) % 24 - 12) / width_hours
    return float(np.exp(-(away**2)))


def visitors(since_start: float) -> float:
    """Load relative to the usual load at that time of day. The waves begin with the demo."""
    return 1.0 if since_start < 0 else 1.0 + _WAVE_RATIO * sin(2 * pi * since_start / _WAVE_SECONDS)


def response_seconds(busy: float, requests: int, rng: np.random.Generator) -> Floats:
    """Response times of a replica whose requests need this share of its CPU limit."""
    return rng.exponential(SERVICE_SECONDS / (1 - min(busy, _MOST_BUSY)), requests)


def node_pressure(cpu_ratio: float, disk_busy_ratio: float) -> Pressure:
    """Pressure of a node, by the use of its cores and the share of time that its disk is active."""
    cpu = min(0.9, 2.2 * max(0.0, cpu_ratio - CROWDED_RATIO))
    return Pressure(round(cpu, 4), 0.0, round(0.6 * max(0.0, disk_busy_ratio - _BUSY_RATIO), 4))


def container_pressure(cpu_cores: float, limit_cores: float | None) -> Pressure:
    """Pressure of a container, by the cores that it uses and may use."""
    return Pressure(
        round(min(1.0, max(0.0, cpu_cores / (limit_cores or 1.0) - _NEAR_LIMIT_RATIO)), 4), 0.0, 0.0
    )

"""The replicas of a service: requests queue at each of them, and are served with its CPU limit.

The CPU time of requests is distributed exponentially. A request goes to a random replica, as with kube-proxy,
and is served in order of arrival; the mean response time is then the same as if all requests at a replica
shared its CPU. Requests that are not served in time are carried over; a request that would wait longer than
its client's patience is not served at all.

Replicas are packed by their limits onto the nearest hosts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from collector.common.arrays import Floats, Rows
from replay.setup.hosts import Hosts
from wire.errors import UserError
from wire.resources import RESOURCES


@dataclass(slots=True)
class Replica:
    """One replica. Times are seconds of the run."""

    limit_cores: float
    ready_seconds: float
    """When it has started."""
    free_seconds: float
    """When it has served all requests that it received; at first, when it has started."""

    def pending_seconds(self, now: float) -> float:
        """How long it will be busy with the requests that it received so far."""
        return max(0.0, self.free_seconds - max(now, self.ready_seconds))


def serve(
    replicas: Sequence[Replica],
    at: Floats,
    random: np.random.Generator,
    service_seconds: float,
    patience: float,
) -> tuple[Floats, list[float]]:
    """Serve requests that arrive at these times: their response times, and the CPU time of each replica."""
    response = np.empty(at.size)
    target = random.integers(0, len(replicas), at.size)
    cpu = random.exponential(service_seconds, at.size)
    work = []
    for number, replica in enumerate(replicas):
        mine = np.flatnonzero(target == number)
        times = cpu[mine] / replica.limit_cores
        ends = _ends(replica.free_seconds, at[mine], times)
        waits = ends - at[mine]
        done = times
        if mine.size and float((waits - times).max()) > patience:
            waits, done, last = _impatient(replica.free_seconds, at[mine], times, patience)
            replica.free_seconds = last
        elif mine.size:
            replica.free_seconds = float(ends[-1])
        response[mine] = waits
        work.append(float(done.sum()) * replica.limit_cores)
    return response, work


def _ends(free: float, at: Floats, times: Floats) -> Floats:
    """When each request has been served, if each waits for all before it."""
    total = np.cumsum(times)
    begins = np.maximum.accumulate(np.concatenate(([free], at - (total - times))))[1:]
    ends: Floats = begins + total
    return ends


def _impatient(free: float, at: Floats, times: Floats, patience: float) -> tuple[Floats, Floats, float]:
    """Serve impatient requests: their response times, their service times, and when the last one ends."""
    responses, served = [], []
    for arrival, seconds in zip(at.tolist(), times.tolist(), strict=True):
        wait = max(0.0, free - arrival)
        if wait > patience:
            responses.append(patience)
            served.append(0.0)
        else:
            free = max(free, arrival) + seconds
            responses.append(wait + seconds)
            served.append(seconds)
    return np.array(responses), np.array(served), free


_ROUNDING = 1e-9


class Packing:
    """Hosts in the order of their distance to the first one. Hosts without replicas are off."""

    def __init__(self, hosts: Hosts) -> None:
        trips = hosts.round_trip_seconds
        self._trips: Floats = np.zeros(hosts.size) if trips is None else trips[0]
        self._order: Rows = np.argsort(self._trips, kind="stable")
        self._hosts = hosts
        self._cores: Floats = hosts.capacity[:, 0] - hosts.system[:, 0]
        full = np.zeros((hosts.size, len(RESOURCES)))
        full[:, 0] = 1.0
        cores = float(hosts.capacity[:, 0].sum())
        idle = float(hosts.power.idle_watts.sum())
        self.reserved_core_watts = idle / cores
        self.used_core_watts = (float(hosts.power.watts(full, self._all).sum()) - idle) / cores

    @property
    def _all(self) -> Rows:
        return np.arange(self._hosts.size, dtype=np.intp)

    def _hosts_of(self, replicas: Sequence[Replica]) -> Rows:
        """The host of each replica: the first with room."""
        free = self._cores.copy()
        found = []
        for replica in replicas:
            fits = self._order[free[self._order] >= replica.limit_cores - _ROUNDING]
            if not fits.size:
                raise UserError(
                    f"{len(replicas)} replicas of {replica.limit_cores:g} cores do not fit on the hosts: "
                    "add hosts, or lower replicas_max or cpu_max_cores"
                )
            free[fits[0]] -= replica.limit_cores
            found.append(int(fits[0]))
        return np.array(found, dtype=np.intp)

    def delay_seconds(self, replicas: Sequence[Replica]) -> float:
        """Mean round-trip time from the first host to the hosts of the replicas."""
        return float(self._trips[self._hosts_of(replicas)].mean())

    def watts(self, replicas: Sequence[Replica], used_cores: float) -> float:
        """Power of the hosts in use, if the replicas use these cores in equal parts."""
        hosts = self._hosts_of(replicas)
        used = np.bincount(hosts, minlength=self._hosts.size) * used_cores / len(replicas)
        rows = np.unique(hosts)
        ratios = np.zeros((rows.size, len(RESOURCES)))
        ratios[:, 0] = np.minimum(
            1.0, (used + self._hosts.system[:, 0])[rows] / self._hosts.capacity[rows, 0]
        )
        return float(self._hosts.power.watts(ratios, rows).sum())

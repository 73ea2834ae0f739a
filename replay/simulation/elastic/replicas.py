"""The replicas of a service: requests queue at each of them, and are served with its CPU limit.

The CPU time of requests is distributed exponentially. A request goes to a random replica, as with kube-proxy,
and is served in order of arrival; the mean response time is then the same as if all requests at a replica
shared its CPU. Requests that are not served in time are carried over; a request that would wait longer than
its client's patience is not served at all.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from collector.common.arrays import Floats


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

"""One policy on an elastic service, from decision to decision.

Requests queue at the replicas of the service, and are served with their CPU limits. The CPU time of requests
is distributed exponentially. A request goes to a random replica, as with kube-proxy, and is served in order
of arrival; the mean response time is then the same as if all requests at a replica shared its CPU. Requests
that are not served in time are carried over; a request that would wait longer than its client's patience is
not served at all.

Replicas are packed by their limits onto the nearest hosts.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from collector.common.arrays import Floats, Rows
from collector.features.elastic.scaling.interface import ElasticDecision, ElasticPolicy, Observation, Target
from replay.generators.arrivals import Arrivals
from replay.setup.elastic import MILLI, ElasticService
from replay.setup.hosts import Hosts
from replay.simulation.accounting import SECONDS_PER_HOUR
from replay.simulation.elastic.placement import Placement
from wire.errors import UserError
from wire.resources import RESOURCES

_ROUNDING = 1e-9
_UNAVAILABLE_RATIO = 0.25
"""Share of the replicas that a rolling update may stop at once: the default of Kubernetes."""


@dataclass(slots=True)
class Replica:
    """One replica. Times are seconds of the run."""

    limit_cores: float
    ready_seconds: float
    """When it has started."""
    free_seconds: float
    """When it has served all requests that it received; at first, when it has started."""
    host: int | None = None
    """None if no policy places it."""

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


class Packing:
    """Where replicas run: without a policy, on the hosts nearest to the first one. Unused hosts are off."""

    def __init__(self, hosts: Hosts) -> None:
        trips = hosts.round_trip_seconds
        self._trips: Floats = np.zeros((hosts.size, hosts.size)) if trips is None else trips
        self._order: Rows = np.argsort(self._trips[0], kind="stable")
        self._hosts = hosts
        self._cores: Floats = hosts.capacity[:, 0] - hosts.system[:, 0]
        full = np.zeros((hosts.size, len(RESOURCES)))
        full[:, 0] = 1.0
        cores = float(hosts.capacity[:, 0].sum())
        idle = float(hosts.power.idle_watts.sum())
        self.reserved_core_watts = idle / cores
        self.used_core_watts = (float(hosts.power.watts(full, np.arange(hosts.size)).sum()) - idle) / cores

    def hosts_of(self, replicas: Sequence[Replica]) -> Rows:
        """The host of each replica: where a policy placed it, or the first with room."""
        placed = [each.host for each in replicas if each.host is not None]
        if len(placed) == len(replicas):
            return np.array(placed, dtype=np.intp)
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
        """Mean round-trip time from the host of the first replica to those of all."""
        hosts = self.hosts_of(replicas)
        return float(self._trips[hosts[0], hosts].mean())

    def watts(self, replicas: Sequence[Replica], used_cores: float) -> float:
        """Power of the hosts in use, if the replicas use these cores in equal parts."""
        hosts = self.hosts_of(replicas)
        used = np.bincount(hosts, minlength=self._hosts.size) * used_cores / len(replicas)
        rows = np.unique(hosts)
        ratios = np.zeros((rows.size, len(RESOURCES)))
        ratios[:, 0] = np.minimum(
            1.0, (used + self._hosts.system[:, 0])[rows] / self._hosts.capacity[rows, 0]
        )
        return float(self._hosts.power.watts(ratios, rows).sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """The time between two decisions."""

    begin_seconds: float
    seconds: float
    requests: int
    late: int
    """Requests that took longer than the bound."""
    metric: float | None
    """The mean or the percentile of their response times, in seconds; None without requests."""
    replicas: int
    hosts: int
    limit_cores: float
    used_cores: float
    core_seconds: float
    """Integral of the CPU limits of all replicas."""
    joules: float
    decision: ElasticDecision
    """The decision at the end."""
    changed: bool
    vertical: bool

    @property
    def hours(self) -> float:
        return self.begin_seconds / SECONDS_PER_HOUR


@dataclass(slots=True)
class _Service:
    """The replicas that get requests, and the next ones, which take over when they have started."""

    active: list[Replica]
    next_active: list[Replica] = field(default_factory=list)
    switch_seconds: float = np.inf
    """The time at which the next replicas take over."""

    @property
    def replicas(self) -> list[Replica]:
        """The replicas that run from now on."""
        return self.next_active or self.active


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticRun:
    """The service, its load and its hosts: the same for every policy."""

    service: ElasticService
    arrivals: Arrivals
    hosts: Hosts
    decide_seconds: float
    seed: int
    placement: Placement | None = None
    """None packs replicas onto the nearest hosts."""


def run_elastic(
    policy: ElasticPolicy,
    setup: ElasticRun,
    *,
    utilization_target: float | None = None,
    progress: Callable[[float], None] = lambda _: None,
) -> list[Interval]:
    """Simulate the whole run; `progress` is called with the simulated seconds."""
    target = setup.service.target(setup.decide_seconds, utilization_target)
    return list(_Run(policy, target, setup).intervals(progress))


class _Run:
    def __init__(self, policy: ElasticPolicy, target: Target, setup: ElasticRun) -> None:
        service = setup.service
        self._policy, self._target, self._settings = policy, target, service
        self._arrivals, self._packing, self._seed = setup.arrivals, Packing(setup.hosts), setup.seed
        self._placement = setup.placement
        self._service = _Service(self._new(service.replicas, service.cpu_limit_cores, 0.0, []))
        self._changed_at: float | None = None
        self._learned = b""

    def intervals(self, progress: Callable[[float], None]) -> Iterator[Interval]:
        every = self._target.decide_seconds
        for number in range(int(self._arrivals.seconds / every)):
            yield self._interval(number, number * every, (number + 1) * every)
            progress((number + 1) * every)

    def _interval(self, number: int, begin: float, end: float) -> Interval:
        response, used_cores = self._serve(np.random.default_rng((self._seed, number)), begin, end)
        running, metric, seconds = self._service.replicas, self._metric(response), end - begin
        limit_cores = running[0].limit_cores
        decision = self._decide(end, running, used_cores, metric)
        core_seconds = sum(each.limit_cores for each in running) * seconds
        joules = self._packing.watts(running, used_cores) * seconds
        self._settle(end)
        changed = self._apply(decision, end)
        return Interval(
            begin_seconds=begin,
            seconds=seconds,
            requests=int(response.size),
            late=int((response > self._target.metric_max).sum()),
            metric=metric,
            replicas=len(running),
            hosts=np.unique(self._packing.hosts_of(running)).size,
            limit_cores=limit_cores,
            used_cores=used_cores,
            core_seconds=core_seconds,
            joules=joules,
            decision=decision,
            changed=changed,
            vertical=changed and decision.cpu_limit_cores != limit_cores,
        )

    def _serve(self, random: np.random.Generator, begin: float, end: float) -> tuple[Floats, float]:
        """Serve the requests of an interval: their response times, and the CPU usage of all replicas."""
        at = self._arrival_times(random, begin, end)
        service, settings = self._service, self._settings
        replicas = list({id(each): each for each in (*service.active, *service.next_active)}.values())
        pending = {id(each): each.pending_seconds(begin) for each in replicas}
        work = dict.fromkeys(pending, 0.0)
        responses = []
        switch = min(service.switch_seconds, end)
        for active, part in ((service.active, at[at < switch]), (service.next_active, at[at >= switch])):
            if not part.size:
                continue
            response, done = serve(
                active, part, random, settings.service_ms / MILLI, settings.patience_seconds
            )
            responses.append(response + self._packing.delay_seconds(active) * settings.round_trips)
            for each, cpu_seconds in zip(active, done, strict=True):
                work[id(each)] += cpu_seconds
        used = [
            (work[key] + each.limit_cores * (pending[key] - each.pending_seconds(end))) / (end - begin)
            for each in replicas
            for key in (id(each),)
        ]
        return np.concatenate(responses) if responses else np.empty(0), float(sum(used))

    def _decide(
        self, now: float, running: Sequence[Replica], used_cores: float, metric: float | None
    ) -> ElasticDecision:
        observed = Observation(
            service=self._settings.service,
            at_seconds=now,
            replicas=len(running),
            cpu_limit_cores=running[0].limit_cores,
            cpu_used_cores=used_cores,
            metric=metric,
            changed_at_seconds=self._changed_at,
            effect_seconds=self._settings.startup_seconds,
            used_core_watts=self._packing.used_core_watts,
            reserved_core_watts=self._packing.reserved_core_watts,
        )
        decision = self._policy(self._target, observed, self._learned)
        self._learned = decision.learned
        return decision

    def _arrival_times(self, random: np.random.Generator, begin: float, end: float) -> Floats:
        step = self._arrivals.step_seconds
        first, last = round(begin / step), round(end / step)
        counts = random.poisson(self._arrivals.rates[first:last] * step)
        starts = np.repeat(step * np.arange(first, first + counts.size), counts)
        times: Floats = np.sort(starts + random.uniform(0, step, starts.size))
        return times

    def _metric(self, response: Floats) -> float | None:
        if not response.size:
            return None
        percentile = self._settings.percentile
        return float(response.mean() if percentile is None else np.percentile(response, percentile))

    def _settle(self, now: float) -> None:
        """Make the next replicas the active ones, once they have taken over."""
        service = self._service
        if service.switch_seconds <= now:
            self._service = _Service(service.next_active)

    def _apply(self, decision: ElasticDecision, now: float) -> bool:
        current = self._service.replicas
        limit = current[0].limit_cores if decision.cpu_limit_cores is None else decision.cpu_limit_cores
        if (decision.replicas, limit) == (len(current), current[0].limit_cores):
            return False
        self._changed_at = now
        settings = self._settings
        ready = now + settings.startup_seconds
        kept = current[: decision.replicas] if limit == current[0].limit_cores else []
        new = self._new(decision.replicas - len(kept), limit, ready, kept)
        if not new or not settings.ready_check:
            self._service = _Service([*kept, *new])
            return True
        still = current if kept else current[: len(current) - int(len(current) * _UNAVAILABLE_RATIO)]
        self._service = _Service(still, [*kept, *new], ready)
        return True

    def _new(self, count: int, limit: float, ready: float, kept: Sequence[Replica]) -> list[Replica]:
        if self._placement is None or not count:
            return [Replica(limit, ready, ready) for _ in range(count)]
        hosts = self._placement.place([each.host for each in kept if each.host is not None], count, limit)
        return [Replica(limit, ready, ready, host) for host in hosts]

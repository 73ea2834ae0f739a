"""How promises stand: availability, time until they break, time that they are behind.

The letters are those of the study: `e` is running time that counts, `d` running time that does not, `p`
waiting time, all summed up since the admission; `O` is the promised availability.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from collector.common.arrays import Codes, Flags, Floats, Rows
from collector.features.promises.ledger.instances import Instance
from collector.features.promises.ledger.promises import Promise, ServiceMode, penalty
from collector.features.promises.ledger.services import Service
from collector.features.promises.snapshot import TaskPromises

MODES = tuple(ServiceMode)
"""The modes, in the order of their codes."""
_INDEPENDENT = MODES.index(ServiceMode.INDEPENDENT)
_CONCURRENT = MODES.index(ServiceMode.CONCURRENT)
_BATCH = MODES.index(ServiceMode.BATCH)


@dataclass(frozen=True, eq=False, kw_only=True)
class InstanceStandings:
    """Instances that run or wait, one row each."""

    service: Rows
    """The row of its service."""
    slots: tuple[str, ...]
    incarnations: tuple[str, ...]
    """The incarnation that runs or waits; empty if the slot is vacant."""
    is_running: Flags
    running_seconds: Floats
    """Running time that counts."""
    waiting_seconds: Floats
    discarded_seconds: Floats
    """Running time that does not count: lost batch work, or time in which a sibling waited."""
    availability: Floats
    """The availability of the service, unless its mode is independent."""
    columns: TaskPromises


@dataclass(frozen=True, eq=False, kw_only=True)
class ServiceStandings:
    """Services with a promise, one row each. A service whose instances have all ended keeps its row."""

    names: tuple[str, ...]
    promise: Codes
    """The class of the promise, as an index of `Standings.promises`."""
    mode: Codes
    """A place in `MODES`."""
    target: Floats
    availability: Floats
    deficit_seconds: Floats
    """Time that the promise is behind; 0 if it is kept."""
    breaks_in_seconds: Floats
    """Time until the promise breaks if nothing starts or stops; 0 if it is broken, infinite if it holds."""
    slack_seconds: Floats
    """The lowest slack of the instances; infinite if none is left."""
    total_seconds: Floats
    """Running and waiting time of its instances."""
    penalty: Floats
    """Penalty in seconds of one instance, weighted by the depth of the shortfall."""
    preemption_ratio: Floats
    """The highest ratio of the instances that run or wait."""
    startup_seconds: Floats
    """Expected time that a start takes on another node."""
    running_instances: Rows
    live_instances: Rows
    """The number of instances that run or wait."""
    preemptions: Rows


@dataclass(frozen=True, eq=False, kw_only=True)
class Standings:
    """How all promises stand at one moment."""

    at: float
    promises: tuple[Promise, ...]
    services: ServiceStandings
    instances: InstanceStandings


def availability(counted_seconds: Floats, total_seconds: Floats) -> Floats:
    """The share of its time in which it ran, `e / (e + d + p)`; 1 before any time has passed."""
    return np.where(total_seconds > 0, np.clip(_ratio(counted_seconds, total_seconds), 0.0, 1.0), 1.0)


def time_to_violation(
    counted_seconds: Floats, total_seconds: Floats, target: Floats, instances: Floats, contributing: Floats
) -> Floats:
    """How long an instance can wait before the promise breaks: `(e - O (e + d + p)) / (v O - c)`.

    Of the `instances` of the service that run or wait, `contributing` keep running meanwhile. The promise
    never breaks if these alone keep it.
    """
    loss = instances * target - contributing
    return np.where(loss > 0, _ratio(counted_seconds - target * total_seconds, loss), np.inf)


def recoverability(counted_seconds: Floats, total_seconds: Floats, target: Floats) -> Floats:
    """The time that a broken promise is behind, as a negative number: `e / O - (e + d + p)`."""
    return counted_seconds / target - total_seconds


def slack(
    counted_seconds: Floats, total_seconds: Floats, target: Floats, instances: Floats, contributing: Floats
) -> Floats:
    """The time to violation of a promise that is kept, and the recoverability of one that is broken."""
    return np.where(
        counted_seconds >= target * total_seconds,
        time_to_violation(counted_seconds, total_seconds, target, instances, contributing),
        recoverability(counted_seconds, total_seconds, target),
    )


def preemption_ratio(preempted_startup_seconds: Floats, running_seconds: Floats) -> Floats:
    """The share of its time that an instance spent on starts that were preempted; 0 before it ran."""
    return _ratio(preempted_startup_seconds, preempted_startup_seconds + running_seconds)


def _ratio(part: Floats, whole: Floats) -> Floats:
    """The quotient; 0 where nothing is divided by."""
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


def assess(
    now: float,
    promises: tuple[Promise, ...],
    services: Mapping[str, Service],
    startup_seconds: float,
    restart_seconds: float,
) -> Standings:
    """How every promise stands.

    A start takes `startup_seconds` on another node, and `restart_seconds` on the same one, where a service
    has no measurements of its own.
    """
    promised = {name: each for name, each in services.items() if each.promise is not None and each.instances}
    for each in promised.values():
        if each.mode is ServiceMode.CONCURRENT:
            each.count_concurrent()
    figures = _Figures(now, promises, promised)
    own = [each.startups for each in promised.values()]
    startup = _known_or([np.nan if each is None else each.other_node for each in own], startup_seconds)
    restart = _known_or([np.nan if each is None else each.same_node for each in own], restart_seconds)
    instances = figures.instances(startup, np.maximum(startup, restart))
    return Standings(
        at=now,
        promises=promises,
        services=figures.services(tuple(promised), instances, startup),
        instances=instances,
    )


def _known_or(values: list[float], default: float) -> Floats:
    return np.nan_to_num(np.array(values, dtype=np.float64), nan=default)


class _Figures:
    """The times of instances, ended ones included, and of their services.

    Withdrawn instances do not count while others of their service are left.
    """

    def __init__(self, now: float, promises: tuple[Promise, ...], services: Mapping[str, Service]) -> None:
        found = services.values()
        self.now, self.promises = now, promises
        self.rows: list[Instance] = [each for service in found for each in service.instances.values()]
        states = [each.state for each in self.rows]

        def column(name: str) -> Floats:
            return np.fromiter(map(attrgetter(name), states), dtype=np.float64, count=len(states))

        codes = {each.name: code for code, each in enumerate(promises)}
        self.promise = np.array([codes[each.promise.name] for each in found if each.promise], dtype=np.int8)
        self.mode = np.array([MODES.index(each.mode) for each in found], dtype=np.int8)
        self.target = np.array([each.availability for each in promises], dtype=np.float64)[self.promise]
        sizes = np.array([len(each.instances) for each in found], dtype=np.intp)
        self.service = np.repeat(np.arange(len(services)), sizes)
        self.is_batch = (self.mode == _BATCH)[self.service]
        self.is_concurrent = (self.mode == _CONCURRENT)[self.service]
        self.is_shared = (self.mode != _INDEPENDENT)[self.service]
        self.admitted, since = column("admitted"), column("since")
        withdrawn, completed = column("withdrawn"), column("completed")
        is_completed = self.is_batch & ~np.isnan(completed) & np.isnan(withdrawn)
        self.is_live = np.isnan(withdrawn) & ~is_completed
        self.is_running = np.array([bool(each.runs) for each in states], dtype=np.bool_)
        # A clock that is ahead reports the beginning of an interval that lies ahead: it is empty so far.
        end = np.where(np.isnan(withdrawn), np.maximum(now, since), withdrawn)
        self.run_seconds = np.where(self.is_running, end - since, 0.0)
        ran = column("running_seconds") + self.run_seconds
        paused = column("paused_seconds") + np.where(np.isnan(completed), 0.0, end - completed)
        # Rounding can make a difference of large numbers negative.
        waiting = np.maximum(end - self.admitted - ran - np.where(self.is_batch, paused, 0.0), 0.0)
        self.waiting_seconds, self.total = waiting, ran + waiting
        self.preemption_ratio = preemption_ratio(column("preempted_startup_seconds"), ran)
        self.preemptions = column("preemptions")

        self.live, self.running = self._sum(self.is_live), self._sum(self.is_running)
        self.is_spare = self.is_concurrent & self.is_running & (self.running < self.live)[self.service]
        self.discarded = np.where(self.is_batch, column("discarded_seconds"), 0.0)
        if self.is_concurrent.any():
            alone = ran - self._concurrent_seconds(np.array([each.concurrent_since for each in found]))
            self.discarded = np.where(self.is_concurrent, alone, self.discarded)
        self.counted = ran - self.discarded
        is_included = self.is_live | is_completed | (self.live == 0)[self.service]
        self.is_included = is_included
        self.counted_sum = self._sum(np.where(is_included, self.counted, 0.0))
        self.total_sum = self._sum(np.where(is_included, self.total, 0.0))
        self.counting = self.is_running & ~self.is_spare

    def _sum(self, values: Floats | Flags) -> Floats:
        """The sum of each service."""
        return np.bincount(self.service, values, len(self.mode)).astype(np.float64)

    def _least(self, service: Rows, values: Floats, default: float = np.inf) -> Floats:
        """The lowest value of each service."""
        lowest = np.full(len(self.mode), default)
        np.minimum.at(lowest, service, values)
        return lowest

    def _concurrent_seconds(self, since: Floats) -> Floats:
        """The time in which instances ran together with their siblings, up to now."""
        closed = np.array([each.concurrent_seconds for each in self.rows], dtype=np.float64)
        # Of an instance that joined its running siblings, only its own time counts.
        lasting = np.maximum(self.now - np.maximum(since[self.service], self.admitted), 0.0)
        return closed + np.where(self.is_live & ~np.isnan(lasting), lasting, 0.0)

    def instances(self, startup: Floats, longest_startup: Floats) -> InstanceStandings:
        """How the instances that run or wait stand; the start-up times are those of services."""
        of, is_shared, one = self.service, self.is_shared, np.ones(len(self.rows))
        # Slack is for an instance that waits from now on: a batch instance then loses its present run.
        lost = np.where(self.is_batch, self.run_seconds, 0.0)
        slack_seconds = slack(
            np.where(is_shared, self.counted_sum[of] - lost, self.counted),
            np.where(is_shared, self.total_sum[of], self.total),
            self.target[of],
            np.where(is_shared, self.live[of], one),
            np.where(is_shared & ~self.is_concurrent, self.running[of] - self.is_running, 0.0),
        )
        shared = availability(self.counted_sum, self.total_sum)[of]
        live = np.flatnonzero(self.is_live)
        rows, of = [self.rows[row] for row in live.tolist()], of[live]
        return InstanceStandings(
            service=of,
            slots=tuple([each.slot for each in rows]),
            incarnations=tuple([each.state.incarnation for each in rows]),
            is_running=self.is_running[live],
            running_seconds=self.counted[live],
            waiting_seconds=self.waiting_seconds[live],
            discarded_seconds=self.discarded[live],
            availability=np.where(is_shared, shared, availability(self.counted, self.total))[live],
            columns=TaskPromises(
                promises=self.promises,
                promise=self.promise[of],
                slack_seconds=slack_seconds[live] - longest_startup[of],
                preemption_ratio=self.preemption_ratio[live],
                startup_seconds=startup[of],
                admitted_seconds=self.now - self.admitted[live],
                is_spare=self.is_spare[live],
            ),
        )

    def services(
        self, names: tuple[str, ...], instances: InstanceStandings, startup: Floats
    ) -> ServiceStandings:
        """How the services stand, of which these are the instances that run or wait."""
        is_shared = self.mode != _INDEPENDENT
        delivered, deficit, breaks_in = (
            np.where(is_shared, of_sum, of_lowest)
            for of_sum, of_lowest in zip(self._shared(), self._lowest(), strict=True)
        )
        return ServiceStandings(
            names=names,
            promise=self.promise,
            mode=self.mode,
            target=self.target,
            availability=delivered,
            deficit_seconds=np.maximum(deficit, 0.0),
            breaks_in_seconds=breaks_in,
            slack_seconds=self._least(instances.service, instances.columns.slack_seconds),
            total_seconds=self.total_sum,
            penalty=penalty(self.target, delivered, self.total_sum),
            preemption_ratio=-self._least(instances.service, -instances.columns.preemption_ratio, 0.0),
            startup_seconds=startup,
            running_instances=self.running.astype(np.intp),
            live_instances=self.live.astype(np.intp),
            preemptions=self._sum(self.preemptions).astype(np.intp),
        )

    def _shared(self) -> tuple[Floats, Floats, Floats]:
        """Availability, deficit and time to violation of services whose instances share an account."""
        counting = self._sum(self.counting)
        ratio = availability(self.counted_sum, self.total_sum)
        breaks_in = time_to_violation(self.counted_sum, self.total_sum, self.target, self.live, counting)
        return (
            ratio,
            -recoverability(self.counted_sum, self.total_sum, self.target),
            np.where(self.live > 0, np.maximum(breaks_in, 0.0), np.inf),
        )

    def _lowest(self) -> tuple[Floats, Floats, Floats]:
        """The same of services whose instances have an account each: the lowest one counts."""
        of, target, counted = self.service, self.target[self.service], self.is_included
        ratio = availability(self.counted, self.total)
        lowest = self._least(of, np.where(counted, ratio, np.inf))
        behind = np.where(counted, recoverability(self.counted, self.total, target), 0.0)
        breaks_in = time_to_violation(
            self.counted, self.total, target, np.ones_like(target), self.counting * 1.0
        )
        return (
            lowest,
            -self._least(of, behind),
            self._least(of, np.where(self.is_live, np.maximum(breaks_in, 0.0), np.inf)),
        )

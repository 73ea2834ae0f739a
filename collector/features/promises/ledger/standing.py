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
from collector.features.promises.ledger.services import ServiceRecord
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
    services: Mapping[str, ServiceRecord],
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
    times, own = _Times(now, promised), [each.startups for each in promised.values()]
    startup = _known_or([np.nan if each is None else each.other_node for each in own], startup_seconds)
    restart = _known_or([np.nan if each is None else each.same_node for each in own], restart_seconds)
    codes = {each.name: code for code, each in enumerate(promises)}
    promise = np.array(
        [codes[each.promise.name] for each in promised.values() if each.promise], dtype=np.int8
    )
    target = np.array([each.availability for each in promises], dtype=np.float64)[promise]
    of, live, included = times.service, np.flatnonzero(times.is_live), np.flatnonzero(times.is_included)

    # The instances of a service share one account, unless its mode is independent.
    account = np.where(times.is_shared, of, len(promised) + np.arange(of.size))
    counted, total, wanted, running, counting = (
        _sums(account[included], values[included], len(promised) + of.size)[account]
        for values in (times.counted, times.total, times.is_live, times.is_running, times.is_counting)
    )
    ratio = availability(counted, total)
    breaks_in = np.maximum(time_to_violation(counted, total, target[of], wanted, counting), 0.0)
    # Slack is for an instance that waits from now on: a batch instance then loses its present run.
    lost = np.where(times.is_batch, times.run_seconds, 0.0)
    siblings = np.where(times.is_concurrent, 0.0, running - times.is_running)
    slack_seconds = slack(counted - lost, total, target[of], wanted, siblings)
    slack_seconds -= np.maximum(startup, restart)[of]

    def least(values: Floats, rows: Rows, default: float = np.inf) -> Floats:
        """The lowest value of some instances of each service."""
        lowest = np.full(len(promised), default)
        np.minimum.at(lowest, of[rows], values[rows])
        return lowest

    delivered, total_seconds = (
        least(ratio, included),
        _sums(of[included], times.total[included], len(promised)),
    )
    return Standings(
        at=now,
        promises=promises,
        services=ServiceStandings(
            names=tuple(promised),
            promise=promise,
            mode=times.mode,
            target=target,
            availability=delivered,
            deficit_seconds=0.0 - least(recoverability(counted, total, target[of]), included, 0.0),
            breaks_in_seconds=least(breaks_in, live),
            slack_seconds=least(slack_seconds, live),
            total_seconds=total_seconds,
            penalty=penalty(target, delivered, total_seconds),
            preemption_ratio=0.0 - least(-times.preemption_ratio, live, 0.0),
            startup_seconds=startup,
            running_instances=np.bincount(of[times.is_running], minlength=len(promised)),
            live_instances=np.bincount(of[live], minlength=len(promised)),
            preemptions=_sums(of, times.preemptions, len(promised)).astype(np.intp),
        ),
        instances=InstanceStandings(
            service=of[live],
            slots=tuple([times.rows[row].slot for row in live.tolist()]),
            incarnations=tuple([times.rows[row].state.incarnation for row in live.tolist()]),
            is_running=times.is_running[live],
            running_seconds=times.counted[live],
            waiting_seconds=times.waiting[live],
            discarded_seconds=times.discarded[live],
            availability=ratio[live],
            columns=TaskPromises(
                promises=promises,
                promise=promise[of[live]],
                slack_seconds=slack_seconds[live],
                preemption_ratio=times.preemption_ratio[live],
                startup_seconds=startup[of[live]],
                admitted_seconds=now - times.admitted[live],
                is_spare=times.is_spare[live],
            ),
        ),
    )


def _sums(places: Rows, values: Floats | Flags, count: int) -> Floats:
    """The sum of the values at each place."""
    return np.bincount(places, values, count).astype(np.float64)


def _known_or(values: list[float], default: float) -> Floats:
    return np.nan_to_num(np.array(values, dtype=np.float64), nan=default)


class _Times:
    """The times of instances, ended ones included, one row each."""

    def __init__(self, now: float, promised: Mapping[str, ServiceRecord]) -> None:
        services = promised.values()
        self.rows: list[Instance] = [each for service in services for each in service.instances.values()]
        states = [each.state for each in self.rows]

        def column(name: str) -> Floats:
            return np.fromiter(map(attrgetter(name), states), dtype=np.float64, count=len(states))

        sizes = np.array([len(each.instances) for each in services], dtype=np.intp)
        self.service = np.repeat(np.arange(len(services)), sizes)
        self.mode = np.array([MODES.index(each.mode) for each in services], dtype=np.int8)
        self.is_batch = (self.mode == _BATCH)[self.service]
        self.is_concurrent = (self.mode == _CONCURRENT)[self.service]
        self.is_shared = (self.mode != _INDEPENDENT)[self.service]
        self.admitted, since = column("admitted"), column("since")
        withdrawn, completed = column("withdrawn"), column("completed")
        is_completed = self.is_batch & ~np.isnan(completed) & np.isnan(withdrawn)
        self.is_live = np.isnan(withdrawn) & ~is_completed
        self.is_running = np.array([bool(each.runs) for each in states], dtype=np.bool_)
        live, running = (
            _sums(self.service, flags, len(services))[self.service]
            for flags in (self.is_live, self.is_running)
        )
        # Withdrawn instances do not count while others of their service are left.
        self.is_included = self.is_live | is_completed | (live == 0)
        self.is_spare = self.is_concurrent & self.is_running & (running < live)
        self.is_counting = self.is_running & ~self.is_spare
        # A clock that is ahead reports the beginning of an interval that lies ahead: it is empty so far.
        end = np.where(np.isnan(withdrawn), np.maximum(now, since), withdrawn)
        self.run_seconds = np.where(self.is_running, end - since, 0.0)
        ran = column("running_seconds") + self.run_seconds
        paused = column("paused_seconds") + np.where(np.isnan(completed), 0.0, end - completed)
        # Rounding can make a difference of large numbers negative.
        self.waiting = np.maximum(end - self.admitted - ran - np.where(self.is_batch, paused, 0.0), 0.0)
        self.total = ran + self.waiting
        self.discarded = np.where(self.is_batch, column("discarded_seconds"), 0.0)
        if self.is_concurrent.any():
            since_when = np.array([each.concurrent_since for each in services])[self.service]
            # Of an instance that joined its running siblings, only its own time counts.
            lasting = np.maximum(now - np.maximum(since_when, self.admitted), 0.0)
            together = np.array([each.concurrent_seconds for each in self.rows])
            together += np.where(self.is_live & ~np.isnan(lasting), lasting, 0.0)
            self.discarded = np.where(self.is_concurrent, ran - together, self.discarded)
        self.counted = ran - self.discarded
        self.preemption_ratio = preemption_ratio(column("preempted_startup_seconds"), ran)
        self.preemptions = column("preemptions")

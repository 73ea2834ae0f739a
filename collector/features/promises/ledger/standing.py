"""How promises stand: availability, time until they break, time that they are behind.

The letters are those of the study: `e` is running time that counts, `d` running time that does not, `p`
waiting time, all summed up since the admission; `O` is the promised availability.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from math import isfinite
from operator import attrgetter

import msgspec
import numpy as np

from collector.common.arrays import Codes, Flags, Floats, Rows
from collector.features.promises.ledger.instances import Instance
from collector.features.promises.ledger.penalties import is_broken, penalty
from collector.features.promises.ledger.promises import Promise, ServiceMode
from collector.features.promises.ledger.services import ServiceRecord
from collector.features.promises.snapshot import TaskPromises

_MODES = tuple(ServiceMode)
"""The modes, in the order of their codes."""
_INDEPENDENT = _MODES.index(ServiceMode.INDEPENDENT)
_CONCURRENT = _MODES.index(ServiceMode.CONCURRENT)
_BATCH = _MODES.index(ServiceMode.BATCH)


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


class PromiseState(StrEnum):
    """State of a promise."""

    KEPT = "kept"
    AT_RISK = "at risk"
    """An instance waits; unless it starts, the promise breaks."""
    BROKEN = "broken"


_STATES = tuple(PromiseState)


class ServicePromise(msgspec.Struct, frozen=True, kw_only=True):
    """The promise of one service. One whose instances have all ended is there as well."""

    service: str
    slo_class: str
    """Name of its class under `[slo]`."""
    mode: ServiceMode
    """`independent`: the lowest of its instances counts; `concurrent`: time counts while all instances run;
    `aggregated`: the sum over all instances; `batch`: as aggregated, without the work of runs that did not
    complete."""
    state: PromiseState
    """Whether the promise is kept, at risk or broken."""
    target_ratio: float
    """Promised availability, 0-1."""
    availability_ratio: float
    """Delivered availability, 0-1: the share of its time in which it ran."""
    time_to_violation_seconds: float | None
    """How long its most urgent instance can wait from now on before the promise breaks, less the expected
    start-up time; negative if the promise is broken, or breaks during the start. Null if waiting never breaks
    it."""
    breaks_in_seconds: float | None
    """How long the promise holds if nothing starts or stops; 0 if it is broken, null if it holds."""
    deficit_seconds: float
    """The time by which a broken promise is behind; 0 if it is kept."""
    penalty_seconds: float
    """Shortfall in seconds of one instance, with a surcharge: a deep shortfall counts up to twice."""
    total_seconds: float
    """Running and waiting time of its instances."""
    instances: int
    """Number of instances that run or wait."""
    running_instances: int
    """Number of instances that run now."""
    preemptions: int
    """Number of times that its instances were stopped to make room for others."""
    preemption_overhead_ratio: float
    """Highest share of its time that any instance spent on starts that were preempted, 0-1."""
    startup_seconds: float
    """Expected time that a start takes on another node."""


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


class Standings:
    """How all promises stand at one moment."""

    def __init__(
        self,
        now: float,
        promises: tuple[Promise, ...],
        services: Mapping[str, ServiceRecord],
        startup_seconds: float,
        restart_seconds: float,
    ) -> None:
        """Where a service has no measurements of its own, a start takes these times.

        On another node it takes `startup_seconds`, on the same one `restart_seconds`.
        """
        promised = {
            name: each for name, each in services.items() if each.promise is not None and each.instances
        }
        for each in promised.values():
            if each.mode is ServiceMode.CONCURRENT:
                each.count_concurrent()
        self.at, self.promises, self.names = now, promises, tuple(promised)
        self._times = times = _Times(now, promised)
        own = [each.startups for each in promised.values()]
        self._startup = _known_or(
            [np.nan if each is None else each.other_node for each in own], startup_seconds
        )
        restart = _known_or([np.nan if each is None else each.same_node for each in own], restart_seconds)
        codes = {each.name: code for code, each in enumerate(promises)}
        self._promise: Codes = np.array(
            [codes[each.promise.name] for each in promised.values() if each.promise], dtype=np.int8
        )
        self._target = np.array([each.availability for each in promises], dtype=np.float64)[self._promise]
        of, target = times.service, self._target[times.service]
        self._live, self._included = np.flatnonzero(times.is_live), np.flatnonzero(times.is_included)

        # The instances of a service share one account, unless its mode is independent.
        account = np.where(times.is_shared, of, len(promised) + np.arange(of.size))
        counted, total, wanted, running, counting = (
            _sums(account[self._included], values[self._included], len(promised) + of.size)[account]
            for values in (times.counted, times.total, times.is_live, times.is_running, times.is_counting)
        )
        self._availability = availability(counted, total)
        self._behind = recoverability(counted, total, target)
        self._breaks_in = np.maximum(time_to_violation(counted, total, target, wanted, counting), 0.0)
        # Slack is for an instance that waits from now on: a batch instance then loses its present run.
        lost = np.where(times.is_batch, times.run_seconds, 0.0)
        siblings = np.where(times.is_concurrent, 0.0, running - times.is_running)
        self._slack = slack(counted - lost, total, target, wanted, siblings)
        self._slack -= np.maximum(self._startup, restart)[of]
        self.instances = self._instances()

    def _instances(self) -> InstanceStandings:
        times, live = self._times, self._live
        of, rows = times.service[live], [times.rows[row] for row in live.tolist()]
        return InstanceStandings(
            service=of,
            slots=tuple([each.slot for each in rows]),
            incarnations=tuple([each.state.incarnation for each in rows]),
            is_running=times.is_running[live],
            running_seconds=times.counted[live],
            waiting_seconds=times.waiting[live],
            discarded_seconds=times.discarded[live],
            availability=self._availability[live],
            columns=TaskPromises(
                promises=self.promises,
                promise=self._promise[of],
                slack_seconds=self._slack[live],
                preemption_ratio=times.preemption_ratio[live],
                startup_seconds=self._startup[of],
                admitted_seconds=self.at - times.admitted[live],
                is_spare=times.is_spare[live],
            ),
        )

    @cached_property
    def services(self) -> list[ServicePromise]:
        """The promises of all services, in the order of `names`."""
        times, of, live, count = self._times, self._times.service, self._live, len(self.names)
        delivered = self._least(self._availability, self._included)
        total_seconds = _sums(of[self._included], times.total[self._included], count)
        wanted = np.bincount(of[live], minlength=count)
        running = np.bincount(of[times.is_running], minlength=count)
        breaks_in = self._least(self._breaks_in, live)
        is_at_risk = (running < wanted) & np.isfinite(breaks_in)
        state = np.where(is_broken(self._target, delivered), 2, is_at_risk)
        columns = {
            "service": self.names,
            "slo_class": [self.promises[code].name for code in self._promise.tolist()],
            "mode": [_MODES[mode] for mode in times.mode.tolist()],
            "state": [_STATES[each] for each in state.tolist()],
            "target_ratio": self._target.tolist(),
            "availability_ratio": delivered.tolist(),
            "time_to_violation_seconds": _finite(self._least(self._slack, live)),
            "breaks_in_seconds": _finite(breaks_in),
            "deficit_seconds": (0.0 - self._least(self._behind, self._included, 0.0)).tolist(),
            "penalty_seconds": penalty(self._target, delivered, total_seconds).tolist(),
            "total_seconds": total_seconds.tolist(),
            "instances": wanted.tolist(),
            "running_instances": running.tolist(),
            "preemptions": _sums(of, times.preemptions, count).astype(np.intp).tolist(),
            "preemption_overhead_ratio": (0.0 - self._least(-times.preemption_ratio, live, 0.0)).tolist(),
            "startup_seconds": self._startup.tolist(),
        }
        rows = zip(*columns.values(), strict=True)
        return [ServicePromise(**dict(zip(columns, row, strict=True))) for row in rows]

    @property
    def live_services(self) -> list[ServicePromise]:
        """The promises of services with instances that run or wait."""
        return [each for each in self.services if each.instances]

    def _least(self, values: Floats, rows: Rows, default: float = np.inf) -> Floats:
        """The lowest value of some instances of each service."""
        lowest = np.full(len(self.names), default)
        np.minimum.at(lowest, self._times.service[rows], values[rows])
        return lowest


def _finite(seconds: Floats) -> list[float | None]:
    """The values; None for those that are infinite."""
    return [each if isfinite(each) else None for each in seconds.tolist()]


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
        self.mode = np.array([_MODES.index(each.mode) for each in services], dtype=np.int8)
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

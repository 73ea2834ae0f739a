"""How a promise stands: availability, time until it breaks, time that it is behind. One row per instance.

The letters are those of the study: `e` is running time that counts, `d` running time that does not, `p`
waiting time, all summed up since the admission; `O` is the promised availability.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from collector.slo.promises import Promise, ServiceMode

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Codes = NDArray[np.int8]
Rows = NDArray[np.intp]

MODES = tuple(ServiceMode)
"""The modes, in the order of their codes."""
NOWHERE = -1
"""In a column of row numbers: none."""
_INDEPENDENT = MODES.index(ServiceMode.INDEPENDENT)
_CONCURRENT = MODES.index(ServiceMode.CONCURRENT)
_BATCH = MODES.index(ServiceMode.BATCH)


def availability(counted_seconds: Floats, total_seconds: Floats) -> Floats:
    """The share of its time in which it ran, `e / (e + d + p)`; 1 before any time has passed."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(total_seconds > 0, np.clip(counted_seconds / total_seconds, 0.0, 1.0), 1.0)


def time_to_violation(
    counted_seconds: Floats, total_seconds: Floats, target: Floats, instances: Floats, contributing: Floats
) -> Floats:
    """How long an instance can wait before the promise breaks: `(e - O (e + d + p)) / (v O - c)`.

    Of the `instances` of the service that run or wait, `contributing` keep running meanwhile. If these alone
    keep the promise, it never breaks.
    """
    surplus = counted_seconds - target * total_seconds
    loss = instances * target - contributing
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(loss > 0, surplus / loss, np.inf)


def recoverability(counted_seconds: Floats, total_seconds: Floats, target: Floats) -> Floats:
    """By how much a broken promise is behind, as a negative time: `e / O - (e + d + p)`."""
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
    total = preempted_startup_seconds + running_seconds
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(total > 0, preempted_startup_seconds / total, 0.0)


@dataclass(frozen=True, eq=False, kw_only=True)
class Accounts:
    """Times of instances since their admission, one row each."""

    service: Rows
    """The row of its service."""
    is_live: Flags
    """Whether it runs or waits; others have completed, or were withdrawn."""
    is_completed: Flags
    """Whether it is a batch instance that completed."""
    is_running: Flags
    ran_seconds: Floats
    """All time in which it ran."""
    waiting_seconds: Floats
    concurrent_seconds: Floats
    """Part of `ran_seconds`: while all instances of its service ran."""
    failed_seconds: Floats
    """Part of `ran_seconds`: of runs that did not complete."""
    run_seconds: Floats
    """Time since it began to run; 0 while it waits."""


class ServiceFigures(NamedTuple):
    """Columns per service."""

    availability: Floats
    deficit_seconds: Floats
    """By how much its promise is behind; 0 if it is kept."""
    breaks_in_seconds: Floats
    """How long its promise holds if nothing starts or stops; 0 if it is broken, infinite if it holds."""
    trend: Floats
    """Change of the availability per second, if nothing starts or stops."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Figures:
    """Columns per instance, and per service."""

    counted_seconds: Floats
    discarded_seconds: Floats
    availability: Floats
    slack_seconds: Floats
    """Without the start-up time."""
    is_spare: Flags
    services: ServiceFigures
    total_seconds: Floats
    """Per service."""
    running_instances: Rows
    live_instances: Rows


def compute_figures(accounts: Accounts, modes: Codes, targets: Floats) -> Figures:
    """Compute how instances and services stand; `modes` and `targets` have a row per service.

    Instances that were withdrawn count for nothing while others of their service are left.
    """
    count, service = len(modes), accounts.service
    is_batch, is_concurrent = modes[service] == _BATCH, modes[service] == _CONCURRENT
    discarded = np.where(
        is_batch,
        accounts.failed_seconds,
        np.where(is_concurrent, accounts.ran_seconds - accounts.concurrent_seconds, 0.0),
    )
    live = np.bincount(service[accounts.is_live], minlength=count)
    running = np.bincount(service[accounts.is_running], minlength=count)
    is_spare = is_concurrent & accounts.is_running & (running < live)[service]
    each = _Parts(
        service=service,
        is_live=accounts.is_live,
        is_included=accounts.is_live | accounts.is_completed | (live[service] == 0),
        counted=accounts.ran_seconds - discarded,
        total=accounts.ran_seconds + accounts.waiting_seconds,
        counting=(accounts.is_running & ~is_spare).astype(np.float64),
    )
    summed = each.sums(count)

    is_shared = modes != _INDEPENDENT
    of_sums = _figures_of_sums(summed, live.astype(np.float64), targets)
    of_lowest = _figures_of_lowest(each, targets)
    services = ServiceFigures(*(np.where(is_shared, *pair) for pair in zip(of_sums, of_lowest, strict=True)))

    # Slack supposes that the instance waits from now on: a batch instance then loses its present run.
    shares = is_shared[service]
    lost = np.where(is_batch & accounts.is_running, accounts.run_seconds, 0.0)
    return Figures(
        counted_seconds=each.counted,
        discarded_seconds=discarded,
        availability=np.where(shares, services.availability[service], availability(each.counted, each.total)),
        slack_seconds=slack(
            np.where(shares, summed.counted[service] - lost, each.counted),
            np.where(shares, summed.total[service], each.total),
            targets[service],
            np.where(shares, live[service], 1.0),
            np.where(shares & ~is_concurrent, running[service] - accounts.is_running, 0.0),
        ),
        is_spare=is_spare,
        services=services,
        total_seconds=summed.total,
        running_instances=running,
        live_instances=live,
    )


class _Sums(NamedTuple):
    counted: Floats
    total: Floats
    counting: Floats
    """How many instances run and count now."""


@dataclass(frozen=True, eq=False, kw_only=True)
class _Parts:
    """The times of instances."""

    service: Rows
    is_live: Flags
    is_included: Flags
    """Whether it counts for its service."""
    counted: Floats
    total: Floats
    counting: Floats
    """1 if it runs and counts now, else 0."""

    def sums(self, count: int) -> _Sums:
        included = self.service[self.is_included]

        def summed(column: Floats) -> Floats:
            return np.bincount(included, column[self.is_included], count).astype(np.float64)

        return _Sums(summed(self.counted), summed(self.total), summed(self.counting))


def _figures_of_sums(sums: _Sums, live: Floats, targets: Floats) -> ServiceFigures:
    """Figures of services whose instances share one account."""
    ratio = availability(sums.counted, sums.total)
    breaks_in = time_to_violation(sums.counted, sums.total, targets, live, sums.counting)
    return ServiceFigures(
        availability=ratio,
        deficit_seconds=np.maximum(-recoverability(sums.counted, sums.total, targets), 0.0),
        breaks_in_seconds=np.where(live > 0, np.maximum(breaks_in, 0.0), np.inf),
        trend=_trend(sums.counting - ratio * live, sums.total),
    )


def _figures_of_lowest(each: _Parts, targets: Floats) -> ServiceFigures:
    """Figures of services whose instances have an account each: those of the lowest."""
    count, target = len(targets), targets[each.service]
    ratio = availability(each.counted, each.total)
    lowest = _least(each.service, np.where(each.is_included, ratio, np.inf), count)
    deficit = np.where(each.is_included, -recoverability(each.counted, each.total, target), 0.0)
    breaks_in = time_to_violation(each.counted, each.total, target, np.ones_like(target), each.counting)
    trend = _trend(each.counting - ratio * each.is_live, each.total)
    is_lowest = each.is_included & (ratio == lowest[each.service])
    return ServiceFigures(
        availability=lowest,
        deficit_seconds=np.maximum(-_least(each.service, -deficit, count), 0.0),
        breaks_in_seconds=_least(
            each.service, np.where(each.is_live, np.maximum(breaks_in, 0.0), np.inf), count
        ),
        trend=_least(each.service, np.where(is_lowest, trend, np.inf), count),
    )


def _least(service: Rows, values: Floats, count: int) -> Floats:
    """The lowest value of each service; infinite without any."""
    lowest = np.full(count, np.inf)
    np.minimum.at(lowest, service, values)
    return lowest


def _trend(change: Floats, total_seconds: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(total_seconds > 0, change / total_seconds, 0.0)


@dataclass(frozen=True, eq=False, kw_only=True)
class InstanceStandings:
    """Instances that run or wait, one row each."""

    service: Rows
    """The row of its service."""
    slots: tuple[str, ...]
    incarnations: tuple[str, ...]
    """The incarnation that runs or waits; empty if the slot is vacant."""
    nodes: tuple[str, ...]
    """The node that it runs on; empty while it waits."""
    is_running: Flags
    running_seconds: Floats
    """Running time that counts."""
    waiting_seconds: Floats
    discarded_seconds: Floats
    """Running time that does not count: of lost batch work, or while a sibling waited."""
    availability: Floats
    """That of its service, unless its mode is independent."""
    slack_seconds: Floats
    """How long it can wait from now on before its promise breaks; negative if it is broken: the time by which
    it is behind. The expected start-up time is taken off. Infinite if waiting never breaks it."""
    preemption_ratio: Floats
    preemptions: NDArray[np.int32]
    startup_seconds: Floats
    """Expected time that a start takes on another node."""
    restart_seconds: Floats
    """Expected time that a start takes on the node that it ran on before."""
    waited_seconds: Floats
    """Time since it began to wait; 0 for one that runs."""
    run_seconds: Floats
    """Time since it began to run; 0 for one that waits."""
    admitted: Floats
    """Unix time at which its first incarnation was created."""
    is_spare: Flags
    """Whether its running time does not count now: its service is concurrent, and a sibling waits."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ServiceStandings:
    """Services with a promise, one row each. A service whose instances have all ended keeps its row."""

    names: tuple[str, ...]
    promise: Codes
    """Its class, as a place in `Standings.promises`."""
    mode: Codes
    """A place in `MODES`."""
    target: Floats
    availability: Floats
    slack_seconds: Floats
    """The lowest of its instances; infinite if none is left."""
    breaks_in_seconds: Floats
    """How long its promise holds if nothing starts or stops; 0 if it is broken, infinite if it holds."""
    deficit_seconds: Floats
    """By how much its promise is behind; 0 if it is kept."""
    total_seconds: Floats
    """Running and waiting time of its instances."""
    penalty: Floats
    """In seconds of one instance, weighted by the depth of the shortfall."""
    preemption_ratio: Floats
    """The highest of its live instances."""
    startup_seconds: Floats
    """Expected time that a start takes on another node."""
    trend: Floats
    """Change of the availability per second, if nothing starts or stops."""
    running_instances: Rows
    live_instances: Rows
    """Those that run or wait."""
    preemptions: Rows


@dataclass(frozen=True, eq=False, kw_only=True)
class Standings:
    """How all promises stand at one moment."""

    at: float
    promises: tuple[Promise, ...]
    services: ServiceStandings
    instances: InstanceStandings

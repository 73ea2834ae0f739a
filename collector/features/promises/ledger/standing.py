"""How a promise stands: availability, time until it breaks, time that it is behind. One row per instance.

The letters are those of the study: `e` is running time that counts, `d` running time that does not, `p`
waiting time, all summed up since the admission; `O` is the promised availability.
"""

from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from collector.common.arrays import Codes, Flags, Floats, Rows
from collector.features.promises.ledger.promises import Promise, ServiceMode

MODES = tuple(ServiceMode)
"""The modes, in the order of their codes."""
NOWHERE = -1
"""In a column of row numbers: no row."""
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

    Of the `instances` of the service that run or wait, `contributing` keep running meanwhile. The promise
    never breaks if these alone keep it.
    """
    surplus = counted_seconds - target * total_seconds
    loss = instances * target - contributing
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(loss > 0, surplus / loss, np.inf)


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
    """Part of `ran_seconds`: time in which all instances of the service ran."""
    failed_seconds: Floats
    """Part of `ran_seconds`: runs that did not complete."""
    run_seconds: Floats
    """Time since it began to run; 0 while it waits."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ServiceFigures:
    """Columns per service."""

    availability: Floats
    deficit_seconds: Floats
    """Time that the promise is behind; 0 if it is kept."""
    breaks_in_seconds: Floats
    """Time until the promise breaks if nothing starts or stops; 0 if it is broken, infinite if it holds."""
    trend: Floats
    """Change of the availability per second, if nothing starts or stops."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Figures:
    """Figures of instances, in columns, and of services."""

    counted_seconds: Floats
    discarded_seconds: Floats
    availability: Floats
    slack_seconds: Floats
    """Slack before the start-up time is subtracted."""
    is_spare: Flags
    services: ServiceFigures
    total_seconds: Floats
    """Per service, as the next two."""
    running_instances: Rows
    live_instances: Rows


def compute_figures(accounts: Accounts, modes: Codes, targets: Floats) -> Figures:
    """Compute how instances and services stand; `modes` and `targets` have a row per service.

    Withdrawn instances do not count while others of their service are left.
    """
    count, service = len(modes), accounts.service
    live = np.bincount(service[accounts.is_live], minlength=count)
    running = np.bincount(service[accounts.is_running], minlength=count)
    is_spare = (modes == _CONCURRENT)[service] & accounts.is_running & (running < live)[service]
    discarded = _discarded_seconds(accounts, modes)
    each = _InstanceTimes(
        service=service,
        is_live=accounts.is_live,
        is_included=accounts.is_live | accounts.is_completed | (live[service] == 0),
        counted=accounts.ran_seconds - discarded,
        total=accounts.ran_seconds + accounts.waiting_seconds,
        counting=(accounts.is_running & ~is_spare).astype(np.float64),
    )
    sums = each.sums(count)
    is_shared = modes != _INDEPENDENT
    of_sums = _figures_of_sums(sums, live.astype(np.float64), targets)
    of_lowest = _figures_of_lowest(each, targets)
    services = ServiceFigures(
        **{
            each.name: np.where(is_shared, getattr(of_sums, each.name), getattr(of_lowest, each.name))
            for each in fields(ServiceFigures)
        }
    )
    return Figures(
        counted_seconds=each.counted,
        discarded_seconds=discarded,
        availability=np.where(
            is_shared[service], services.availability[service], availability(each.counted, each.total)
        ),
        slack_seconds=_slack_seconds(accounts, modes, targets, each, sums, live=live, running=running),
        is_spare=is_spare,
        services=services,
        total_seconds=sums.total,
        running_instances=running,
        live_instances=live,
    )


def _discarded_seconds(accounts: Accounts, modes: Codes) -> Floats:
    """Running time that does not count: lost batch work, or time in which a sibling waited."""
    mode = modes[accounts.service]
    alone = np.where(mode == _CONCURRENT, accounts.ran_seconds - accounts.concurrent_seconds, 0.0)
    return np.where(mode == _BATCH, accounts.failed_seconds, alone)


class _Sums(NamedTuple):
    """The times of all instances of each service, added up."""

    counted: Floats
    total: Floats
    counting: Floats
    """The number of instances that run and count now."""


@dataclass(frozen=True, eq=False, kw_only=True)
class _InstanceTimes:
    """The times of instances."""

    service: Rows
    is_live: Flags
    is_included: Flags
    """Whether the instance counts for its service."""
    counted: Floats
    total: Floats
    counting: Floats
    """1 if the instance runs and counts now, else 0."""

    def sums(self, count: int) -> _Sums:
        included = self.service[self.is_included]

        def summed(column: Floats) -> Floats:
            return np.bincount(included, column[self.is_included], count).astype(np.float64)

        return _Sums(summed(self.counted), summed(self.total), summed(self.counting))


def _slack_seconds(  # noqa: PLR0913 - the columns that slack depends on
    accounts: Accounts,
    modes: Codes,
    targets: Floats,
    each: _InstanceTimes,
    sums: _Sums,
    *,
    live: Rows,
    running: Rows,
) -> Floats:
    """The slack of each instance if it waits from now on: a batch instance then loses its current run."""
    service, mode = accounts.service, modes[accounts.service]
    is_shared = mode != _INDEPENDENT
    lost = np.where((mode == _BATCH) & accounts.is_running, accounts.run_seconds, 0.0)
    return slack(
        np.where(is_shared, sums.counted[service] - lost, each.counted),
        np.where(is_shared, sums.total[service], each.total),
        targets[service],
        np.where(is_shared, live[service], 1.0),
        np.where(is_shared & (mode != _CONCURRENT), running[service] - accounts.is_running, 0.0),
    )


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


def _figures_of_lowest(each: _InstanceTimes, targets: Floats) -> ServiceFigures:
    """Figures of services whose instances have an account each: the lowest one counts."""
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
    """The node that the instance runs on; empty while it waits."""
    is_running: Flags
    running_seconds: Floats
    """Running time that counts."""
    waiting_seconds: Floats
    discarded_seconds: Floats
    """Running time that does not count: lost batch work, or time in which a sibling waited."""
    availability: Floats
    """The availability of the service, unless its mode is independent."""
    slack_seconds: Floats
    """How long the instance can wait before its promise breaks, less the expected start-up time. Negative if
    the promise is broken: the time that it is behind. Infinite if waiting never breaks it."""
    preemption_ratio: Floats
    preemptions: NDArray[np.int32]
    startup_seconds: Floats
    """Expected time that a start takes on another node."""
    restart_seconds: Floats
    """Expected time that a start takes on the node of the last run."""
    waited_seconds: Floats
    """Time since it began to wait; 0 for one that runs."""
    run_seconds: Floats
    """Time since it began to run; 0 for one that waits."""
    admitted: Floats
    """Unix time at which its first incarnation was created."""
    is_spare: Flags
    """Whether its running time does not count now, because its service is concurrent and a sibling waits."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ServiceStandings(ServiceFigures):
    """Services with a promise, one row each. A service whose instances have all ended keeps its row."""

    names: tuple[str, ...]
    promise: Codes
    """The class of the promise, as an index of `Standings.promises`."""
    mode: Codes
    """A place in `MODES`."""
    target: Floats
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

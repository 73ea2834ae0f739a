"""Which instances are stopped for which, by the thesis' three rules and with the hold, and the settings.

An instance that runs may be stopped for one that waits

1. if it can wait longer than that one, and longer than the margin;
2. if both are below the margin, and the one that waits is more important;
3. if both are below the margin and equally important, and it can wait longer.

An instance that has spent its spare share of time on starts is not stopped for one that is equally or less
important. An instance that was promised all of its time has no such share.
"""

from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from collector.common.arrays import Floats
from collector.decide.policies.interface import STALE_SECONDS, PolicySettings
from collector.features.promises.qos.queue import Instances, Terms
from collector.snapshot.tables import NOWHERE

_YEAR_SECONDS = 366 * 86_400.0


class QueueSettings(PolicySettings, frozen=True):
    """Settings of every policy that passes over the queue."""

    stale_seconds: Annotated[float, Meta(gt=0, le=_YEAR_SECONDS)] = STALE_SECONDS
    """Maximum age of a node's last report for starts and stops on it."""


class QosSettings(QueueSettings, frozen=True):
    """Settings of `qos-driven`."""

    margin_seconds: Annotated[float, Meta(ge=0, le=_YEAR_SECONDS)] = 10.0
    """Safety margin: a container that can wait less than this before its promise breaks is stopped only for
    one that is more important, or that is equally important and more urgent."""
    limits_overhead: bool = True
    """Whether a container whose starts took all the time that its promise leaves (a tenth for a promise of
    0.9) is no longer stopped for others of the same or lower importance."""
    exact: bool = False
    """Whether to use the rules of the study as published: without a minimum wait and run, containers are
    exchanged about every period."""


def levels_of(importance: NDArray[np.int64]) -> tuple[NDArray[np.int8], int]:
    """Return the importance of each instance counted from 0, and the number of levels."""
    values, level = np.unique(importance, return_inverse=True)
    return level.astype(np.int8), max(values.size, 1)


def hold_seconds(
    availability: Floats, startup_seconds: Floats, admitted_seconds: Floats, margin_seconds: float
) -> Floats:
    """Return by how much the slacks of two instances differ before one takes the place of the other.

    An instance with the promise O that runs and waits in turn, with a period L, runs up to O (1 - O) L more
    or less than promised; long periods drive instances of the same class apart. An exchange costs two starts,
    and the margin for each; short periods waste more of the time on that: cost / L. As shares of the
    instance's age T, half of the first and the second add up to the least if it runs up to
    sqrt(2 O (1 - O) cost T) more or less than promised. That is the hold: it grows with the time that a start
    takes and with the age, and is 0 for an instance that may not wait at all.
    """
    cost = 2.0 * (startup_seconds + margin_seconds)
    hold: Floats = np.sqrt(2.0 * availability * (1.0 - availability) * cost * admitted_seconds)
    return hold


def qos_terms(instances: Instances, settings: QosSettings, seed: int = 0) -> Terms:
    """Return the terms of `qos-driven`."""
    slack, spare, promised = instances.slack_seconds, instances.is_spare, instances.availability
    margin_seconds, is_exact = settings.margin_seconds, settings.exact
    level, count = levels_of(instances.importance)
    hold = hold_seconds(promised, instances.startup_seconds, instances.admitted_seconds, margin_seconds)
    hold = np.where(spare | is_exact, 0.0, hold)
    # The slack swings by half of the hold to either side.
    is_safe = slack >= margin_seconds + hold / 2
    limited = promised >= 1.0
    if settings.limits_overhead:
        limited |= instances.preemption_ratio >= 1.0 - promised
    held = slack - hold
    of_waiting = np.arange(count)[:, np.newaxis]
    by_equals = np.where((level == of_waiting) | is_safe, held, -np.inf)
    by_equals[:, limited] = -np.inf
    limits = np.where(level > of_waiting, np.maximum(held, margin_seconds), by_equals)
    limits[:, ~instances.may_stop] = -np.inf
    excess = slack - margin_seconds
    below, above_margin = ~spare & (excess < 0), ~spare & (excess >= 0)
    by_level = level == of_waiting
    sums = [np.where(by_level & below, -excess, 0.0), np.where(above_margin, -excess, 0.0)[np.newaxis]]
    counts = [] if is_exact else [by_level & below, above_margin[np.newaxis]]
    waits = np.flatnonzero(instances.host == NOWHERE)
    return Terms(
        queue=waits[np.lexsort((level[waits], slack[waits]))],
        level=level,
        slack=slack,
        limits=limits,
        order=_ranks(np.where(spare, np.inf, slack), seed),
        costs=np.concatenate([*counts, *sums], dtype=np.float64),
        is_safe=above_margin,
        keeps_order=not is_exact,
        home_after=None if is_exact else count + 1,
    )


def _ranks(values: Floats, seed: int) -> Floats:
    """Return the places of values in rising order, of equals in a random order."""
    ranks = np.empty(values.size)
    ties = np.random.default_rng(seed).permutation(values.size)
    ranks[np.lexsort((ties, values))] = np.arange(values.size)
    return ranks

"""Which instances are stopped for which, by the thesis' three rules, and with the hold.

An instance that runs may be stopped for one that waits

1. if it can wait longer than that one, and longer than the margin;
2. if both are below the margin, and the one that waits is more important;
3. if both are below the margin and equally important, and it can wait longer.

An instance that has spent its spare share of time on starts is not stopped for one that is equally or less
important. An instance that was promised all of its time has no such share.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from collector.common.arrays import Flags, Floats
from collector.features.promises.qos.queue import Instances, Terms
from collector.snapshot.tables import NOWHERE


@dataclass(frozen=True, eq=False, kw_only=True)
class Standing:
    """How the promises of instances stand: one row per instance."""

    importance: NDArray[np.int64]
    """1 is the most important."""
    availability: Floats
    """What it is promised."""
    slack_seconds: Floats
    preemption_ratio: Floats
    startup_seconds: Floats
    admitted_seconds: Floats
    is_spare: Flags
    """Whether it runs without effect: it is stopped first, at no cost."""
    may_stop: Flags
    """Whether it may be stopped at all; if it waits, whether it may lose a host that it got in this pass."""
    may_start: Flags
    """Whether it may start, if it waits."""


def levels_of(importance: NDArray[np.int64]) -> tuple[NDArray[np.int8], int]:
    """Return the importance of each instance counted from 0, and the number of levels."""
    values, level = np.unique(importance, return_inverse=True)
    return level.astype(np.int8), max(values.size, 1)


def hold_seconds(standing: Standing, margin_seconds: float) -> Floats:
    """Return by how much the slacks of two instances differ before one takes the place of the other.

    An instance with the promise O that runs and waits in turn, with a period L, runs up to O (1 - O) L more
    or less than promised; long periods drive instances of the same class apart. An exchange costs two starts,
    and the margin for each; short periods waste more of the time on that: cost / L. As shares of the
    instance's age T, half of the first and the second add up to the least if it runs up to
    sqrt(2 O (1 - O) cost T) more or less than promised. That is the hold: it grows with the time that a start
    takes and with the age, and is 0 for an instance that may not wait at all.
    """
    cost = 2.0 * (standing.startup_seconds + margin_seconds)
    share = standing.availability * (1.0 - standing.availability)
    hold: Floats = np.sqrt(2.0 * share * cost * standing.admitted_seconds)
    return hold


def qos_terms(  # noqa: PLR0913 - two tables and the settings
    instances: Instances,
    standing: Standing,
    *,
    margin_seconds: float,
    limits_overhead: bool = True,
    is_exact: bool = False,
    seed: int = 0,
) -> Terms:
    """Return the terms of `qos-driven`. `is_exact`: by the thesis' rules, without the hold."""
    slack = standing.slack_seconds
    level, count = levels_of(standing.importance)
    hold = np.zeros_like(slack)
    if not is_exact:
        hold = np.where(standing.is_spare, 0.0, hold_seconds(standing, margin_seconds))
    # The slack swings by half of the hold to either side.
    is_safe = slack >= margin_seconds + hold / 2
    limited = standing.availability >= 1.0
    if limits_overhead:
        limited |= standing.preemption_ratio >= 1.0 - standing.availability
    held = slack - hold
    of_waiting = np.arange(count)[:, np.newaxis]
    by_equals = np.where((level == of_waiting) | is_safe, held, -np.inf)
    by_equals[:, limited] = -np.inf
    limits = np.where(level > of_waiting, np.maximum(held, margin_seconds), by_equals)
    limits[:, ~standing.may_stop] = -np.inf
    excess = slack - margin_seconds
    spare = standing.is_spare
    below, above_margin = ~spare & (excess < 0), ~spare & (excess >= 0)
    by_level = level == of_waiting
    sums = [np.where(by_level & below, -excess, 0.0), np.where(above_margin, -excess, 0.0)[np.newaxis]]
    counts = [] if is_exact else [by_level & below, above_margin[np.newaxis]]
    waits = np.flatnonzero((instances.host == NOWHERE) & standing.may_start)
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

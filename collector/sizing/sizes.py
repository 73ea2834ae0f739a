"""The requests and limits of all services, from their usage by day.

The budget of each resource is what VPA would reserve for the same services, bounded by limits that were never
reached, times a setting below 1. How fast the past loses its weight, and how far use spreads, is learned by
leaving the last days out, and by how the resulting sizes would have done on them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import inf

import numpy as np

from collector.analysis.histograms import Floats
from collector.sizing import vpa
from collector.sizing.allocation import Demand, SizeAllocation, Tuning, allocate, idle_use
from collector.sizing.usage_table import ResourceDays, UsageTable

CPU, MEMORY = 0, 1
PLACES = (CPU, MEMORY)
_SETTLED_DAYS = 2.0
"""Before, no percentile of memory is known, and the peak takes its place."""
_FEWEST_CUTS = 3
"""One day that was left out says little of the next."""
_MOST_CUTS = 6
_HALF_LIVES = (1.0, 3.0, inf)
_SPREADS = (0.05, 0.1, 0.2)
_SAMPLE = 500
"""Services that the tuning is learned from, if there are more."""
_MOST_RATIO = 2.0
_SMALLEST = (vpa.MIN_CPU_CORES, vpa.MIN_MEMORY_BYTES)
"""No size is more than twice the peak; of a service that hardly uses anything, twice VPA's smallest size."""
_GROWTH_SHARE = 0.99
_UNKNOWN_GROWTH = 1.5
"""Peaks grow by this much where the days are too few to learn it."""


@dataclass(frozen=True, slots=True)
class SizeRules:
    """The settings."""

    percentiles: tuple[float, float] = (0.90, 0.99)
    """No request is below this percentile of use; per resource."""
    reserve_ratio: float = 0.95
    """All requests together, relative to those of VPA within present limits."""
    oom_raise_ratio: float = 1.2
    """Memory after an out-of-memory kill, relative to what the container had."""


@dataclass(frozen=True, eq=False, slots=True)
class ResourceSizes:
    """One resource, one row per service; NaN where it was not measured."""

    request: Floats
    limit: Floats
    above: Floats
    """The share of time that use is expected above the request."""
    used: Floats
    """Mean use."""
    peak: Floats
    vpa: Floats
    """What VPA would request."""
    price: float
    tuning: Tuning


def size_services(
    table: UsageTable,
    limits: Floats,
    out_of_memory: Floats,
    rules: SizeRules,
    tunings: Sequence[Tuning | None] = (None, None),
) -> tuple[ResourceSizes, ResourceSizes]:
    """The sizes of CPU and memory; `limits` has two columns, NaN without one.

    `out_of_memory` is the most memory that a killed container of each service had; NaN without a kill. A
    tuning that is None is learned.
    """
    cpu, memory = (_size(table, place, limits, out_of_memory, rules, tunings[place]) for place in PLACES)
    return cpu, memory


def _size(  # noqa: PLR0913, PLR0917 - of this module only
    table: UsageTable,
    place: int,
    limits: Floats,
    out_of_memory: Floats,
    rules: SizeRules,
    tuning: Tuning | None,
) -> ResourceSizes:
    usage = table.resource(place)
    limit = limits[:, place].copy()
    if place == MEMORY:
        # A limit at which it was killed bounds nothing.
        limit[~np.isnan(out_of_memory)] = np.nan
    tuning = learn(usage, place, limit, table.observed_days, rules) if tuning is None else tuning
    demand = demand_of(usage, place, limit, table.observed_days, rules, tuning)
    targets = vpa_targets(usage, place)
    found = allocate_within(demand, targets, rules, tuning)
    times = usage.weighted(np.ones(usage.days))
    peak = usage.edges[times.highest()]
    request = found.sizes
    idle = idle_use(times)
    ceiling = np.maximum(request, np.minimum((peak + idle) * growth(usage, idle), demand.most))
    if place == MEMORY:
        raised = np.nan_to_num(out_of_memory * rules.oom_raise_ratio, nan=0.0)
        request, ceiling = np.maximum(request, raised), np.maximum(ceiling, raised)
    is_known = times.total > 0
    request, ceiling, above, used, peak, targets = (
        np.where(is_known, each, np.nan)
        for each in (request, ceiling, found.above, times.mean, peak, targets)
    )
    return ResourceSizes(request, ceiling, above, used, peak, targets, found.price, tuning)


def demand_of(  # noqa: PLR0913, PLR0917 - all that a demand depends on
    usage: ResourceDays,
    place: int,
    limit: Floats,
    observed_days: Floats,
    rules: SizeRules,
    tuning: Tuning,
    until: int | None = None,
) -> Demand:
    """The demand as of a day: those from `until` on are left out."""
    until = usage.days if until is None else until
    weights = np.zeros(usage.days)
    weights[:until] = tuning.weights(until)
    times = usage.weighted(weights)
    share = np.full(usage.services, rules.percentiles[place])
    if place == MEMORY:
        share[np.minimum(observed_days, until) < _SETTLED_DAYS] = 1.0
    highest = usage.edges[times.highest()]
    most = _MOST_RATIO * np.maximum(highest, _SMALLEST[place])
    with np.errstate(invalid="ignore"):
        most = np.where(highest < limit, np.minimum(limit, most), most)
    return Demand(times, times.percentile(share), most)


def allocate_within(demand: Demand, targets: Floats, rules: SizeRules, tuning: Tuning) -> SizeAllocation:
    """The sizes of all services, within the budget that VPA's targets give."""
    is_known = demand.times.total > 0
    reserve = np.minimum(targets, demand.most)[is_known].sum()
    return allocate(demand, tuning.spread, rules.reserve_ratio * float(reserve))


def vpa_targets(usage: ResourceDays, place: int, until: int | None = None) -> Floats:
    """What VPA would request for each service as of a day; 0 where it has no samples."""
    until = usage.days if until is None else until
    ages = np.arange(until, dtype=np.float64)[::-1]
    targets = np.zeros(usage.services)
    if place == CPU:
        weights = np.zeros(usage.days)
        weights[:until] = vpa.decay(ages)
        times = usage.weighted(weights)
        for row in np.flatnonzero(times.total > 0).tolist():
            targets[row] = vpa.recommend_cpu(times.edges, times.seconds[row], until).target
        return targets
    peaks = usage.peaks()[:, :until]
    recent = ages < vpa.MEMORY_DAYS
    for row in range(usage.services):
        known = recent & ~np.isnan(peaks[row])
        if known.any():
            targets[row] = vpa.recommend_memory(peaks[row, known], vpa.decay(ages[known]), until).target
    return targets


def learn(usage: ResourceDays, place: int, limit: Floats, observed_days: Floats, rules: SizeRules) -> Tuning:
    """The tuning that leaves the least time above the request on days that were left out.

    All candidates have the same budget, so they differ in nothing else.
    """
    if len(_cuts(usage.days)) < _FEWEST_CUTS:
        return Tuning()
    if usage.services > _SAMPLE:
        rows = np.unique(np.linspace(0, usage.services - 1, _SAMPLE).astype(np.intp))
        usage, limit, observed_days = usage.rows(rows), limit[rows], observed_days[rows]
    candidates = [Tuning(half_life, spread) for half_life, spread in product(_HALF_LIVES, _SPREADS)]
    above: dict[Tuning, list[float]] = {each: [] for each in candidates}
    for cut in _cuts(usage.days):
        targets = vpa_targets(usage, place, cut)
        later = usage.weighted((np.arange(usage.days) >= cut).astype(np.float64))
        for tuning in candidates:
            demand = demand_of(usage, place, limit, observed_days, rules, tuning, cut)
            sizes = allocate_within(demand, targets, rules, tuning).sizes
            known = demand.times.total > 0
            above[tuning].append(time_above(later.seconds[known], later.edges, sizes[known]))
    # A few days prove little: only what is never worse than the default takes its place.
    usual = above[Tuning()]
    proven = [
        tuning
        for tuning in candidates
        if all(one <= other for one, other in zip(above[tuning], usual, strict=True))
    ]
    return min(proven, key=lambda tuning: (sum(above[tuning]), tuning != Tuning()))


def _cuts(days: int) -> range:
    """The first days that are left out."""
    return range(max(round(_SETTLED_DAYS), days - _MOST_CUTS), days)


def time_above(seconds: Floats, edges: Floats, sizes: Floats) -> float:
    """The share of all time in which use is above the size."""
    exceeds = edges[None, :] > sizes[:, None] * (1 + 1e-9)
    return float((seconds * exceeds).sum() / max(float(seconds.sum()), 1e-9))


def growth(usage: ResourceDays, idle: float) -> float:
    """How much higher the peak of later days is than that of the days before, for almost all services.

    To the peak before, the use is added that any service may begin with.
    """
    if not _cuts(usage.days):
        return _UNKNOWN_GROWTH
    peaks = np.nan_to_num(usage.peaks(), nan=0.0)
    ratios = []
    for cut in _cuts(usage.days):
        before, after = peaks[:, :cut].max(axis=1), peaks[:, cut:].max(axis=1)
        ratios.append(after[before > 0] / (before[before > 0] + idle))
    every = np.concatenate(ratios)
    return max(1.0, float(np.quantile(every, _GROWTH_SHARE))) if every.size else _UNKNOWN_GROWTH

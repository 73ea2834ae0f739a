"""The requests and limits of all services, from their usage by day.

The budget of each resource is a share of what VPA would reserve for the same services, bounded by limits that
were never reached. The weight of past days and the spread of usage are learned: the sizes without the last
days are compared with the usage on these days.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import inf

import msgspec
import numpy as np

from collector.common.arrays import Floats
from collector.config import EnvelopeConfig
from collector.features.sizing import vpa
from collector.features.sizing.allocation import Demand, Tuning, allocate, idle_use
from collector.features.sizing.settings import SizingConfig
from collector.features.sizing.usage_table import ResourceDays, UsageTable

CPU, MEMORY = 0, 1
PLACES = (CPU, MEMORY)
_SETTLED_DAYS = 2.0
"""With fewer days, the peak of memory takes the place of its percentile."""
_FEWEST_CUTS = 3
"""Fewest days to leave out, one after the other: a single day says little about the next."""
_MOST_CUTS = 6
_HALF_LIVES = (1.0, 3.0, inf)
_SPREADS = (0.05, 0.1, 0.2)
_SAMPLE = 500
"""Most services that the tuning is learned from."""
_MOST_RATIO = 2.0
_SMALLEST = (vpa.MIN_CPU_CORES, vpa.MIN_MEMORY_BYTES)
"""No size is more than twice the peak, or than twice VPA's smallest size if that is higher."""
_GROWTH_SHARE = 0.99
_OOM_RAISE_RATIO = 1.2
"""Memory after an out-of-memory kill, relative to the memory that the container had."""
_UNKNOWN_GROWTH = 1.5
"""Assumed growth of peaks while the days are too few to learn it."""


class SizeRules(msgspec.Struct, frozen=True):
    """Settings of sizing."""

    envelopes: EnvelopeConfig = EnvelopeConfig()
    """No request is below these percentiles of usage."""
    reserve_ratio: float = SizingConfig().reserve_ratio
    """All requests together, relative to those of VPA within current limits."""


@dataclass(frozen=True, eq=False, slots=True)
class ResourceSizes:
    """The sizes of one resource, one row per service; NaN where it was not measured."""

    request: Floats
    limit: Floats
    above: Floats
    """Expected share of the time in which usage is above the request."""
    used: Floats
    """Mean usage."""
    peak: Floats
    vpa: Floats
    """The request of VPA."""
    tuning: Tuning


def size_services(
    table: UsageTable,
    limits: Floats,
    out_of_memory: Floats,
    rules: SizeRules,
    tunings: Sequence[Tuning | None] = (None, None),
) -> tuple[ResourceSizes, ResourceSizes]:
    """The sizes of CPU and memory. `limits` has a column for each; NaN means no limit.

    `out_of_memory` is the most memory that a killed container of each service had; NaN without a kill. A
    tuning is learned if it is None.
    """
    # A limit at which a container was killed is too low to be a bound.
    bounds = limits[:, CPU], np.where(np.isnan(out_of_memory), limits[:, MEMORY], np.nan)
    raised = np.zeros(len(table.names)), np.nan_to_num(out_of_memory * _OOM_RAISE_RATIO, nan=0.0)
    cpu, memory = (
        Sizer(table.resource(place), place, bounds[place], table.observed_days, rules).sizes(
            tunings[place], raised[place]
        )
        for place in PLACES
    )
    return cpu, memory


@dataclass(frozen=True, eq=False, slots=True)
class Sizer:
    """Sizes one resource of all services. Methods leave out the days from `until` on."""

    usage: ResourceDays
    place: int
    limit: Floats
    observed_days: Floats
    rules: SizeRules

    def sizes(self, tuning: Tuning | None, raised: Floats) -> ResourceSizes:
        """The sizes of all services, at least as high as `raised`."""
        usage = self.usage
        tuning = self.learn_tuning() if tuning is None else tuning
        demand, targets = self._demand(tuning, usage.days), self._vpa_targets(usage.days)
        sizes, above = self._allocate(demand, targets, tuning)
        times = usage.weighted(np.ones(usage.days))
        peak = usage.edges[times.highest()]
        idle = idle_use(times)
        growth = estimate_peak_growth(usage, idle)
        ceiling = np.maximum(sizes, np.minimum((peak + idle) * growth, demand.most))
        request, limit, above, used, peak, targets = (
            np.where(times.total > 0, each, np.nan)
            for each in (
                np.maximum(sizes, raised),
                np.maximum(ceiling, raised),
                above,
                times.mean,
                peak,
                targets,
            )
        )
        return ResourceSizes(request, limit, above, used, peak, targets, tuning)

    def _demand(self, tuning: Tuning, until: int) -> Demand:
        usage = self.usage
        times = usage.weighted(tuning.weights(until))
        envelopes = self.rules.envelopes
        share = np.full(usage.services, envelopes.memory if self.place == MEMORY else envelopes.cpu)
        if self.place == MEMORY:
            share[np.minimum(self.observed_days, until) < _SETTLED_DAYS] = 1.0
        highest = usage.edges[times.highest()]
        most = _MOST_RATIO * np.maximum(highest, _SMALLEST[self.place])
        with np.errstate(invalid="ignore"):
            most = np.where(highest < self.limit, np.minimum(self.limit, most), most)
        return Demand(times, times.percentile(share), most)

    def _allocate(self, demand: Demand, targets: Floats, tuning: Tuning) -> tuple[Floats, Floats]:
        """The sizes of all services and the time above, within the budget that follows from VPA's targets."""
        reserve = np.minimum(targets, demand.most)[demand.times.total > 0].sum()
        return allocate(demand, tuning.spread, self.rules.reserve_ratio * float(reserve))

    def _vpa_targets(self, until: int) -> Floats:
        """The requests of VPA for each service; 0 for a service without samples."""
        usage, ages = self.usage, np.arange(until, dtype=np.float64)[::-1]
        targets = np.zeros(usage.services)
        if self.place == CPU:
            times = usage.weighted(vpa.decay(ages))
            for row in np.flatnonzero(times.total > 0).tolist():
                targets[row] = vpa.recommend_cpu(times.edges, times.seconds[row])
            return targets
        peaks = usage.peaks()[:, :until]
        recent = ages < vpa.MEMORY_DAYS
        for row in range(usage.services):
            known = recent & ~np.isnan(peaks[row])
            if known.any():
                targets[row] = vpa.recommend_memory(peaks[row, known], vpa.decay(ages[known]))
        return targets

    def learn_tuning(self) -> Tuning:
        """The tuning with the least time above the request on days that were left out.

        All candidates have the same budget, so they are comparable.
        """
        usage = self.usage
        if len(_cuts(usage.days)) < _FEWEST_CUTS:
            return Tuning()
        if usage.services > _SAMPLE:
            rows = np.unique(np.linspace(0, usage.services - 1, _SAMPLE).astype(np.intp))
            return replace(
                self, usage=usage.rows(rows), limit=self.limit[rows], observed_days=self.observed_days[rows]
            ).learn_tuning()
        candidates = [Tuning(half_life, spread) for half_life, spread in product(_HALF_LIVES, _SPREADS)]
        above: dict[Tuning, list[float]] = {each: [] for each in candidates}
        for cut in _cuts(usage.days):
            targets = self._vpa_targets(cut)
            later = usage.weighted((np.arange(usage.days) >= cut).astype(np.float64))
            for tuning in candidates:
                demand = self._demand(tuning, cut)
                sizes, _ = self._allocate(demand, targets, tuning)
                known = demand.times.total > 0
                above[tuning].append(_time_above(later.seconds[known], later.edges, sizes[known]))
        # A few days prove little: only a tuning that is never worse replaces the default.
        default = above[Tuning()]
        proven = [
            tuning
            for tuning in candidates
            if all(one <= other for one, other in zip(above[tuning], default, strict=True))
        ]
        return min(proven, key=lambda tuning: (sum(above[tuning]), tuning != Tuning()))


def _cuts(days: int) -> range:
    """The days from which on days are left out, one after the other."""
    return range(max(round(_SETTLED_DAYS), days - _MOST_CUTS), days)


def _time_above(seconds: Floats, edges: Floats, sizes: Floats) -> float:
    """The share of all time in which usage is above the size."""
    exceeds = edges[None, :] > sizes[:, None] * (1 + 1e-9)
    return float((seconds * exceeds).sum() / max(float(seconds.sum()), 1e-9))


def estimate_peak_growth(usage: ResourceDays, idle: float) -> float:
    """The growth of the peak from past to later days that almost no service exceeds.

    `idle` is added to the past peak: the usage that an idle service may begin with.
    """
    if not _cuts(usage.days):
        return _UNKNOWN_GROWTH
    peaks = np.nan_to_num(usage.peaks(), nan=0.0)
    ratios = []
    for cut in _cuts(usage.days):
        before, after = peaks[:, :cut].max(axis=1), peaks[:, cut:].max(axis=1)
        ratios.append(after[before > 0] / (before[before > 0] + idle))
    known = np.concatenate(ratios)
    return max(1.0, float(np.quantile(known, _GROWTH_SHARE))) if known.size else _UNKNOWN_GROWTH

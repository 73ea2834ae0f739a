"""The daily usage of many services as arrays: one row per service, one column per bin of a resource."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from collector.analysis.histograms import BIN_BITS, ROW_BITS, VALUES, stack
from collector.common.arrays import Flags, Floats, Numbers, Rows
from collector.features.sizing.daily import DAY_SECONDS, UsageSum
from wire.sketch import RELATIVE_ERROR

_BIN_MASK = (1 << BIN_BITS) - 1
_KEY_MASK = (1 << ROW_BITS) - 1
_PLACES = 1 << (ROW_BITS - BIN_BITS)
_EDGES: Floats = VALUES / (1 - RELATIVE_ERROR)
"""The upper end of each bin: no sample in it is higher."""
_ZERO = int(np.flatnonzero(VALUES)[0]) - 1
_RANGES = ((1e-6, 1e6), (4096.0, 2.0**63))
"""Range of CPU usage in cores, and of memory usage in bytes. Nodes can report any value, and each bin between
the lowest and the highest usage of any service takes time and memory for all services."""
_HEADROOM = 8.0
"""The largest size, relative to the highest usage of any service."""


@dataclass(frozen=True, eq=False, slots=True)
class UsageTimes:
    """Container time per service and bin."""

    edges: Floats
    """The value of each bin, ascending; the first is 0."""
    seconds: Floats
    """One row per service."""

    @property
    def total(self) -> Floats:
        total: Floats = self.seconds.sum(axis=1)
        return total

    @property
    def mean(self) -> Floats:
        """The mean usage of each service; 0 without any time."""
        mean: Floats = (self.seconds @ self.edges) / np.maximum(self.total, 1e-9)
        return mean

    def percentile(self, share: float | Floats) -> Rows:
        """The bin of this percentile, per service; the first bin without any time."""
        total = self.total[:, None]
        below = np.where(total > 0, np.cumsum(self.seconds, axis=1) / np.maximum(total, 1e-9), 1.0)
        found: Rows = (below >= np.reshape(share, (-1, 1)) - 1e-9).argmax(axis=1)
        return found

    def highest(self) -> Rows:
        """The highest bin with any time, per service; the first bin without any time."""
        used = self.seconds > 0
        last: Rows = np.where(used.any(axis=1), used.shape[1] - 1 - used[:, ::-1].argmax(axis=1), 0)
        return last


@dataclass(frozen=True, eq=False)
class ResourceDays:
    """One resource of all services: time per service, day and bin, without empty bins."""

    services: int
    days: int
    cell: Numbers
    """Per entry: the service times `days`, plus the day from the oldest."""
    bin: Numbers
    seconds: Floats
    edges: Floats

    def weighted(self, weights: Floats) -> UsageTimes:
        """The sum of all days with these weights, from the oldest day; days without a weight do not count."""
        service, day = np.divmod(self.cell, self.days)
        weighed = self.seconds * np.pad(weights, (0, self.days - weights.size))[day]
        sums: Floats = np.bincount(
            service * self.edges.size + self.bin, weights=weighed, minlength=self.services * self.edges.size
        ).astype(np.float64, copy=False)
        return UsageTimes(self.edges, sums.reshape(self.services, self.edges.size))

    def peaks(self) -> Floats:
        """The highest usage of each service on each day; NaN without any."""
        highest = np.full(self.services * self.days, -1, dtype=np.int64)
        np.maximum.at(highest, self.cell, self.bin)
        values = np.where(highest >= 0, self.edges[highest], np.nan)
        return values.reshape(self.services, self.days)

    def rows(self, services: Rows) -> "ResourceDays":
        kept, cell = _renumber(self.cell, self.days, self.services, services)
        return ResourceDays(services.size, self.days, cell, self.bin[kept], self.seconds[kept], self.edges)


@dataclass(frozen=True, eq=False)
class UsageTable:
    """The daily usage of services, up to the same last day."""

    names: tuple[str, ...]
    days: int
    """From the first day of any service to the last."""
    observed_days: Floats
    """How long each service was observed."""
    _keys: Numbers
    _seconds: Floats

    @classmethod
    def of(cls, services: Mapping[str, Mapping[int, UsageSum]]) -> "UsageTable":
        """Create a table from the usage of each service by day."""
        names = tuple(sorted(name for name, days in services.items() if days))
        every = {day for name in names for day in services[name]}
        first, last = min(every, default=0), max(every, default=-1)
        days = last - first + 1
        packed, rows = [], []
        for row, name in enumerate(names):
            for day, total in services[name].items():
                packed.append(total.packed)
                rows.append(row * days + day - first)
        keys, counts, _ = stack(packed, rows)
        observed = [sum(total.seconds for total in services[name].values()) / DAY_SECONDS for name in names]
        return cls(names, days, np.array(observed, dtype=np.float64), keys, counts.astype(np.float64))

    def only(self, services: Rows) -> "UsageTable":
        kept, cell = _renumber(self._keys >> ROW_BITS, self.days, len(self.names), services)
        keys = (cell << ROW_BITS) + (self._keys[kept] & _KEY_MASK)
        names = tuple(self.names[row] for row in services.tolist())
        return UsageTable(names, self.days, self.observed_days[services], keys, self._seconds[kept])

    def resource(self, place: int) -> ResourceDays:
        """The usage of one resource, by its index in `RESOURCES`."""
        of = (self._keys >> BIN_BITS) % _PLACES == place
        keys, seconds = self._keys[of], self._seconds[of]
        bins = _within(keys & _BIN_MASK, *_RANGES[place])
        used = bins[bins > _ZERO]
        low = int(used.min()) if used.size else _ZERO + 1
        high = int(used.max()) if used.size else _ZERO + 1
        above = int(np.searchsorted(_EDGES[high:], _EDGES[high] * _HEADROOM))
        edges = np.concatenate(([0.0], _EDGES[low : min(high + above + 1, _EDGES.size)]))
        edges = edges[: 1 + int(np.count_nonzero(edges[1:]))]
        return ResourceDays(
            services=len(self.names),
            days=self.days,
            cell=keys >> ROW_BITS,
            bin=np.where(bins > _ZERO, bins - low + 1, 0),
            seconds=seconds,
            edges=edges,
        )


def _renumber(cell: Numbers, days: int, services: int, chosen: Rows) -> tuple[Flags, Numbers]:
    """Which cells belong to the chosen services, and these cells, for a table of only these services."""
    place = np.full(services, -1, dtype=np.int64)
    place[chosen] = np.arange(chosen.size)
    service, day = np.divmod(cell, days)
    kept = place[service] >= 0
    return kept, place[service[kept]] * days + day[kept]


def _within(bins: Numbers, lowest: float, highest: float) -> Numbers:
    """The bins within a range of usage: lower usage becomes 0, higher usage becomes the highest."""
    used = VALUES[_ZERO + 1 :]
    used = used[: np.count_nonzero(used)]
    first, last = _ZERO + 1 + np.searchsorted(used, (lowest, highest))
    return np.where(bins < first, _ZERO, np.minimum(bins, last))

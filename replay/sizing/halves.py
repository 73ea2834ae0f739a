"""A recorded workload in two halves: usage by day to learn from, as a collector has it, and later samples."""

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np

from collector.analysis.histograms import ROW_BITS, pack, sample_keys, sum_by_key
from collector.common.arrays import Flags, Floats, Numbers, Rows
from collector.sizing import vpa
from collector.sizing.daily import DAY_SECONDS, UsageSum
from collector.sizing.sizes import CPU, MEMORY, PLACES
from collector.sizing.usage_table import UsageTable
from replay.setup.workload import Recorded, Workload
from wire.errors import UserError


@dataclass(frozen=True, eq=False, slots=True)
class Samples:
    """Samples of containers, one row each, in the order of containers and time."""

    service: Rows
    """The row of the service."""
    container: Rows
    seconds: Floats
    """Since the beginning of the trace."""
    used: Floats
    """One column per known resource with a size."""


@dataclass(frozen=True, eq=False, slots=True)
class Halves:
    """The two halves of a workload, for the services that ran in the first."""

    names: tuple[str, ...]
    given: Floats
    """The largest reservation of a container of each, per resource; NaN without one."""
    resources: int
    """Number of known resources: CPU, or CPU and memory."""
    learned_days: float
    scored_days: float
    first: Samples
    second: Samples
    table: UsageTable
    """The days of the first half that a collector keeps."""

    def only(self, services: Rows) -> "Halves":
        """The halves of some of the services, as if there were no others."""
        place = np.full(len(self.names), -1)
        place[services] = np.arange(services.size)
        first, second = (
            _rows(_renumbered(each, place), place[each.service] >= 0) for each in (self.first, self.second)
        )
        return replace(
            self,
            names=tuple(self.names[row] for row in services.tolist()),
            given=self.given[services],
            first=first,
            second=second,
            table=self.table.only(services),
        )


def split(workload: Workload, keep_days: int) -> Halves:
    """Split a workload in the middle; a collector keeps the last `keep_days` days of the first half."""
    use = workload.use
    if not isinstance(use, Recorded):
        raise UserError("this trace has no usage, which sizes depend on: give a trace of another format")
    total = float((use.first_step + use.steps).max(initial=0)) * use.step_seconds
    middle = total / 2
    names, of = np.unique(np.array(workload.services), return_inverse=True)
    samples = _samples(use, of)
    early = samples.seconds < middle
    first, second = _rows(samples, early), _rows(samples, ~early)
    sized = np.isin(np.arange(names.size), first.service)
    if not sized.any():
        raise UserError("no service runs in the first half of this trace: give a longer one")
    place = np.cumsum(sized) - 1
    first, second = (_rows(_renumbered(each, place), sized[each.service]) for each in (first, second))
    if not second.service.size:
        raise UserError(
            "no service of the first half of this trace runs in the second half: give a longer one"
        )
    kept = _rows(first, first.seconds // DAY_SECONDS > (middle - 1e-6) // DAY_SECONDS - keep_days)
    wanted = tuple(str(name) for name in names[sized])
    given = np.full((names.size, len(PLACES)), np.nan)
    np.fmax.at(given, of, workload.requested[:, : len(PLACES)])
    table = UsageTable.of(_usage_by_day(kept, wanted, use.step_seconds))
    return Halves(
        names=wanted,
        given=given[sized],
        resources=min(use.resources, len(PLACES)),
        learned_days=middle / DAY_SECONDS,
        scored_days=(total - middle) / DAY_SECONDS,
        first=first,
        second=second,
        table=table,
    )


def _samples(use: Recorded, service: Rows) -> Samples:
    container = np.repeat(np.arange(use.steps.size), use.steps)
    begin = np.concatenate(([0], np.cumsum(use.steps)[:-1]))
    step = np.arange(container.size) - begin[container]
    rows = use.start[container] + step
    return Samples(
        service=service[container],
        container=container,
        seconds=(use.first_step[container] + step).astype(np.float64) * use.step_seconds,
        used=use.values[rows, : len(PLACES)].astype(np.float64),
    )


def _rows(samples: Samples, which: Flags) -> Samples:
    return Samples(
        samples.service[which], samples.container[which], samples.seconds[which], samples.used[which]
    )


def _renumbered(samples: Samples, place: Numbers) -> Samples:
    return Samples(place[samples.service], samples.container, samples.seconds, samples.used)


def _usage_by_day(
    samples: Samples, names: tuple[str, ...], step_seconds: float
) -> dict[str, dict[int, UsageSum]]:
    day = (samples.seconds // DAY_SECONDS).astype(np.int64)
    days = int(day.max(initial=0)) + 1
    cell = samples.service * days + day
    keys = np.concatenate(
        [
            (cell << ROW_BITS) + sample_keys(samples.used[:, place], place)
            for place in range(samples.used.shape[1])
        ]
    )
    counts = np.full(keys.size, max(1, round(step_seconds)), dtype=np.int64)
    packed = pack(*sum_by_key(keys, counts), len(names) * days)
    per_container, number = np.unique(np.column_stack((samples.container, cell)), axis=0, return_counts=True)
    observed = np.zeros(len(names) * days)
    np.maximum.at(observed, per_container[:, 1], number * step_seconds)
    found: defaultdict[str, dict[int, UsageSum]] = defaultdict(dict)
    for place in np.unique(cell).tolist():
        service, at = divmod(place, days)
        found[names[service]][at] = UsageSum(packed[place], float(observed[place]))
    return found


def vpa_requests(halves: Halves, percentile: float = vpa.PERCENTILE) -> Floats:
    """The requests of VPA after the first half, from every sample: columns of CPU and memory."""
    first = halves.first
    middle = halves.learned_days
    requests = np.full((len(halves.names), len(PLACES)), np.nan)
    order = np.argsort(first.service, kind="stable")
    ends = np.searchsorted(first.service[order], np.arange(len(halves.names) + 1))
    ages = middle - first.seconds / DAY_SECONDS
    for row in range(len(halves.names)):
        own = order[ends[row] : ends[row + 1]]
        requests[row, CPU] = vpa.recommend_cpu(first.used[own, CPU], vpa.decay(ages[own]), percentile)
        if halves.resources > MEMORY:
            peaks, peak_ages = _daily_peaks(first, own, middle)
            requests[row, MEMORY] = vpa.recommend_memory(peaks, vpa.decay(peak_ages), percentile)
    return requests


def _daily_peaks(first: Samples, own: Rows, middle: float) -> tuple[Floats, Floats]:
    """The peaks of 24 hours each from the start of a container, and the ages of their ends in days."""
    peaks: list[float] = []
    ages: list[float] = []
    container = first.container[own]
    for each in np.unique(container).tolist():
        rows = own[container == each]
        start = float(first.seconds[rows].min())
        window = ((first.seconds[rows] - start) // DAY_SECONDS).astype(np.int64)
        for number in np.unique(window).tolist():
            age = middle - (start / DAY_SECONDS + number + 1)
            if age < vpa.MEMORY_DAYS:
                peaks.append(float(first.used[rows[window == number], MEMORY].max()))
                ages.append(age)
    return np.array(peaks), np.array(ages)

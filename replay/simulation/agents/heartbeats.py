"""Plain heartbeats of many hosts at once: the reports that the agents' reporters would make, in less time.

With a trace of five-minute steps, nearly all reports are heartbeats of hosts without an alert, on which no
container started, ended or changed its limits, and whose windows have one sample. Such a report contains only
the values of that sample, so it is made from columns. All other reports come from the real reporter.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import log

import msgspec
import numpy as np

from agent.config import ReportingConfig
from agent.reporting.messages import NODE_WIDTH, node_state, node_values
from agent.reporting.usage import TOP_CONTAINERS
from agent.reporting.windows import Mean
from agent.sampling.node_sample import NodeSample
from collector.common.arrays import Floats
from replay.simulation.agents.samples import NO_PRESSURE, RUNTIME, PlainHost
from wire.messages import ContainerState, ContainerUsage, Heartbeat, Report
from wire.resources import RESOURCES, Quantities, Resource
from wire.sketch import FLOORS, LOWEST_BIN, RELATIVE_ERROR, Sketch, bin_of
from wire.version import __version__

_MEMORY = 1
_LOG_GAMMA = log((1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR))
_ZERO = LOWEST_BIN - 1
"""Stands for the bin of a sample that counts as zero."""
_NEAR = 1e-6
"""The agents' own function decides the bin of a value that is this close to an edge."""
_DIGITS = 6
"""Significant digits of the numbers in reports."""
_TENS = np.array([float(10**power) for power in range(23)])
"""The powers of ten that are exact as floating-point numbers."""


@dataclass(frozen=True, slots=True)
class SampledColumns:
    """The containers of one sample, as reports have them: all hosts, one entry per container."""

    used: Sequence[Quantities]
    """Means of windows with this sample only."""
    usage: Sequence[tuple[Sketch | None, ...]]
    minus_totals: Sequence[list[float] | None]
    """Usage times time, per resource, as negative numbers, so that the highest comes first."""
    cpu_seconds_total: Sequence[float]

    @classmethod
    def of(cls, used: Floats, seconds: Floats, known: Sequence[bool], cpu: Floats) -> "SampledColumns":
        """Create columns from the usage of containers; `seconds` is the interval of each sample."""
        used = used.copy()
        used[:, _MEMORY] = np.trunc(used[:, _MEMORY])
        totals = used * seconds[:, None]
        # A window of one sample has the mean that the reporter computes: usage times time, by time.
        means = totals / seconds[:, None]
        columns: list[list[float | None]] = []
        sketches: list[Sequence[Sketch | None]] = []
        for place, is_known in enumerate(known):
            if is_known:
                columns.append(rounded(means[:, place]).tolist())
                sketches.append(_sketches(used[:, place], FLOORS[place]))
            else:
                columns.append([None] * len(used))
                sketches.append([None] * len(used))
        if known[_MEMORY]:
            columns[_MEMORY] = [round(value or 0.0) for value in columns[_MEMORY]]
        return cls(
            used=[Quantities(*row) for row in zip(*columns, strict=True)],
            usage=list(zip(*sketches, strict=True)),
            minus_totals=[
                (-totals[:, place]).tolist() if is_known else None for place, is_known in enumerate(known)
            ],
            cpu_seconds_total=[round(value, 3) for value in cpu.tolist()],
        )


def rounded(values: Floats) -> Floats:
    """Values rounded to the digits of reports, exactly as the agents' own function rounds them."""
    places = _DIGITS - 1 - np.floor(np.log10(np.abs(np.where(values == 0, 1.0, values))))
    is_regular = np.abs(places) < _TENS.size
    scale = _TENS[np.where(is_regular, np.abs(places), 0.0).astype(np.intp)]
    scaled = np.where(places >= 0, values * scale, values / scale)
    digits = np.rint(scaled)
    found: Floats = np.where(places >= 0, digits / scale, digits * scale)
    # Halfway between two numbers, the scaled value is not exact enough to decide.
    is_between = np.abs(np.abs(scaled - digits) - 0.5) < _NEAR
    for row in np.flatnonzero(~is_regular | is_between).tolist():
        found[row] = float(f"{values[row]:.{_DIGITS}g}")
    return found


def _sketches(values: Floats, floor: float) -> list[Sketch]:
    """The histogram of one sample of each container."""
    is_above = values > floor
    exact = np.log(np.where(is_above, values, 2.0)) / _LOG_GAMMA
    bins = np.ceil(exact).astype(np.int64)
    # Near the edge of a bin the two logarithms may differ in the last digit.
    for row in np.flatnonzero(is_above & (np.abs(exact - np.rint(exact)) < _NEAR)).tolist():
        bins[row] = bin_of(float(values[row]))
    bins[~is_above] = _ZERO
    return [*map(_of_one_sample, bins.tolist())]


@cache
def _of_one_sample(index: int) -> Sketch:
    """The histogram of one sample in a bin. It is shared, because nothing changes it."""
    return Sketch(zeros=1) if index == _ZERO else Sketch(bins={index: 1})


class HeartbeatMaker:
    """Makes plain heartbeats."""

    def __init__(self, settings: ReportingConfig, sample_seconds: float) -> None:
        self._settings, self._sample_seconds = settings, sample_seconds
        self._beacon_seconds = max(settings.beacon_seconds, sample_seconds)

    def make(
        self, header: Report, sample: NodeSample, plain: PlainHost, columns: SampledColumns, begin: int
    ) -> Report:
        """The report of a host whose containers begin at this row of the columns.

        `header` has its node, boot, sequence and time.
        """
        mean = Mean(NODE_WIDTH)
        mean.add(node_values(sample), sample.rates.interval_seconds)
        usage, ids = columns.usage, plain.ids
        return msgspec.structs.replace(
            header,
            state=node_state(sample, mean.values(), mean.seconds),
            containers=_container_states(plain, columns, begin, sample.rates.interval_seconds),
            heartbeat=Heartbeat(
                agent_version=__version__,
                sample_seconds=self._sample_seconds,
                beacon_seconds=self._beacon_seconds,
                usage=tuple([ContainerUsage(ids[place], *usage[begin + place]) for place in plain.order]),
                top=self._top(ids, columns, begin),
                power_curve=sample.power_curve,
            ),
        )

    def _top(
        self, ids: Sequence[str], columns: SampledColumns, begin: int
    ) -> dict[Resource, tuple[str, ...]]:
        top = {}
        for resource, totals in zip(RESOURCES, columns.minus_totals, strict=True):
            if totals is not None:
                used = sorted(zip(totals[begin : begin + len(ids)], ids, strict=True))
                first = [name for total, name in used[:TOP_CONTAINERS] if total < 0]
                if first:
                    top[resource] = tuple(first)
        return top


def _container_states(
    plain: PlainHost, columns: SampledColumns, begin: int, interval_seconds: float
) -> tuple[ContainerState, ...]:
    """The states of the containers of a host, from windows of one sample."""
    rows = slice(begin, begin + len(plain.ids))
    window_seconds = float(f"{interval_seconds:.{_DIGITS}g}")
    return tuple(
        [
            ContainerState(
                name,
                info.name,
                RUNTIME,
                cpu_seconds_total,
                used,
                window_seconds,
                limit,
                NO_PRESSURE,
                None,
                None,
                None,
                None,
                None,
                info.service,
                info.labels,
                info.started_at,
            )
            for name, info, limit, cpu_seconds_total, used in zip(
                plain.ids,
                plain.infos,
                plain.limits,
                columns.cpu_seconds_total[rows],
                columns.used[rows],
                strict=True,
            )
        ]
    )

"""Recent usage of each container: the agents' histograms of every sample, added up and weighted by age.

Samples are kept in a few buckets of time. Expired samples are dropped by bucket, so the rest is always the
exact sum of the reports, in any order of arrival. The weight of a bucket halves with each half-life. Several
containers are processed at once, as a heartbeat covers a whole node: most of the cost is per array operation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from types import MappingProxyType

import msgspec
import numpy as np

from collector.analysis.envelopes import DEFAULT_RULE, EnvelopeRule, Statistic, statistics, totals
from collector.analysis.histograms import Packed, add_usage, pack, stack, sum_by_key
from collector.common.arrays import Floats
from collector.config import EnvelopeConfig
from wire.messages import ContainerUsage
from wire.resources import RESOURCES, Quantities

BUCKET_SECONDS = 8 * 3600.0
BUCKETS = 3
"""Samples are kept for a day."""
USAGE_SECONDS = BUCKETS * BUCKET_SECONDS
_MAX_INT64 = 2**63 - 1
"""Reported numbers may be absurd: a sum of bytes is capped at the largest number of a message."""
_WEIGHT_UNITS = 1 << 24
"""Weights are multiples of one divided by this."""
_BATCH_SIZE = 500
"""Larger batches save little time and take much memory."""
NOT_MEASURED: Floats = np.full((len(RESOURCES), len(Statistic)), np.nan)
NOT_MEASURED.flags.writeable = False
NOTHING_INHERITED: Mapping[int, Packed] = MappingProxyType({})


def bucket_at(at: float) -> int:
    """The bucket of a time."""
    return int(at // BUCKET_SECONDS)


def report_bucket(at: float, received_at: float) -> int:
    """The bucket of the usage in a report: by its timestamp if that is plausible, else by its arrival.

    A timestamp in the future, or more than a day old, is not plausible. Reports may wait in a spool.
    """
    is_plausible = received_at - USAGE_SECONDS < at <= received_at
    return bucket_at(at if is_plausible else received_at)


@dataclass(frozen=True, slots=True)
class UsageWeights:
    """How samples are weighted, and how the envelope follows."""

    half_life_seconds: float = 24 * 3600.0
    """Age at which a sample counts half."""
    rule: EnvelopeRule = DEFAULT_RULE

    @classmethod
    def of(cls, settings: EnvelopeConfig) -> "UsageWeights":
        return cls(
            rule=EnvelopeRule(
                percentile=(settings.cpu, settings.memory, settings.disk, settings.network),
                bursts=tuple(each in settings.bursts for each in RESOURCES),
            ),
        )

    def weight(self, age_buckets: int) -> float:
        """The weight of a sample that is this many buckets older than the newest.

        A multiple of 2^-24: sums of fewer than 2^29 samples with such weights are exact, so the statistics of
        a container do not depend on which others are processed with it.
        """
        return (
            round(float(0.5 ** (age_buckets * BUCKET_SECONDS / self.half_life_seconds)) * _WEIGHT_UNITS)
            / _WEIGHT_UNITS
        )


class UsageRing(msgspec.Struct, eq=False, gc=False):
    """The samples of one container, by bucket, and their statistics.

    There are very many, and none has a reference cycle: the garbage collector skips them.
    """

    buckets: dict[int, Packed] = msgspec.field(default_factory=dict)
    statistics: Floats = msgspec.field(default_factory=lambda: NOT_MEASURED)
    """Per resource and `Statistic`."""
    samples: int = 0
    inherited: Mapping[int, Packed] = NOTHING_INHERITED
    """The buckets of the container that it replaced in a move. They are stored with that container."""

    @property
    def newest(self) -> int:
        return max((*self.buckets, *self.inherited))

    @property
    def parts(self) -> tuple[tuple[int, Packed], ...]:
        """The samples of each bucket, own and inherited; a bucket may occur twice."""
        return (*self.buckets.items(), *self.inherited.items())

    @property
    def p90(self) -> Quantities:
        return to_quantities(self.statistics[:, Statistic.P90])


class ObservedContainer(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A running container of a service, with its usage; immutable.

    There are very many, and none has a reference cycle, so the garbage collector may skip them.
    """

    node: str
    service: str
    image: str
    sample_seconds: float
    """Duration of one sample."""
    parts: tuple[tuple[int, Packed], ...]
    """The samples of each bucket; a bucket may occur twice."""
    statistics: Floats
    """Per resource and `Statistic`."""
    samples: int
    id: str = ""
    inherited: int = 0
    """Number of parts, at the end, that come from the container that it replaced in a move."""
    limit: Quantities = Quantities()

    @property
    def own_parts(self) -> tuple[tuple[int, Packed], ...]:
        return self.parts[: len(self.parts) - self.inherited]


def add_samples(
    rings: dict[str, UsageRing], bucket: int, usages: Sequence[ContainerUsage]
) -> list[UsageRing]:
    """Add the samples of heartbeats to the rings of their containers; `update_statistics` must follow.

    Returns these rings.
    """
    rows = {name: row for row, name in enumerate(dict.fromkeys(usage.id for usage in usages))}
    touched = [rings.get(name) or rings.setdefault(name, UsageRing()) for name in rows]
    stored = [ring.buckets.get(bucket) for ring in touched]
    keys, counts = add_usage(stored, usages, [rows[usage.id] for usage in usages])
    for ring, packed in zip(touched, pack(keys, counts, len(touched)), strict=True):
        ring.buckets[bucket] = packed
    return touched


def update_statistics(rings: Sequence[UsageRing], weights: UsageWeights) -> None:
    """Drop expired buckets, and compute the statistics of the others."""
    for start in range(0, len(rings), _BATCH_SIZE):
        _update_batch(rings[start : start + _BATCH_SIZE], weights)


def _update_batch(rings: Sequence[UsageRing], weights: UsageWeights) -> None:
    parts: list[Packed] = []
    rows: list[int] = []
    bucket_weights: list[float] = []
    for row, ring in enumerate(rings):
        newest = ring.newest
        oldest = newest - BUCKETS + 1
        if min((*ring.buckets, *ring.inherited)) < oldest:
            ring.buckets, ring.inherited = (
                _drop_before(oldest, ring.buckets),
                _drop_before(oldest, ring.inherited),
            )
        for bucket, packed in ring.parts:
            parts.append(packed)
            rows.append(row)
            bucket_weights.append(weights.weight(newest - bucket))
    keys, counts, sizes = stack(parts, rows)
    numbers = totals(keys, counts, len(rings))
    weighted = counts * np.repeat(bucket_weights, sizes)
    # With one bucket each, keys are unique already.
    if len(parts) > len(rings):
        keys, weighted = sum_by_key(keys, weighted)
    found = statistics(keys, weighted, len(rings), weights.rule)
    for row, number in enumerate(numbers.astype(np.int64).tolist()):
        # A copy: otherwise every ring would keep the whole array in memory.
        rings[row].statistics = found[row].copy()
        rings[row].samples = number


def _drop_before(oldest: int, buckets: Mapping[int, Packed]) -> dict[int, Packed]:
    return {bucket: packed for bucket, packed in buckets.items() if bucket >= oldest}


def to_quantities(values: Sequence[float] | Floats) -> Quantities:
    """Convert one number per resource to quantities; what is not finite is unknown."""
    cpu, memory, disk, network = (float(value) if isfinite(value) else None for value in values)
    return Quantities(cpu, None if memory is None else min(round(memory), _MAX_INT64), disk, network)

"""The usage of services, from the samples of all their containers.

A sample is weighted by its duration, so that a node which samples twice as often does not count twice.
Containers are processed in the order of their services, a few at a time. That bounds the memory, and no step
holds the interpreter lock for long.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from collector.analysis.envelopes import EnvelopeRule, statistics, totals
from collector.analysis.histograms import ROW_BITS, Keys, Packed, stack, sum_by_key, sum_by_key_dense
from collector.common.arrays import Floats

_BATCH_SIZE = 100
_MAX_BINS_PER_ENTRY = 16
"""Up to this ratio, a dense table of all bins is faster than sorting."""


@dataclass(frozen=True, slots=True)
class ContainerSlot:
    """The usage of one container in one slot."""

    service: int
    packed: Packed
    seconds: float
    """Duration of one sample."""
    weight: float
    """Weight of one second; older samples weigh less."""


@dataclass(frozen=True, eq=False, slots=True)
class PooledBatch:
    """The usage of several services, one row each."""

    services: Sequence[int]
    statistics: Floats
    """Per service, resource and `Statistic`."""
    observed_seconds: Floats
    """Total observation time of its containers, for the resource that was measured longest."""


def pool(parts: Iterable[ContainerSlot], services: int, rule: EnvelopeRule) -> Iterator[PooledBatch]:
    """Pool the usage of each service; yields services as soon as they are complete.

    `parts` are in the order of their services.
    """
    keys: Keys = np.empty(0, np.int64)
    weights: Floats = np.empty(0)
    observed: Floats = np.zeros(services)
    rest = iter(parts)
    while batch := list(islice(rest, _BATCH_SIZE)):
        first, last = batch[0].service, batch[-1].service
        more, counts, sizes = stack([part.packed for part in batch], [part.service for part in batch])
        seconds = counts * np.repeat([part.seconds for part in batch], sizes)
        observed[first : last + 1] += totals(more - (first << ROW_BITS), seconds, last - first + 1)
        weighted = seconds * np.repeat([part.weight for part in batch], sizes)
        add_up = (
            sum_by_key_dense
            if (last - first + 1) << ROW_BITS < _MAX_BINS_PER_ENTRY * more.size
            else sum_by_key
        )
        more, weighted = add_up(more, weighted)
        # A service that continues from the last batch has two sums now.
        keys, weights = sum_by_key(np.concatenate((keys, more)), np.concatenate((weights, weighted)))
        complete = int(np.searchsorted(keys, last << ROW_BITS))
        if complete:
            yield _pool_batch(keys[:complete], weights[:complete], observed, rule)
            keys, weights = keys[complete:], weights[complete:]
    if keys.size:
        yield _pool_batch(keys, weights, observed, rule)


def _pool_batch(keys: Keys, weights: Floats, observed: Floats, rule: EnvelopeRule) -> PooledBatch:
    services, rows = np.unique(keys >> ROW_BITS, return_inverse=True)
    local = (rows << ROW_BITS) | (keys & ((1 << ROW_BITS) - 1))
    return PooledBatch(
        services=services.tolist(),
        statistics=statistics(local, weights, len(services), rule),
        observed_seconds=observed[services],
    )

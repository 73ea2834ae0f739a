"""The usage of services, from the samples of all their containers.

A sample is weighted by its duration, so that a node which samples twice as often does not count twice.
Containers come in the order of their services, a few at a time, and a service is returned as soon as its last
container is in: that bounds the memory, and no step holds the interpreter lock for long.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from collector.analysis.envelopes import EnvelopeRule, statistics, totals
from collector.analysis.histograms import ROW_BITS, Floats, Keys, Packed, densely_summed, stack, summed

_AT_ONCE = 100
_DENSE = 16
"""A table of all bins is worth its size up to this many bins per entry."""


@dataclass(frozen=True, slots=True)
class ContainerSlot:
    """The usage of one container in one slot."""

    service: int
    packed: Packed
    seconds: float
    """Duration of one sample."""
    weight: float
    """Weight of a second; older ones weigh less."""


@dataclass(frozen=True, eq=False, slots=True)
class Pooled:
    """The usage of several services, one row each."""

    services: Sequence[int]
    statistics: Floats
    """Per service, resource and `Statistic`."""
    observed_seconds: Floats
    """Total observation time of its containers, for the resource that was measured longest."""


def pool(parts: Iterable[ContainerSlot], services: int, need: EnvelopeRule) -> Iterator[Pooled]:
    """Yields services as they are complete; `parts` come in the order of their services."""
    keys: Keys = np.empty(0, np.int64)
    weights: Floats = np.empty(0)
    watched: Floats = np.zeros(services)
    rest = iter(parts)
    while batch := list(islice(rest, _AT_ONCE)):
        first, last = batch[0].service, batch[-1].service
        more, counts, sizes = stack([part.packed for part in batch], [part.service for part in batch])
        seconds = counts * np.repeat([part.seconds for part in batch], sizes)
        watched[first : last + 1] += totals(more - (first << ROW_BITS), seconds, last - first + 1)
        weighed = seconds * np.repeat([part.weight for part in batch], sizes)
        add_up = densely_summed if (last - first + 1) << ROW_BITS < _DENSE * more.size else summed
        more, weighed = add_up(more, weighed)
        # A service that continues from the last batch has two sums now.
        keys, weights = summed(np.concatenate((keys, more)), np.concatenate((weights, weighed)))
        complete = int(np.searchsorted(keys, last << ROW_BITS))
        if complete:
            yield _pooled(keys[:complete], weights[:complete], watched, need)
            keys, weights = keys[complete:], weights[complete:]
    if keys.size:
        yield _pooled(keys, weights, watched, need)


def _pooled(keys: Keys, weights: Floats, watched: Floats, need: EnvelopeRule) -> Pooled:
    services, rows = np.unique(keys >> ROW_BITS, return_inverse=True)
    local = (rows << ROW_BITS) | (keys & ((1 << ROW_BITS) - 1))
    return Pooled(
        services=services.tolist(),
        statistics=statistics(local, weights, len(services), need),
        observed_seconds=watched[services],
    )

"""What a service's containers need, from the samples of all of them together.

A sample stands for the time that it was taken over, so that a node which looks twice as often does not
count twice. The containers come in the order of their services and are taken a few at a time, each service
told as soon as its last one is in: that bounds the memory, and nothing holds the interpreter for long.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from collector.analysis.envelopes import EnvelopeRule, statistics, totals
from collector.analysis.histograms import ROW_BITS, Floats, Keys, Packed, densely_summed, stack, summed

_AT_ONCE = 100
_DENSE = 16
"""A table of all bins is worth its size where there are no more of them than so many per entry."""


@dataclass(frozen=True, slots=True)
class ContainerSlot:
    """What one container used in one slot."""

    service: int
    packed: Packed
    seconds: float
    """What one sample stands for."""
    weight: float
    """How much a second counts: less the longer it is ago."""


@dataclass(frozen=True, eq=False, slots=True)
class Pooled:
    """What is known of several services; a row each."""

    services: Sequence[int]
    statistics: Floats
    """Per service, resource and `Statistic`."""
    watched_seconds: Floats
    """For how long its containers were watched, together: of the resource that was watched longest."""


def pool(parts: Iterable[ContainerSlot], services: int, need: EnvelopeRule) -> Iterator[Pooled]:
    """Services as they are complete; `parts` come in the order of their services, which are so many."""
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
        # Of the service that goes on from the batch before there are two sums now.
        keys, weights = summed(np.concatenate((keys, more)), np.concatenate((weights, weighed)))
        complete = int(np.searchsorted(keys, last << ROW_BITS))
        if complete:
            yield _told(keys[:complete], weights[:complete], watched, need)
            keys, weights = keys[complete:], weights[complete:]
    if keys.size:
        yield _told(keys, weights, watched, need)


def _told(keys: Keys, weights: Floats, watched: Floats, need: EnvelopeRule) -> Pooled:
    services, rows = np.unique(keys >> ROW_BITS, return_inverse=True)
    local = (rows << ROW_BITS) | (keys & ((1 << ROW_BITS) - 1))
    return Pooled(
        services=services.tolist(),
        statistics=statistics(local, weights, len(services), need),
        watched_seconds=watched[services],
    )

"""What a service's containers need, from the samples of all of them together.

A sample stands for the time that it was taken over, so that a node which looks twice as often does not
count twice. The containers come in the order of their services and are taken a few at a time, each service
told as soon as its last one is in: that bounds the memory, and nothing holds the interpreter for long.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from collector.analysis.envelopes import Need, statistics, totals
from collector.analysis.histograms import ROW_BITS, Floats, Keys, Packed, stack, summed

_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Part:
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


def pool(parts: Sequence[Part], need: Need) -> Iterator[Pooled]:
    """Services as they are complete; `parts` come in the order of their services."""
    keys: Keys = np.empty(0, np.int64)
    both: Floats = np.empty((0, 2))
    for start in range(0, len(parts), _AT_ONCE):
        batch = parts[start : start + _AT_ONCE]
        more, counts, sizes = stack([part.packed for part in batch], [part.service for part in batch])
        seconds = counts * np.repeat([part.seconds for part in batch], sizes)
        weighed = seconds * np.repeat([part.weight for part in batch], sizes)
        keys, both = summed(
            np.concatenate((keys, more)), np.concatenate((both, np.column_stack((seconds, weighed))))
        )
        complete = int(np.searchsorted(keys, batch[-1].service << ROW_BITS))
        if complete:
            yield _told(keys[:complete], both[:complete], need)
            keys, both = keys[complete:], both[complete:]
    if keys.size:
        yield _told(keys, both, need)


def _told(keys: Keys, both: Floats, need: Need) -> Pooled:
    of = keys >> ROW_BITS
    services, rows = np.unique(of, return_inverse=True)
    local = (rows << ROW_BITS) | (keys & ((1 << ROW_BITS) - 1))
    return Pooled(
        services=services.tolist(),
        statistics=statistics(local, both[:, 1], len(services), need),
        watched_seconds=totals(local, both[:, 0], len(services)),
    )

"""The three questions put to a model, each workload of a machine in turn.

- unseen: it knows the machine's other workloads and was never metered on this one.
- blind20: the meter is there for the first fifth of this workload, then gone. Only what comes after counts.
  Our models know the machine's other workloads as well, since an agent keeps what it was calibrated with and
  what it saw before; adaptive-alone and the baselines have the first fifth alone.
- metered: the meter is always on, and the next reading is to be told from those before and the load.
"""

from collections.abc import Callable, Mapping, Sequence

from powermodels.evaluate.contenders import Maker
from powermodels.models.samples import Sample

Samples = Sequence[Sample]
Guess = tuple[float, float]
"""What was measured, and what was said."""

_SEEN_SHARE = 0.2


def unseen(make: Maker, others: Samples, workload: Samples) -> list[Guess]:
    """Every sample of a workload, from other workloads alone."""
    contender = make(others, ())
    return [(sample.watts, contender.blind_watts(sample.load)) for sample in workload]


def blind20(make: Maker, others: Samples, workload: Samples) -> list[Guess]:
    """What comes after the first fifth."""
    split = int(_SEEN_SHARE * len(workload))
    contender = make(others, workload[:split])
    for sample in workload[:split]:
        contender.observe(sample)
    return [(sample.watts, contender.blind_watts(sample.load)) for sample in workload[split:]]


def metered(make: Maker, others: Samples, workload: Samples) -> list[Guess]:
    """Each sample but the first, from those before it."""
    contender = make(others, ())
    contender.observe(workload[0])
    guesses: list[Guess] = []
    for sample in workload[1:]:
        guesses.append((sample.watts, contender.next_watts(sample.load)))
        contender.observe(sample)
    return guesses


PROTOCOLS: Mapping[str, Callable[[Maker, Samples, Samples], list[Guess]]] = {
    "unseen": unseen,
    "blind20": blind20,
    "metered": metered,
}

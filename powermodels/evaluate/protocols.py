"""The three protocols of an evaluation, for each workload of a machine in turn.

- unseen: the model was fitted to the machine's other workloads, and never metered on this one.
- blind20: the meter answers during the first fifth of this workload; only the rest counts. Our models were
  also fitted to the machine's other workloads, since an agent keeps its calibration and earlier readings;
  adaptive-alone and the baselines use the first fifth only.
- metered: the meter is always on, and the next reading is predicted from earlier ones and the load.
"""

from collections.abc import Callable, Mapping, Sequence

from powermodels.evaluate.contenders import Maker
from powermodels.models.samples import Sample

Samples = Sequence[Sample]
Prediction = tuple[float, float]
"""Measured and predicted watts."""

_METERED_SHARE = 0.2


def unseen(make: Maker, others: Samples, workload: Samples) -> list[Prediction]:
    """Predict every sample of a workload, from other workloads only."""
    contender = make(others, ())
    return [(sample.watts, contender.blind_watts(sample.load)) for sample in workload]


def blind20(make: Maker, others: Samples, workload: Samples) -> list[Prediction]:
    """Predict all samples after the first fifth."""
    split = int(_METERED_SHARE * len(workload))
    contender = make(others, workload[:split])
    for sample in workload[:split]:
        contender.observe(sample)
    return [(sample.watts, contender.blind_watts(sample.load)) for sample in workload[split:]]


def metered(make: Maker, others: Samples, workload: Samples) -> list[Prediction]:
    """Predict each sample but the first, from those before it."""
    contender = make(others, ())
    contender.observe(workload[0])
    predictions: list[Prediction] = []
    for sample in workload[1:]:
        predictions.append((sample.watts, contender.next_watts(sample.load)))
        contender.observe(sample)
    return predictions


PROTOCOLS: Mapping[str, Callable[[Maker, Samples, Samples], list[Prediction]]] = {
    "unseen": unseen,
    "blind20": blind20,
    "metered": metered,
}

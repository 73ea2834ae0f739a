"""Run one protocol over recordings, for a model and all baselines.

There are three protocols, for each workload of a machine in turn:

- unseen: the model was fitted to the machine's other workloads, and never metered on this one.
- blind20: the meter answers during the first fifth of this workload; only the rest counts. Our models were
  also fitted to the machine's other workloads, since an agent keeps its calibration and earlier readings;
  adaptive-alone and the baselines use the first fifth only.
- metered: the meter is always on, and the next reading is predicted from earlier ones and the load.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil, sqrt
from pathlib import Path
from statistics import fmean

import msgspec

from powermodels.evaluate.contenders import (
    BASELINES,
    MODELS,
    ON_UTILISATION,
    Maker,
    Samples,
    stated_error_ratio,
)
from powermodels.fit.arrays import by_group
from powermodels.fit.recording import MICRO, Recording, read_recording
from powermodels.models.samples import Sample
from wire.errors import UserError

DEFAULT_MODEL = "adaptive"
_MIN_SAMPLES = 10
_DIGITS = 2
# Upper bound of predictions, relative to the highest watts of the recording.
_CAP_RATIO = 1.1
_METERED_SHARE = 0.2

Prediction = tuple[float, float]
"""Measured and predicted watts."""


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


class Score(msgspec.Struct, frozen=True):
    """Percentages are numbers like 7.9."""

    mape: float
    """Mean relative error, in per cent."""
    mae: float
    """Mean error, in watts."""
    p95: float
    """95th percentile of the relative error, in per cent."""
    dynamic_range: float
    """Root of the mean square error divided by the difference of the highest and lowest power, in per cent.

    Unlike the relative error, it does not become smaller with a large idle power.
    """


def score(measured: Sequence[float], predicted: Sequence[float], range_watts: float) -> Score:
    """Score predictions on a machine whose power spans `range_watts`."""
    errors = [abs(guess - watts) for guess, watts in zip(predicted, measured, strict=True)]
    ratios = sorted(error / max(1.0, watts) for error, watts in zip(errors, measured, strict=True))
    return Score(
        mape=round(100 * fmean(ratios), _DIGITS),
        mae=round(fmean(errors), _DIGITS),
        p95=round(100 * ratios[ceil(0.95 * len(ratios)) - 1], _DIGITS),
        dynamic_range=round(
            100 * sqrt(fmean(error * error for error in errors)) / max(1.0, range_watts), _DIGITS
        ),
    )


def mean_score(scores: Iterable[Score]) -> Score:
    """The mean of each number."""
    rows = [msgspec.structs.astuple(each) for each in scores]
    return Score(*(round(fmean(column), _DIGITS) for column in zip(*rows, strict=True)))


class Means(msgspec.Struct, frozen=True):
    """A contender's mean errors, by machine and over all."""

    files: dict[str, Score]
    mean: Score


class FileResult(msgspec.Struct, frozen=True):
    """One machine: every workload, and the mean over the real services."""

    workloads: dict[str, Score]
    mean: Score
    stated: float | None = None
    """With the protocol unseen: the mean of the errors that the models state for the workloads of the mean,
    each fitted without that workload, in per cent."""


class Evaluation(msgspec.Struct, frozen=True):
    """The results of one protocol."""

    protocol: str
    model: str
    files: dict[str, FileResult]
    mean: Score
    models: dict[str, Means]
    """Our other models."""
    baselines: dict[str, Means]
    outside_bounds: int
    """Number of predictions below 0 or above the maximum power of the machine."""


def evaluate(
    paths: Sequence[Path],
    protocol: str,
    model: str = DEFAULT_MODEL,
    progress: Callable[[str], None] = lambda _: None,
) -> Evaluation:
    """Score a model and the baselines; `progress` gets a line for each step."""
    recordings: dict[str, Recording] = {}
    on_utilisation: dict[str, Recording] = {}
    for path in paths:
        recording = read_recording(path)
        if recording.name in recordings:
            raise UserError(f"two recordings are called {recording.name}: rename one of them")
        recordings[recording.name] = recording
        on_utilisation[recording.name] = read_recording(path, iowait_is_usage=True)
    files: dict[str, FileResult] = {}
    outside = 0
    for name, recording in recordings.items():
        progress(f"{protocol}, {name}: {model}")
        files[name], outside_here = _run(recording, protocol, MODELS[model])
        outside += outside_here
        if protocol == "unseen":
            progress(f"{protocol}, {name}: stated errors")
            files[name] = msgspec.structs.replace(files[name], stated=_stated(recording, model))

    def means(contender: str, make: Maker) -> Means:
        scores: dict[str, Score] = {}
        for name, recording in (on_utilisation if contender in ON_UTILISATION else recordings).items():
            progress(f"{protocol}, {name}: {contender}")
            scores[name] = _run(recording, protocol, make)[0].mean
        return Means(scores, mean_score(scores.values()))

    return Evaluation(
        protocol=protocol,
        model=model,
        files=files,
        mean=mean_score(result.mean for result in files.values()),
        models={other: means(other, MODELS[other]) for other in _others(model, protocol)},
        baselines={baseline: means(baseline, make) for baseline, make in BASELINES.items()},
        outside_bounds=outside,
    )


def _others(model: str, protocol: str) -> list[str]:
    """Our models except this one; adaptive-alone differs only if samples of the workload are known."""
    redundant = {model} if protocol == "blind20" else {model, "adaptive-alone"}
    return [name for name in MODELS if name not in redundant]


def _run(recording: Recording, protocol: str, make: Maker) -> tuple[FileResult, int]:
    workloads = _workloads_of(recording)
    real = _real(workloads)
    if len(workloads) < 2 or not real:  # noqa: PLR2004 - one to predict, one to fit
        raise UserError(
            f"{recording.name} needs at least two workloads of {_MIN_SAMPLES} samples or more, one of them "
            f"without the prefix {MICRO}: it has {len(workloads)}"
        )
    watts = [sample.watts for sample in recording.samples]
    range_watts = max(watts) - min(watts)
    scores: dict[str, Score] = {}
    outside = 0
    for name, samples in workloads.items():
        others = _others_of(workloads, name)
        predictions = PROTOCOLS[protocol](make, others, samples)
        measured, predicted = zip(*predictions, strict=True)
        scores[name] = score(measured, predicted, range_watts)
        cap_watts = _CAP_RATIO * max(sample.watts for sample in (*others, *samples))
        outside += sum(not 0 <= guess <= cap_watts for guess in predicted)
    return FileResult(scores, mean_score(scores[name] for name in real)), outside


def _stated(recording: Recording, model: str) -> float:
    workloads = _workloads_of(recording)
    ratios = [stated_error_ratio(model, _others_of(workloads, name)) for name in _real(workloads)]
    return round(100 * fmean(ratios), _DIGITS)


def _workloads_of(recording: Recording) -> dict[str, list[Sample]]:
    """The workloads with enough samples."""
    return {
        name: samples for name, samples in by_group(recording.samples).items() if len(samples) >= _MIN_SAMPLES
    }


def _real(workloads: Mapping[str, Samples]) -> list[str]:
    return [name for name in workloads if not name.startswith(MICRO)]


def _others_of(workloads: Mapping[str, Samples], name: str) -> list[Sample]:
    return [sample for other, group in workloads.items() if other != name for sample in group]

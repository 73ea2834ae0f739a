"""Run one protocol over recordings, for a model and all baselines."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import msgspec

from powermodels.evaluate.contenders import (
    BASELINES,
    MODELS,
    ON_UTILISATION,
    Maker,
    stated_error_ratio,
)
from powermodels.evaluate.protocols import PROTOCOLS, Prediction, Samples
from powermodels.evaluate.scores import Score, mean_score, score
from powermodels.fit.arrays import by_group
from powermodels.fit.recording import Recording, read_recording
from powermodels.models.samples import Sample
from wire.errors import UserError

DEFAULT_MODEL = "adaptive"
# Single-purpose loads: listed, and used for fits, but not part of a mean over real services.
_MICRO = "micro_"
_MIN_SAMPLES = 10
_DIGITS = 2
# Upper bound of predictions, relative to the highest watts of the recording.
_CAP_RATIO = 1.1


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


@dataclass(frozen=True, slots=True)
class _Machine:
    """A recording, and the same with I/O wait counted as CPU usage."""

    recording: Recording
    on_utilisation: Recording


def evaluate(
    paths: Sequence[Path],
    protocol: str,
    model: str = DEFAULT_MODEL,
    progress: Callable[[str], None] = lambda _: None,
) -> Evaluation:
    """Score a model and the baselines; `progress` gets a line for each step."""
    machines: dict[str, _Machine] = {}
    for path in paths:
        machine = _Machine(read_recording(path), read_recording(path, iowait_is_usage=True))
        if machine.recording.name in machines:
            raise UserError(f"two recordings are called {machine.recording.name}: rename one of them")
        machines[machine.recording.name] = machine
    files: dict[str, FileResult] = {}
    outside = 0
    for name, machine in machines.items():
        progress(f"{protocol}, {name}: {model}")
        files[name], outside_here = _run(machine.recording, protocol, MODELS[model])
        outside += outside_here
        if protocol == "unseen":
            progress(f"{protocol}, {name}: stated errors")
            files[name] = msgspec.structs.replace(files[name], stated=_stated(machine.recording, model))

    def means(contender: str, make: Maker) -> Means:
        return _means(machines, protocol, contender, make, progress)

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


def _means(
    machines: Mapping[str, _Machine],
    protocol: str,
    contender: str,
    make: Maker,
    progress: Callable[[str], None],
) -> Means:
    scores: dict[str, Score] = {}
    for name, machine in machines.items():
        progress(f"{protocol}, {name}: {contender}")
        recording = machine.on_utilisation if contender in ON_UTILISATION else machine.recording
        scores[name] = _run(recording, protocol, make)[0].mean
    return Means(scores, mean_score(scores.values()))


def _run(recording: Recording, protocol: str, make: Maker) -> tuple[FileResult, int]:
    workloads = _workloads_of(recording)
    real = _real(workloads)
    if len(workloads) < 2 or not real:  # noqa: PLR2004 - one to predict, one to fit
        raise UserError(
            f"{recording.name} needs at least two workloads of {_MIN_SAMPLES} samples or more, one of them "
            f"without the prefix {_MICRO}: it has {len(workloads)}"
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
        outside += _outside(predictions, others, samples)
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
    return [name for name in workloads if not name.startswith(_MICRO)]


def _others_of(workloads: Mapping[str, Samples], name: str) -> list[Sample]:
    return [sample for other, group in workloads.items() if other != name for sample in group]


def _outside(predictions: Sequence[Prediction], others: Samples, samples: Samples) -> int:
    cap_watts = _CAP_RATIO * max(sample.watts for sample in (*others, *samples))
    return sum(not 0 <= predicted <= cap_watts for _, predicted in predictions)

"""Stored samples of a meter: those of idle and peak load stay while another load runs for days.

Each bin of load contains its newest samples, however old they are. Every fifth sample is held out: no fit
uses it, and the error of a new fit is computed on held-out samples only.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from math import sqrt
from statistics import fmean

import msgspec

from powermodels.common.interface import Model
from powermodels.models.basis import cpu
from powermodels.models.samples import Sample

BINS = 10
_PER_BIN = 40
_HELD_OUT_PER_BIN = 10
_HOLD_OUT_EVERY = 5
_MIN_HELD_OUT = 4
_MIN_TO_REPLACE = 3

NOW, BEFORE = "now", "before"
NOW_SECONDS = 600.0


class StratifiedMemory:
    """At most 50 samples in each of ten bins of load."""

    def __init__(self) -> None:
        self._added = [0] * BINS
        self._training: list[deque[Sample]] = [deque(maxlen=_PER_BIN) for _ in range(BINS)]
        self._held_out: list[deque[Sample]] = [deque(maxlen=_HELD_OUT_PER_BIN) for _ in range(BINS)]
        self._newest_seconds = 0.0
        self._changed_seconds = float("-inf")

    def add(self, sample: Sample) -> None:
        """Store a sample, instead of the oldest of its bin."""
        # By the root of CPU usage: most of the dynamic power is at lower loads.
        index = min(BINS - 1, int(sqrt(cpu(sample.load)) * BINS))
        self._added[index] += 1
        is_held_out = self._added[index] % _HOLD_OUT_EVERY == 0
        (self._held_out if is_held_out else self._training)[index].append(sample)
        self._newest_seconds = max(self._newest_seconds, sample.seconds)
        self._drop_older(index)

    def mark_change(self, seconds: float) -> None:
        """Mark a change of the machine at this time: bins with newer samples drop older ones."""
        self._changed_seconds = seconds
        for index in range(BINS):
            self._drop_older(index)

    def convert_older(self, convert: Callable[[Sample], float]) -> None:
        """Convert the watts of the samples from before the last change."""
        for each in (*self._training, *self._held_out):
            for index, sample in enumerate(each):
                each[index] = self._converted(sample, convert)

    def before(self, seconds: float) -> list[Sample]:
        """The samples for fits from before this time, in order."""
        return [sample for sample in self._grouped(self._training) if sample.seconds < seconds]

    @property
    def changed_seconds(self) -> float:
        """The time of the last change of the machine; minus infinity if there is none."""
        return self._changed_seconds

    @property
    def is_mixed(self) -> bool:
        """Whether some samples are older than the last change of the machine."""
        return any(sample.seconds < self._changed_seconds for each in self._training for sample in each)

    def since(self, seconds: float) -> list[Sample]:
        """All samples from this time on, in order."""
        everything = self._grouped((*self._training, *self._held_out))
        return [sample for sample in everything if sample.seconds >= seconds]

    def samples(self, convert: Callable[[Sample], float] = lambda sample: sample.watts) -> tuple[Sample, ...]:
        """The samples for fits in order of time, grouped into recent and older ones.

        `convert` returns the watts of a sample from before the last change of the machine.
        """
        return tuple(self._converted(sample, convert) for sample in self._grouped(self._training))

    def error_ratio(self, model: Model) -> float | None:
        """A model's mean relative error on held-out samples; None if there are few since the last change.

        Recent and older samples have the same weight.
        """
        errors: dict[str, list[float]] = {}
        for sample in self._grouped(self._held_out):
            if sample.seconds >= self._changed_seconds:
                error_watts = abs(model.terms(sample.load).watts - sample.watts)
                errors.setdefault(sample.group, []).append(error_watts / max(1.0, sample.watts))
        if sum(map(len, errors.values())) < _MIN_HELD_OUT:
            return None
        return fmean(fmean(group_errors) for group_errors in errors.values())

    def _drop_older(self, index: int) -> None:
        bins = (self._training[index], self._held_out[index])
        newer = sum(sample.seconds >= self._changed_seconds for each in bins for sample in each)
        if newer < _MIN_TO_REPLACE:
            return
        for each in bins:
            while each and each[0].seconds < self._changed_seconds:
                each.popleft()

    def _converted(self, sample: Sample, convert: Callable[[Sample], float]) -> Sample:
        if sample.seconds >= self._changed_seconds:
            return sample
        return msgspec.structs.replace(sample, watts=max(0.0, convert(sample)))

    def _grouped(self, bins: Iterable[Iterable[Sample]]) -> Iterator[Sample]:
        everything = sorted((sample for each in bins for sample in each), key=lambda sample: sample.seconds)
        now_seconds = max(self._newest_seconds - NOW_SECONDS, self._changed_seconds)
        for sample in everything:
            is_new = sample.seconds >= now_seconds
            yield Sample(sample.seconds, sample.watts, sample.load, NOW if is_new else BEFORE)

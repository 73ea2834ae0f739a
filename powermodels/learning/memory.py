"""Stored samples of a meter, which keep idle and peak load while a load in between runs for days.

Samples are stored by load: each bin contains its newest ones, however old they are. Every fifth is held out:
no fit uses it, so that a new fit is judged by samples that it does not know.
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
_HELD_BACK_PER_BIN = 10
_HOLD_BACK_EVERY = 5
_LEAST_HELD_BACK = 4
_LEAST_TO_REPLACE = 3

NOW, BEFORE = "now", "before"
NOW_SECONDS = 600.0


class StratifiedMemory:
    """At most 50 samples in each of ten bins of load."""

    def __init__(self) -> None:
        self._seen = [0] * BINS
        self._kept: list[deque[Sample]] = [deque(maxlen=_PER_BIN) for _ in range(BINS)]
        self._held_back: list[deque[Sample]] = [deque(maxlen=_HELD_BACK_PER_BIN) for _ in range(BINS)]
        self._newest_seconds = 0.0
        self._changed_seconds = float("-inf")

    def add(self, sample: Sample) -> None:
        """Store a sample, instead of the oldest of its bin."""
        # By the root of CPU usage: most of the dynamic power is at lower loads.
        index = min(BINS - 1, int(sqrt(cpu(sample.load)) * BINS))
        self._seen[index] += 1
        hold_back = self._seen[index] % _HOLD_BACK_EVERY == 0
        (self._held_back if hold_back else self._kept)[index].append(sample)
        self._newest_seconds = max(self._newest_seconds, sample.seconds)
        self._replace(index)

    def doubt_before(self, seconds: float) -> None:
        """Note a change of the machine at this time: bins with newer samples drop older ones."""
        self._changed_seconds = seconds
        for index in range(BINS):
            self._replace(index)

    def move(self, moved_watts: Callable[[Sample], float]) -> None:
        """Replace the watts of samples older than the last change."""
        for each in (*self._kept, *self._held_back):
            for index, sample in enumerate(each):
                each[index] = self._moved(sample, moved_watts)

    def before(self, seconds: float) -> list[Sample]:
        """The samples for fits from before this time, in order."""
        return [sample for sample in self._grouped(self._kept) if sample.seconds < seconds]

    @property
    def changed_seconds(self) -> float:
        """The time of the last change of the machine; minus infinity if there is none."""
        return self._changed_seconds

    @property
    def is_mixed(self) -> bool:
        """Whether some samples are older than the last change of the machine."""
        return any(sample.seconds < self._changed_seconds for each in self._kept for sample in each)

    def since(self, seconds: float) -> list[Sample]:
        """All samples from this time on, in order."""
        everything = self._grouped((*self._kept, *self._held_back))
        return [sample for sample in everything if sample.seconds >= seconds]

    def samples(
        self, moved_watts: Callable[[Sample], float] = lambda sample: sample.watts
    ) -> tuple[Sample, ...]:
        """The samples for fits in order of time, grouped into recent and older ones; these may be moved."""
        return tuple(self._moved(sample, moved_watts) for sample in self._grouped(self._kept))

    def error_ratio(self, model: Model) -> float | None:
        """A model's mean relative error on held-out samples; None if there are few since the last change.

        Recent and older samples have the same weight.
        """
        errors: dict[str, list[float]] = {}
        for sample in self._grouped(self._held_back):
            if sample.seconds >= self._changed_seconds:
                error_watts = abs(model.terms(sample.load).watts - sample.watts)
                errors.setdefault(sample.group, []).append(error_watts / max(1.0, sample.watts))
        if sum(map(len, errors.values())) < _LEAST_HELD_BACK:
            return None
        return fmean(fmean(of_group) for of_group in errors.values())

    def _replace(self, index: int) -> None:
        bins = (self._kept[index], self._held_back[index])
        newer = sum(sample.seconds >= self._changed_seconds for each in bins for sample in each)
        if newer < _LEAST_TO_REPLACE:
            return
        for each in bins:
            while each and each[0].seconds < self._changed_seconds:
                each.popleft()

    def _moved(self, sample: Sample, moved_watts: Callable[[Sample], float]) -> Sample:
        if sample.seconds >= self._changed_seconds:
            return sample
        return msgspec.structs.replace(sample, watts=max(0.0, moved_watts(sample)))

    def _grouped(self, bins: Iterable[Iterable[Sample]]) -> Iterator[Sample]:
        everything = sorted((sample for each in bins for sample in each), key=lambda sample: sample.seconds)
        now_seconds = max(self._newest_seconds - NOW_SECONDS, self._changed_seconds)
        for sample in everything:
            is_new = sample.seconds >= now_seconds
            yield Sample(sample.seconds, sample.watts, sample.load, NOW if is_new else BEFORE)

"""A memory of metered samples that does not forget idle and peak while something in between runs for days.

Samples are kept by load: each bin holds its newest ones, however old those are. Every fifth goes into a store
of its own that no fit sees, so that a new fit can be judged by what it does not know.
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
        """Remember a sample, at the cost of the oldest of its bin."""
        # By the root of CPU use: most of the way to full power lies in the lower loads.
        index = min(BINS - 1, int(sqrt(cpu(sample.load)) * BINS))
        self._seen[index] += 1
        hold_back = self._seen[index] % _HOLD_BACK_EVERY == 0
        (self._held_back if hold_back else self._kept)[index].append(sample)
        self._newest_seconds = max(self._newest_seconds, sample.seconds)
        self._replace(index)

    def doubt_before(self, seconds: float) -> None:
        """The machine has changed at that time: wherever there is something newer, what is older goes."""
        self._changed_seconds = seconds
        for index in range(BINS):
            self._replace(index)

    def move(self, moved_watts: Callable[[Sample], float]) -> None:
        """Give everything older than the last change other watts."""
        for each in (*self._kept, *self._held_back):
            for index, sample in enumerate(each):
                each[index] = self._moved(sample, moved_watts)

    def before(self, seconds: float) -> list[Sample]:
        """What a fit may see of the time before, in order."""
        return [sample for sample in self._grouped(self._kept) if sample.seconds < seconds]

    @property
    def changed_seconds(self) -> float:
        """When the machine last changed; long ago if it never did."""
        return self._changed_seconds

    @property
    def is_mixed(self) -> bool:
        """Whether some of it is older than the last change of the machine."""
        return any(sample.seconds < self._changed_seconds for each in self._kept for sample in each)

    def since(self, seconds: float) -> list[Sample]:
        """Everything from that time on, in order."""
        everything = self._grouped((*self._kept, *self._held_back))
        return [sample for sample in everything if sample.seconds >= seconds]

    def samples(
        self, moved_watts: Callable[[Sample], float] = lambda sample: sample.watts
    ) -> tuple[Sample, ...]:
        """What a fit may see, in order of time, grouped into now and before; the latter may be moved."""
        return tuple(self._moved(sample, moved_watts) for sample in self._grouped(self._kept))

    def error_ratio(self, model: Model) -> float | None:
        """A model's mean relative error on what was held back since the last change; None if that is little.

        Now and before count the same.
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

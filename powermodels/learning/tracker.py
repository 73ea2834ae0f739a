"""Keeps the adaptive model up to date: tracks its error against the meter, and requests refits.

Every reading updates a small correction (`Correction`). When the error of the curve without it exceeds
max(2 W, 2 %), a refit is due: the caller fits `request()` in another process, since that needs a numeric
library, and passes the result to `offer()`, which accepts it only if it is better than the current curve on
held-out samples. The time between refits doubles as long as none is better. Several readings in a row with
too large an error are a change of the machine: older samples are then used only in part and, if the curve was
right until then, converted by the level and gain of the change.

Without a meter the last correction stays; the expected error grows with the time since the last reading.
Estimates stay within the range of the meter's readings.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from math import exp, sqrt
from statistics import fmean, median

import msgspec

from powermodels.common.interface import Load, Model, Scope, Terms
from powermodels.models.adaptive import AdaptiveModel, Correction, CorrectionSums, corrected_terms
from powermodels.models.basis import cpu
from powermodels.models.fitted import Range
from powermodels.models.regression import CurveModel
from powermodels.models.samples import FitRequest, Sample
from wire.messages import PowerSource

_REFIT_WATTS = 2.0
_REFIT_RATIO = 0.02
_WINDOW = 30
_MIN_IN_WINDOW = 12
_READINGS_BETWEEN_REFITS = 30
_MAX_READINGS_BETWEEN_REFITS = 1000
_MISSES_FOR_A_CHANGE = 6
_READINGS_AFTER_A_CHANGE = 12
# Samples from before a change are used only for loads that have not occurred since.
_WEIGHT_AFTER_A_CHANGE = 4.0

# Share of a change in the model's watts that the next reading shows; most meters average over time.
_FOLLOWED = 0.3
# No model is more accurate than this, whatever the last readings suggest.
_MIN_ERROR_RATIO = 0.01
_STALE_SECONDS = 3600.0

BINS = 10
_PER_BIN = 40
_HELD_OUT_PER_BIN = 10
_HOLD_OUT_EVERY = 5
_MIN_HELD_OUT = 4
_MIN_TO_REPLACE = 3

NOW, BEFORE = "now", "before"
NOW_SECONDS = 600.0


class StratifiedMemory:
    """At most 50 samples in each of ten bins of load.

    Each bin contains its newest samples, however old they are: those of idle and peak load stay while another
    load runs for days. Every fifth sample is held out: no fit uses it, and the error of a new fit is computed
    on held-out samples only.
    """

    def __init__(self) -> None:
        self._added = [0] * BINS
        self._training: list[deque[Sample]] = [deque(maxlen=_PER_BIN) for _ in range(BINS)]
        self._held_out: list[deque[Sample]] = [deque(maxlen=_HELD_OUT_PER_BIN) for _ in range(BINS)]
        self._newest_seconds = 0.0
        self.changed_seconds = float("-inf")
        """The time of the last change of the machine; minus infinity if there is none."""

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
        self.changed_seconds = seconds
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
    def is_mixed(self) -> bool:
        """Whether some samples are older than the last change of the machine."""
        return any(sample.seconds < self.changed_seconds for each in self._training for sample in each)

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
            if sample.seconds >= self.changed_seconds:
                error_watts = abs(model.terms(sample.load).watts - sample.watts)
                errors.setdefault(sample.group, []).append(error_watts / max(1.0, sample.watts))
        if sum(map(len, errors.values())) < _MIN_HELD_OUT:
            return None
        return fmean(fmean(group_errors) for group_errors in errors.values())

    def _drop_older(self, index: int) -> None:
        bins = (self._training[index], self._held_out[index])
        newer = sum(sample.seconds >= self.changed_seconds for each in bins for sample in each)
        if newer < _MIN_TO_REPLACE:
            return
        for each in bins:
            while each and each[0].seconds < self.changed_seconds:
                each.popleft()

    def _converted(self, sample: Sample, convert: Callable[[Sample], float]) -> Sample:
        if sample.seconds >= self.changed_seconds:
            return sample
        return msgspec.structs.replace(sample, watts=max(0.0, convert(sample)))

    def _grouped(self, bins: Iterable[Iterable[Sample]]) -> Iterator[Sample]:
        everything = sorted((sample for each in bins for sample in each), key=lambda sample: sample.seconds)
        now_seconds = max(self._newest_seconds - NOW_SECONDS, self.changed_seconds)
        for sample in everything:
            is_new = sample.seconds >= now_seconds
            yield Sample(sample.seconds, sample.watts, sample.load, NOW if is_new else BEFORE)


class Tracker:
    """A curve that follows a meter while there is one; a `Model` like any other."""

    source = PowerSource.MODEL

    def __init__(self, curve: CurveModel, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._curve = curve
        self._training = curve.origin.training
        self._sums = CorrectionSums(self._curve.full_cpu_watts)
        self._correction = Correction()
        self._memory = StratifiedMemory()
        self._last: Sample | None = None
        self._curve_errors: deque[tuple[float, float]] = deque(maxlen=_WINDOW)
        self._error_ratios: deque[float] = deque(maxlen=_WINDOW)
        self._readings_to_refit = _MIN_IN_WINDOW
        self._refit_interval = _READINGS_BETWEEN_REFITS
        self._missed = 0
        self._missed_since_seconds = 0.0
        self._before: CurveModel | None = None
        """The curve that was right until the machine changed."""

    @property
    def scope(self) -> Scope:
        return self._curve.scope

    @property
    def curve(self) -> CurveModel:
        """The curve without the correction by recent readings."""
        return self._curve

    @property
    def stale_seconds(self) -> float | None:
        """Time since the last reading; None if there was none."""
        return None if self._last is None else max(0.0, self._clock() - self._last.seconds)

    @property
    def error_ratio(self) -> float:
        """The error of recent readings; with time since the last one, it approaches that of the curve."""
        stale_seconds = self.stale_seconds
        if stale_seconds is None or not self._error_ratios:
            return self._curve.error_ratio
        recent_error_ratio = max(_MIN_ERROR_RATIO, fmean(self._error_ratios))
        return recent_error_ratio + max(0.0, self._curve.error_ratio - recent_error_ratio) * (
            1 - exp(-stale_seconds / _STALE_SECONDS)
        )

    def terms(self, load: Load) -> Terms:
        return corrected_terms(self._curve, self._correction, self._training, load)

    def expected_watts(self, load: Load) -> float:
        """The expected next reading: the last one, plus the change that the model estimates."""
        watts = self.terms(load).watts
        if self._last is not None:
            watts = self._last.watts + _FOLLOWED * (watts - self.terms(self._last.load).watts)
        return min(max(watts, self._training.floor_watts), self._training.ceiling_watts)

    def describe(self) -> str:
        stale_seconds = self.stale_seconds
        if stale_seconds is None:
            comparison = "not yet compared with a meter"
        else:
            comparison = f"compared with a meter {timedelta(seconds=round(stale_seconds))} ago"
        return f"{self._curve.describe()}; {comparison}, now ±{self.error_ratio:.0%}"

    def observe(self, load: Load, watts: float) -> None:
        """Learn from one reading of the meter, taken now."""
        sample = Sample(self._clock(), watts, load)
        self._error_ratios.append(abs(self.terms(load).watts - watts) / max(1.0, watts))
        curve_error_watts = abs(self._curve.terms(load).watts - watts)
        self._curve_errors.append((curve_error_watts, watts))
        self._memory.add(sample)
        self._last = sample
        self._readings_to_refit -= 1
        observed = self._training.watts
        self._training = msgspec.structs.replace(
            self._training, watts=Range(min(observed.low, watts), max(observed.high, watts))
        )
        if self._detect_change(sample.seconds, missed=curve_error_watts > _allowed_watts(watts)):
            self._memory.convert_older(self._conversion())
            self._before = self._curve if self._was_right_before(self._missed_since_seconds) else None
            self._memory.mark_change(self._missed_since_seconds)
            self._relearn(self._missed_since_seconds)
            self._refit_interval = self._readings_to_refit = _READINGS_AFTER_A_CHANGE
        else:
            self._learn(sample)

    @property
    def refit_due(self) -> bool:
        """Whether the error of the curve is too large, and there are enough samples for another one."""
        if self._readings_to_refit > 0 or len(self._curve_errors) < _MIN_IN_WINDOW:
            return False
        error_watts = median(error for error, _ in self._curve_errors)
        return error_watts > _allowed_watts(median(watts for _, watts in self._curve_errors))

    def request(self) -> FitRequest:
        """The request for a fit; the next one is due after an offer, or after enough other samples."""
        self._readings_to_refit = self._refit_interval
        origin = self._curve.origin
        return FitRequest(
            samples=self._memory.samples(self._conversion()),
            kind="curve",
            host=origin.host,
            scaling=origin.scaling,
            metered=origin.metered,
            cap_watts=self._training.cap_watts,
            current_group=NOW,
            current_weight=_WEIGHT_AFTER_A_CHANGE if self._memory.is_mixed else 1.0,
        )

    def offer(self, candidate: CurveModel) -> bool:
        """Accept a new curve if it is better on held-out samples; return whether it is."""
        error_ratio = self._memory.error_ratio(candidate)
        current_error_ratio = self._memory.error_ratio(self._curve)
        if error_ratio is None or current_error_ratio is None:
            self._readings_to_refit = _READINGS_AFTER_A_CHANGE
            return False
        if error_ratio >= current_error_ratio:
            self._refit_interval = min(2 * self._refit_interval, _MAX_READINGS_BETWEEN_REFITS)
            self._readings_to_refit = self._refit_interval
            return False
        self._curve = candidate
        self._refit_interval = self._readings_to_refit = _READINGS_BETWEEN_REFITS
        self._curve_errors.clear()
        self._missed = 0
        assert self._last is not None, "without a reading, no sample is held out"
        self._relearn(max(self._missed_since_seconds, self._last.seconds - NOW_SECONDS))
        return True

    def snapshot(self, now: datetime) -> AdaptiveModel:
        """The state for estimates without a meter, here or on another host."""
        origin = msgspec.structs.replace(
            self._curve.origin, training=self._training, error_ratio=min(1.0, self.error_ratio)
        )
        return AdaptiveModel(
            origin=origin,
            curve=self._curve,
            correction=self._correction,
            read=now - timedelta(seconds=self.stale_seconds or 0.0),
        )

    def _was_right_before(self, seconds: float) -> bool:
        """Whether the machine changed, and not only the estimate: a first curve is a guess."""
        before = self._memory.before(seconds)
        if not before:
            return False
        error_watts = median(abs(self._curve.terms(sample.load).watts - sample.watts) for sample in before)
        return error_watts <= _allowed_watts(median(sample.watts for sample in before))

    def _conversion(self) -> Callable[[Sample], float]:
        """The function that converts the watts of a sample from before the last change to those of today.

        A change of level or gain applies at all loads, also at those that have not occurred since.
        """
        before = self._before
        if before is None:
            return lambda sample: sample.watts
        sums = CorrectionSums(before.full_cpu_watts)
        for sample in self._memory.since(self._memory.changed_seconds):
            _count(sums, before, sample)
        correction = sums.correction
        return lambda sample: sample.watts + correction.even_watts(before.free_terms(sample.load).cpu_watts)

    def _detect_change(self, seconds: float, *, missed: bool) -> bool:
        """Whether this reading proves a change of the machine."""
        if not missed:
            self._missed = max(0, self._missed - 1)
            return False
        if self._missed == 0:
            self._missed_since_seconds = seconds
        self._missed += 1
        return self._missed == _MISSES_FOR_A_CHANGE

    def _relearn(self, since_seconds: float) -> None:
        """Reset the correction, and learn it from the readings since then."""
        self._sums = CorrectionSums(self._curve.full_cpu_watts)
        self._learn(*self._memory.since(since_seconds))

    def _learn(self, *samples: Sample) -> None:
        for sample in samples:
            _count(self._sums, self._curve, sample)
        self._correction = self._sums.correction.rising(self._curve.least_rise_watts)


def _count(sums: CorrectionSums, curve: CurveModel, sample: Sample) -> None:
    terms = curve.free_terms(sample.load)
    sums.add(sample.seconds, curve.root(sample.load), terms.cpu_watts, sample.watts - terms.watts)


def _allowed_watts(watts: float) -> float:
    """The tolerated error of the curve."""
    return max(_REFIT_WATTS, _REFIT_RATIO * watts)

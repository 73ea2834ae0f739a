"""Errors of the adaptive model on generated machines that change under a meter, minute by minute.

A service changes its load about once per minute. After 15 minutes the machine changes in one of eight ways;
half an hour later the run ends. The error of a minute is the mean of |model - truth| / truth, where the model
is evaluated before it receives the reading. The learner is the agent's own, and starts with the prior; fits
run in this process instead of a child.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import sqrt
from random import Random
from statistics import fmean

from powermodels.common.interface import HostFacts, Load, Scope
from powermodels.fit.fitting import fit
from powermodels.learning.learner import Learner, first_curve
from powermodels.learning.refit import Refit
from powermodels.models.prior import PriorModel
from powermodels.models.samples import FitRequest
from powermodels.models.stored import Stored

SEEDS = range(8)
_PERIOD_SECONDS = 3
_CHANGE_SECONDS = 900
_END_SECONDS = 2700
_FROM_MINUTE = 5
_LEVELS = (0.02, 0.1, 0.3, 0.5, 0.8, 0.98)
_JUMP_CHANCE = 0.05
_METER_NOISE_RATIO = 0.005
_IDLE_WATTS = 48.0
_FACTS = HostFacts("Intel(R) Xeon(R) CPU E5-2667 v3 @ 3.20GHz", 1, 8, 16, 64 << 30)


def _cpu_watts(load: Load) -> float:
    return 70 * load.cpu_ratio + 35 * sqrt(load.cpu_ratio)


def _plain_watts(load: Load) -> float:
    return _IDLE_WATTS + _cpu_watts(load)


CHANGES: Mapping[str, Callable[[float, Load], float]] = {
    "fan on": lambda _, load: _plain_watts(load) + 15,
    "fan off": lambda _, load: _plain_watts(load) - 8,
    "lower frequency": lambda _, load: 0.7 * _plain_watts(load),
    "higher frequency": lambda _, load: _IDLE_WATTS + 1.3 * _cpu_watts(load),
    "lighter work": lambda _, load: _IDLE_WATTS + 0.7 * _cpu_watts(load),
    "other governor": lambda _, load: _IDLE_WATTS + 105 * load.cpu_ratio,
    "turbo": lambda _, load: _plain_watts(load) + 30 * load.cpu_ratio**3,
    "warming": lambda seconds, load: _plain_watts(load) + min(12.0, 12 * seconds / 600),
}
"""Power after each change, from the seconds since the change and the load."""


@dataclass(frozen=True, slots=True)
class MinuteErrors:
    """Errors per minute, from the fifth minute after a change."""

    minutes: tuple[float, ...]

    def share_below(self, error_ratio: float) -> float:
        return fmean(error < error_ratio for error in self.minutes)

    @property
    def worst(self) -> float:
        return max(self.minutes)


class _InProcess(Refit):
    def start(self, request: FitRequest, monotonic_seconds: float) -> Stored:
        del monotonic_seconds
        return fit(request, datetime(2000, 1, 1, tzinfo=UTC))


def follow(change: str, seed: int) -> MinuteErrors:
    """Run the model through one change."""
    chance = Random(f"meter {seed}")  # noqa: S311 - reproducible
    learner: Learner | None = None
    errors: list[float] = []
    for index, load in enumerate(_loads(seed)):
        seconds = index * _PERIOD_SECONDS
        changed_seconds = seconds - _CHANGE_SECONDS
        true_watts = _plain_watts(load) if changed_seconds < 0 else CHANGES[change](changed_seconds, load)
        watts = true_watts * (1 + chance.gauss(0.0, _METER_NOISE_RATIO))
        if learner is None:
            curve = first_curve(PriorModel.for_host(_FACTS), _FACTS, Scope.CPU, load, watts)
            learner = Learner(curve, None, _InProcess())
        errors.append(abs(learner.tracker.terms(load).watts - true_watts) / true_watts)
        learner.pass_time(seconds, load, _PERIOD_SECONDS)
        learner.learn(watts, 0.0)
    size = 60 // _PERIOD_SECONDS
    minutes = [fmean(errors[start : start + size]) for start in range(0, len(errors), size)]
    return MinuteErrors(tuple(minutes[_CHANGE_SECONDS // 60 + _FROM_MINUTE :]))


def follow_all(log: Callable[[str], None]) -> dict[str, MinuteErrors]:
    """Run all changes with all seeds."""
    results: dict[str, MinuteErrors] = {}
    for change in CHANGES:
        log(f"adaptive: {change}, {len(SEEDS)} runs")
        results[change] = MinuteErrors(tuple(m for seed in SEEDS for m in follow(change, seed).minutes))
    return results


def _loads(seed: int) -> list[Load]:
    chance = Random(f"load {seed}")  # noqa: S311 - reproducible
    loads, level = [], _LEVELS[1]
    for _ in range(_END_SECONDS // _PERIOD_SECONDS):
        if chance.random() < _JUMP_CHANCE:
            level = chance.choice(_LEVELS)
        loads.append(Load(min(1.0, max(0.0, chance.gauss(level, 0.03))), 0.4, 0.0, 0.0))
    return loads

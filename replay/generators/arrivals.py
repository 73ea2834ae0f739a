"""Arrival rates of requests over time: a daily pattern with noise, steps and spikes."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from msgspec import Meta

from collector.common.arrays import Floats
from replay.setup.scenario import NotNegative, Positive, Table

STEP_SECONDS = 10.0
_NOISE_SECONDS = 60.0
"""Time from one value of the noise to the next."""


@dataclass(frozen=True, eq=False)
class Arrivals:
    """Requests per second, a value per step."""

    step_seconds: float
    rates: Floats

    @property
    def seconds(self) -> float:
        """The duration of all steps."""
        return self.step_seconds * self.rates.size


class Burst(Table, frozen=True, kw_only=True):
    """A change of the rate, permanent or temporary."""

    at_seconds: NotNegative
    ratio: NotNegative
    """Factor of the rate."""
    seconds: Positive | None = None
    """Duration of the change; None lasts until the end."""
    ramp_seconds: NotNegative = 0.0
    """How long the rate takes to change."""


class ArrivalsSettings(Table, frozen=True, kw_only=True):
    """Settings of the generator."""

    seconds: Positive = 21_000.0
    requests_per_second: Positive
    """The mean over a day of the pattern, without bursts."""
    pattern: Annotated[tuple[NotNegative, ...], Meta(min_length=1)] = (1.0,)
    """Relative rates at equal distances over a day, from midnight; between them, rates are interpolated."""
    day_seconds: Positive = 86_400.0
    """Duration of a day of the pattern: shorter if it is accelerated."""
    start_seconds: NotNegative = 0.0
    """The time of the pattern's day at which the arrivals begin."""
    noise_ratio: Annotated[float, Meta(ge=0, lt=1)] = 0.05
    """Standard deviation of the noise, relative to the rate."""
    day_noise_ratio: Annotated[float, Meta(ge=0, lt=1)] = 0.1
    """Standard deviation of the noise of whole days: how much one day differs from the next."""
    bursts: tuple[Burst, ...] = ()


def generate_arrivals(settings: ArrivalsSettings, seed: int) -> Arrivals:
    """Generate rates: the same for the same settings and seed."""
    random = np.random.default_rng(seed)
    steps = int(settings.seconds / STEP_SECONDS)
    at: Floats = STEP_SECONDS * (np.arange(steps, dtype=np.float64) + 0.5)
    rates = settings.requests_per_second * _pattern(settings, at)
    rates *= np.exp(settings.noise_ratio * _noise(random, at, _NOISE_SECONDS))
    rates *= np.exp(settings.day_noise_ratio * _noise(random, at, settings.day_seconds))
    for burst in settings.bursts:
        rates *= 1 + (burst.ratio - 1) * _share(burst, at)
    return Arrivals(STEP_SECONDS, rates)


def _pattern(settings: ArrivalsSettings, at: Floats) -> Floats:
    values = np.array(settings.pattern)
    if not values.mean():
        return np.zeros_like(at)
    hours = (at + settings.start_seconds) / settings.day_seconds % 1 * values.size
    found: Floats = np.interp(hours, np.arange(values.size + 1), [*values, values[0]]) / values.mean()
    return found


def _noise(random: np.random.Generator, at: Floats, seconds: float) -> Floats:
    """Interpolated normal values, with one value every `seconds`."""
    knots = np.arange(int(at[-1] / seconds) + 2) if at.size else np.arange(1)
    found: Floats = np.interp(at / seconds, knots, random.standard_normal(knots.size))
    return found


def _share(burst: Burst, at: Floats) -> Floats:
    """How far the burst is in effect, from 0 to 1."""
    ramp = max(burst.ramp_seconds, STEP_SECONDS / 2)
    begun = np.clip((at - burst.at_seconds) / ramp, 0, 1)
    if burst.seconds is None:
        return begun
    ended: Floats = np.clip((at - burst.at_seconds - burst.seconds) / ramp, 0, 1)
    return begun - ended

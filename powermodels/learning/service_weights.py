"""Learns how much power the CPU time of each service takes, compared with the average of its node.

Equal CPU time is not equal power: memory-bound code and vector code differ by a factor of two and more. With
a meter, the difference shows when the usage of one service changes and that of the others does not. Usage and
metered power are averaged over windows; from one window to the next,

    change of watts = sum over services of weight * change of the CPU watts that its usage gets on the curve

The weights follow by normalised least mean squares: a few operations and four numbers per service, whatever
the number of services. Differences of windows leave out everything that is constant: idle power, and services
whose usage does not change keep the weight 1.

Weights are used only if they predict better than one common weight. Every fourth window is held out: neither
learns from it, and both predict it. Student's paired test, one-sided at 5 %, compares their squared errors.
"""

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from math import exp, fsum, isfinite, sqrt
from typing import Self

from powermodels.common.interface import Load
from powermodels.models.adaptive import LearnedWeights

SYSTEM = ""
"""Stands for processes outside containers among the names of services."""
WINDOW_SECONDS = 30.0
_HOLD_OUT_EVERY = 4
# Share of the correction that would explain a window completely; the rest may be noise, or other services.
_RATE = 0.15
# Changes of power below this share of the whole are noise of the meter.
_NOISE_RATIO = 0.02
# Processes of equal CPU time differ by a factor of two to four.
_LOWEST, _HIGHEST = 0.25, 4.0
_MIN_HELD_OUT = 12
# Student's t for 12 windows; it is 1.65 for very many.
_QUANTILE = 1.8
# Number of held-out windows in the sums of the test: an application can change.
_MEMORY_WINDOWS = 60
_MAX_SERVICES = 1000
_LEAST_USUAL_WATTS = exp(-2880 / _MEMORY_WINDOWS)
"""A service that took 1 W is dropped a day after its last use; that outlasts restarts."""


@dataclass(slots=True)
class _Service:
    weight: float = 1.0
    watt_seconds: float = 0.0
    """Energy of its usage on the curve, in the current window."""
    before_watts: float = 0.0
    """Mean of the last window."""
    usual_watts: float = 0.0
    """Exponentially weighted mean over windows."""


@dataclass(slots=True)
class _HeldOut:
    """Exponentially weighted sums over held-out windows."""

    count: float = 0.0
    gain: float = 0.0
    squared_gain: float = 0.0
    error: float = 0.0
    common_error: float = 0.0

    def add(self, error: float, common_error: float) -> None:
        """Add the squared errors of one window, relative to the power of the node."""
        decay = 1 - 1 / _MEMORY_WINDOWS
        gain = common_error - error
        self.count = decay * self.count + 1
        self.gain = decay * self.gain + gain
        self.squared_gain = decay * self.squared_gain + gain * gain
        self.error = decay * self.error + error
        self.common_error = decay * self.common_error + common_error

    @property
    def is_better(self) -> bool:
        """Whether own weights predict better than a common one."""
        if self.count < _MIN_HELD_OUT * (1 - _MIN_HELD_OUT / (2 * _MEMORY_WINDOWS)):
            return False
        mean = self.gain / self.count
        variance = max(0.0, self.squared_gain / self.count - mean * mean)
        return mean > _QUANTILE * sqrt(variance / self.count)

    @property
    def error_share(self) -> float:
        """The remaining error with own weights, 0-1."""
        return 1.0 if self.common_error <= 0 else min(1.0, sqrt(self.error / self.common_error))


@dataclass(slots=True)
class ServiceWeights:
    """The weights of the services of one node."""

    _services: dict[str, _Service] = field(default_factory=dict)
    _common_weight: float = 1.0
    _seconds: float = 0.0
    _metered: float = 0.0
    """Watt-seconds in the current window, without the watts of other resources than CPU on the curve."""
    _before_watts: float | None = None
    _windows: int = 0
    _held_out: _HeldOut = field(default_factory=_HeldOut)

    @classmethod
    def restored(cls, stored: LearnedWeights) -> Self:
        """Continue from what was learned before a restart; the first window is compared with none.

        A damaged file may say anything.
        """
        valid = (
            (name, _Service(_bounded(weight), usual_watts=watts))
            for name, (weight, watts) in stored.services.items()
            if isfinite(weight) and isfinite(watts) and watts >= 0
        )
        most_first = sorted(valid, key=lambda each: -each[1].usual_watts)
        count, _, *sums = stored.held_out
        is_valid = all(map(isfinite, stored.held_out)) and min(count, *sums) >= 0
        held_out = _HeldOut(*stored.held_out) if is_valid else _HeldOut()
        return cls(dict(most_first[:_MAX_SERVICES]), _bounded(stored.common_weight), _held_out=held_out)

    def learned(self) -> LearnedWeights:
        """Return what was learned, to store it."""
        services = {name: (each.weight, each.usual_watts) for name, each in self._services.items()}
        return LearnedWeights(services, self._common_weight, astuple(self._held_out))

    def observe(self, metered_watts: float, cpu_watts: Mapping[str, float], seconds: float) -> None:
        """Add one reading of the meter.

        `metered_watts` is without the power of other resources than CPU; `cpu_watts` is the power of each
        service if all CPU time takes the same.
        """
        if seconds <= 0:
            return
        self._seconds += seconds
        self._metered += metered_watts * seconds
        for name, watts in cpu_watts.items():
            service = self._services.get(name)
            if service is None:
                if len(self._services) >= _MAX_SERVICES:
                    continue
                service = self._services[name] = _Service()
            service.watt_seconds += watts * seconds
        if self._seconds >= WINDOW_SECONDS:
            self._end_window()

    def skip(self) -> None:
        """Discard the current window, since the meter has no value; the next one is compared with none."""
        self._seconds = self._metered = 0.0
        self._before_watts = None
        for service in self._services.values():
            service.watt_seconds = 0.0

    @property
    def are_used(self) -> bool:
        """Whether own weights are proven to be better than a common one."""
        return self._held_out.is_better

    def weight(self, name: str) -> float:
        """Power of a service's CPU time, relative to the average; 1 if it is not learned."""
        service = self._services.get(name)
        if service is None or not self.are_used:
            return 1.0
        return _bounded(service.weight / self._mean_weight())

    @property
    def error_share(self) -> float:
        """The error with own weights as a share of the error without, 0-1; 1 if they are not used."""
        return self._held_out.error_share if self.are_used else 1.0

    def _mean_weight(self) -> float:
        """Mean weight of all services, weighted by their usual power."""
        usual = sum(service.usual_watts for service in self._services.values())
        weighted = sum(service.usual_watts * service.weight for service in self._services.values())
        return weighted / usual if usual > 0 else 1.0

    def _end_window(self) -> None:
        watts = self._metered / self._seconds
        changes: list[tuple[_Service, float]] = []
        for service in self._services.values():
            mean = service.watt_seconds / self._seconds
            changes.append((service, mean - service.before_watts))
            service.before_watts, service.watt_seconds = mean, 0.0
            service.usual_watts += (mean - service.usual_watts) / _MEMORY_WINDOWS
        before, self._before_watts = self._before_watts, watts
        self._seconds = self._metered = 0.0
        if before is not None:
            self._learn(watts - before, changes, max(watts, before))
        self._windows += 1
        self._services = {
            name: service
            for name, service in self._services.items()
            if service.usual_watts >= _LEAST_USUAL_WATTS
        }

    def _learn(self, change_watts: float, changes: list[tuple[_Service, float]], watts: float) -> None:
        noise = (_NOISE_RATIO * watts) ** 2
        squares = sum(change * change for _, change in changes)
        if squares <= noise:
            return
        total = sum(change for _, change in changes)
        error = change_watts - sum(service.weight * change for service, change in changes)
        common_error = change_watts - self._common_weight * total
        if self._windows % _HOLD_OUT_EVERY == 0:
            self._held_out.add((error / watts) ** 2, (common_error / watts) ** 2)
            return
        for service, change in changes:
            service.weight = _bounded(service.weight + _RATE * error * change / (squares + noise))
        common_weight = self._common_weight + _RATE * common_error * total / (total**2 + noise)
        self._common_weight = _bounded(common_weight)


def _bounded(weight: float) -> float:
    return min(_HIGHEST, max(_LOWEST, weight))


def shares_by_service(
    load: Load, containers: Mapping[str, Load], services: Mapping[str, str]
) -> dict[str, float]:
    """The share of each service in the CPU usage of the host, and that of the system."""
    total = fsum(max(0.0, each.cpu_ratio) for each in containers.values())
    whole = max(load.cpu_ratio, total)
    if whole <= 0:
        return {}
    shares = {SYSTEM: (whole - total) / whole}
    for name, each in containers.items():
        service = services.get(name, name)
        shares[service] = shares.get(service, 0.0) + max(0.0, each.cpu_ratio) / whole
    return shares

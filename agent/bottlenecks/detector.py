"""Opens an alert when a resource of the node is a bottleneck, and closes it. Pure.

An alert opens after `bottleneck.samples` consecutive samples in which any indicator of the resource
(`indicators`) is above its limit, and closes after as many in which all are below the limit by the
hysteresis. Values in between neither open nor close it, so a value around its limit causes one alert and not
twenty.

A sample without a value for the resource is skipped. An open alert also waits for the indicators that opened
it. If they stay unreadable for long, the alert closes, and its evidence states the reason.

An open alert is raised again when another container uses the most, or when the share that must go differs
from the last one by half the hysteresis, or exceeds it by half, in as many samples as open an alert.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import fmean

from msgspec.structs import replace

from agent.bottlenecks.indicators import (
    HYSTERESIS_RATIO,
    INDICATORS,
    PRESSURE_RATIO,
    USAGE_RATIO,
    Indicator,
    Level,
    format_amount,
)
from agent.config import BottleneckConfig
from agent.sampling.node_sample import NodeSample, display_name
from agent.sampling.rates import HostRates
from wire.messages import Alert
from wire.resources import RESOURCES, Resource

_UNREADABLE_FACTOR = 10
"""An alert whose indicators are unreadable closes after this many times `bottleneck.samples`."""
_LEAST_GROWTH = 0.02
"""Keeps a small share that must go from being sent at every change."""
_REPLACE_FACTOR = 1.2
"""Keeps the alert from alternating between two containers of about the same usage."""


class BottleneckDetector:
    """Detects bottlenecks of all resources."""

    def __init__(self, settings: BottleneckConfig) -> None:
        self._detectors = tuple(_ResourceDetector(resource, settings) for resource in RESOURCES)

    def update(self, sample: NodeSample) -> tuple[Alert, ...]:
        """Alerts that this sample opened, changed or closed."""
        alerts = (each.update(sample) for each in self._detectors)
        return tuple(alert for alert in alerts if alert is not None)

    @property
    def open_alerts(self) -> tuple[Alert, ...]:
        return tuple(each.open_alert.alert for each in self._detectors if each.open_alert is not None)


@dataclass(slots=True)
class _Pending:
    """Consecutive samples above a limit, still too few to open an alert."""

    samples: int = 0
    seconds: float = 0.0
    values: defaultdict[Indicator, list[float]] = field(default_factory=lambda: defaultdict(list))
    usage: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Usage of each container, summed over the samples."""

    def add(self, rates: HostRates, indicators: Iterable[Indicator], usage: Mapping[str, float]) -> None:
        self.samples += 1
        self.seconds += rates.interval_seconds
        for indicator in indicators:
            self.values[indicator].append(indicator.value(rates) or 0.0)
        for container, used in usage.items():
            self.usage[container] += used

    def evidence(self, rates: HostRates) -> str:
        first, *others = (
            indicator.describe(rates, fmean(values)) for indicator, values in self.values.items()
        )
        return "; ".join((f"{first} for {self.seconds:.0f} s", *others))


@dataclass(slots=True)
class _OpenAlert:
    """An open alert, and the state that closes it."""

    alert: Alert
    evidence: str
    opened_monotonic_seconds: float
    indicators: set[Indicator]
    """Indicators that were above their limit since it opened."""
    excesses: list[tuple[float, bool]]
    """The share that must go in the last samples, and whether it is one of time."""
    below_samples: int = 0
    candidate: str | None = None
    """A container that used more than the named one in the last `candidate_samples` samples."""
    candidate_samples: int = 0


class _ResourceDetector:
    """Detects bottlenecks of one resource."""

    def __init__(self, resource: Resource, settings: BottleneckConfig) -> None:
        self._settings = settings
        self.open_alert: _OpenAlert | None = None
        self._pending = _Pending()
        self._unreadable_samples = 0
        self._resource = resource
        self._indicators = tuple(indicator for indicator in INDICATORS if indicator.resource is resource)

    def update(self, sample: NodeSample) -> Alert | None:
        """The alert, if this sample opens, changes or closes it."""
        levels = {
            indicator: level
            for indicator in self._indicators
            if (level := indicator.level(sample.rates, self._settings)) is not None
        }
        needed = self.open_alert.indicators if self.open_alert is not None else set()
        if not levels or not needed <= levels.keys():
            return self._skip(sample)
        self._unreadable_samples = 0
        if self.open_alert is None:
            return self._update_pending(sample, levels)
        return self._update_open(self.open_alert, sample, levels)

    def _skip(self, sample: NodeSample) -> Alert | None:
        """Count a sample without values for the resource."""
        self._unreadable_samples += 1
        if self.open_alert is None:
            if self._unreadable_samples >= self._settings.samples and self._pending.samples:
                self._pending = _Pending()
            return None
        if self._unreadable_samples < self._settings.samples * _UNREADABLE_FACTOR:
            return None
        return self._close(self.open_alert, sample, "closed without measurements after")

    def _update_pending(self, sample: NodeSample, levels: Mapping[Indicator, Level]) -> Alert | None:
        above = {indicator for indicator, level in levels.items() if level is Level.ABOVE}
        if not above:
            if self._pending.samples:
                self._pending = _Pending()
            return None
        pending, rates = self._pending, sample.rates
        pending.add(rates, levels, self._usage_by_container(sample))
        if pending.samples < self._settings.samples:
            return None
        self._pending = _Pending()
        evidence = pending.evidence(rates)
        alert = Alert(resource=self._resource, opened_at=rates.unix_seconds, evidence=evidence)
        excesses = [self._excess(sample, levels)]
        self.open_alert = _OpenAlert(alert, evidence, sample.monotonic_seconds, above, excesses)
        usage = {container: used / pending.samples for container, used in pending.usage.items()}
        return self._name(self.open_alert, sample, usage)

    def _update_open(
        self, open_alert: _OpenAlert, sample: NodeSample, levels: Mapping[Indicator, Level]
    ) -> Alert | None:
        open_alert.indicators |= {indicator for indicator, level in levels.items() if level is Level.ABOVE}
        open_alert.below_samples = open_alert.below_samples + 1 if max(levels.values()) is Level.BELOW else 0
        if open_alert.below_samples >= self._settings.samples:
            return self._close(open_alert, sample, "closed after")
        usage = self._usage_by_container(sample)
        candidate = _find_replacement(open_alert.alert.container, usage)
        open_alert.candidate_samples = (
            open_alert.candidate_samples + 1 if candidate == open_alert.candidate else 1
        )
        open_alert.candidate = candidate
        excesses = [*open_alert.excesses, self._excess(sample, levels)]
        open_alert.excesses = excesses[-self._settings.samples :]
        if candidate is not None and open_alert.candidate_samples >= self._settings.samples:
            return self._name(open_alert, sample, usage)
        sent, much = open_alert.alert.excess_ratio or 0.0, HYSTERESIS_RATIO / 2
        shares = [excess for excess, _ in open_alert.excesses]
        has_grown = min(shares) - sent >= min(much, max(_LEAST_GROWTH, sent / 2))
        return self._change(open_alert, sample) if has_grown or sent - max(shares) >= much else None

    def _name(self, open_alert: _OpenAlert, sample: NodeSample, usage: Mapping[str, float]) -> Alert:
        """Set the container with the highest usage and the current values in the alert."""
        names = {container.id: container.info.name for container in sample.containers}
        # Only containers that still run: nothing can be done about the others.
        present = [container for container in usage if container in names]
        top = max(present, key=usage.__getitem__, default=None)
        evidence, name = open_alert.evidence, None
        if top is not None:
            name = display_name(names[top], top)
            evidence += f"; highest usage: {name}, {format_amount(self._resource, usage[top])}"
        return self._change(open_alert, sample, evidence=evidence, container=top, name=name)

    def _change(self, open_alert: _OpenAlert, sample: NodeSample, **changes: str | None) -> Alert:
        """Change the alert, and set what must go and the current ratios."""
        excess, by_time = max(open_alert.excesses)
        ratios = self._current_ratios(sample)
        open_alert.alert = replace(
            open_alert.alert, excess_ratio=excess, by_time=by_time, **ratios, **changes
        )
        return open_alert.alert

    def _excess(self, sample: NodeSample, indicators: Iterable[Indicator]) -> tuple[float, bool]:
        """Return the largest share that must go, and whether it is one of time."""
        return max((each.excess(sample.rates, self._settings), each.is_by_time) for each in indicators)

    def _close(self, open_alert: _OpenAlert, sample: NodeSample, how: str) -> Alert:
        self.open_alert = None
        self._unreadable_samples = 0
        alert = open_alert.alert
        open_seconds = sample.monotonic_seconds - open_alert.opened_monotonic_seconds
        return replace(
            alert,
            evidence=f"{alert.evidence}; {how} {open_seconds:.0f} s",
            # The clock may have been set back: an alert must not close before it opens.
            closed_at=max(alert.opened_at, sample.rates.unix_seconds),
            **self._current_ratios(sample),
        )

    def _current_ratios(self, sample: NodeSample) -> dict[str, float | None]:
        return {
            "ratio": USAGE_RATIO[self._resource](sample.rates),
            "pressure_ratio": PRESSURE_RATIO[self._resource](sample.rates),
        }

    def _usage_by_container(self, sample: NodeSample) -> dict[str, float]:
        """Usage of the resource by container, without unknown and zero values."""
        return {
            container.id: used
            for container in sample.containers
            if (used := container.rates.used.of(self._resource))
        }


def _find_replacement(named: str | None, usage: Mapping[str, float]) -> str | None:
    """The container with clearly higher usage than the named one, if there is one."""
    top = max(usage, key=usage.__getitem__, default=None)
    if top is None or usage[top] < _REPLACE_FACTOR * usage.get(named or "", 0.0):
        return None
    return top

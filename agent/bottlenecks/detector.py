"""The node examines itself: is it short of something, since when, and by whose doing? Pure.

An alert opens when a sample shows any sign of a resource (`signs`) as often in a row as the settings
want, and ends when as many show none. Between its limit and some points below it, a sign is reason for
neither, so a value that hovers about its limit makes one alert and not twenty.

A sample in which a resource cannot be seen is as if it had not been taken: it breaks no row. An alert also
waits for a sign that it was opened by and that cannot be read now. But nobody can act upon a shortage that
nobody can see: what stays unseen for long is forgotten, and an alert of it ends and says so.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import fmean

from msgspec.structs import replace

from agent.bottlenecks.signs import SIGNS, Heat, Sign, amount, pressure, use
from agent.config import BottleneckConfig
from agent.reporting.messages import name_of
from agent.sampling.node_sample import Picture
from agent.sampling.rates import Sample
from wire.messages import Alert
from wire.resources import RESOURCES, Resource

_PATIENCE_WITH_THE_UNSEEN = 10
"""An alert that cannot be seen to end ends after this many times the samples that it takes to see it."""
_CLEARLY_COSTLIER = 1.2
"""Two containers that use about the same must not take turns in being the costliest."""


class Watch:
    """Keeps an eye on the four resources; `settings` may be replaced while it does."""

    def __init__(self, settings: BottleneckConfig) -> None:
        self.settings = settings
        self._cases = tuple(_Case(resource) for resource in RESOURCES)

    def examine(self, picture: Picture) -> tuple[Alert, ...]:
        """Alerts that opened, ended or came to name another container at this tick."""
        news = (case.examine(picture, self.settings) for case in self._cases)
        return tuple(alert for alert in news if alert is not None)

    @property
    def open(self) -> tuple[Alert, ...]:
        """What the node is short of now."""
        return tuple(case.trouble.alert for case in self._cases if case.trouble is not None)


@dataclass(slots=True)
class _Doubt:
    """Samples in a row that look bad, while they are too few to be believed."""

    samples: int = 0
    seconds: float = 0.0
    values: defaultdict[Sign, list[float]] = field(default_factory=lambda: defaultdict(list))
    costs: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """What each container used, summed over the samples."""

    def add(self, sample: Sample, signs: Iterable[Sign], costs: Mapping[str, float]) -> None:
        self.samples += 1
        self.seconds += sample.interval_seconds
        for sign in signs:
            self.values[sign].append(sign.value(sample) or 0.0)
        for container, cost in costs.items():
            self.costs[container] += cost

    def evidence(self, sample: Sample) -> str:
        first, *others = (sign.says(sample, fmean(values)) for sign, values in self.values.items())
        return "; ".join((f"{first} for {self.seconds:.0f} s", *others))


@dataclass(slots=True)
class _Trouble:
    """An open alert, and what decides on its end."""

    alert: Alert
    evidence: str
    opened_monotonic_seconds: float
    blamed: set[Sign]
    """The signs that it was ever seen by."""
    cool_samples: int = 0
    rival: str | None = None
    """A container that costs more than the one that the alert names, for so many samples."""
    rival_samples: int = 0


class _Case:
    """One resource: well, in doubt, or in trouble."""

    def __init__(self, resource: Resource) -> None:
        self.trouble: _Trouble | None = None
        self._doubt = _Doubt()
        self._unseen_samples = 0
        self._resource = resource
        self._signs = tuple(sign for sign in SIGNS if sign.resource is resource)

    def examine(self, picture: Picture, settings: BottleneckConfig) -> Alert | None:
        """The alert, if this sample makes a difference to it."""
        heats = {
            sign: heat for sign in self._signs if (heat := sign.heat(picture.sample, settings)) is not None
        }
        needed = self.trouble.blamed if self.trouble is not None else set()
        if not heats or not needed <= heats.keys():
            return self._miss(picture, settings)
        self._unseen_samples = 0
        if self.trouble is None:
            return self._suspect(picture, settings, heats)
        return self._follow(self.trouble, picture, settings, heats)

    def _miss(self, picture: Picture, settings: BottleneckConfig) -> Alert | None:
        """Nothing to be seen in this sample."""
        self._unseen_samples += 1
        if self.trouble is None:
            if self._unseen_samples >= settings.samples:
                self._doubt = _Doubt()
            return None
        if self._unseen_samples < settings.samples * _PATIENCE_WITH_THE_UNSEEN:
            return None
        return self._close(self.trouble, picture, "no longer to be seen after")

    def _suspect(
        self, picture: Picture, settings: BottleneckConfig, heats: Mapping[Sign, Heat]
    ) -> Alert | None:
        hot = {sign for sign, heat in heats.items() if heat is Heat.HOT}
        if not hot:
            self._doubt = _Doubt()
            return None
        doubt, sample = self._doubt, picture.sample
        doubt.add(sample, heats, self._costs(picture))
        if doubt.samples < settings.samples:
            return None
        self._doubt = _Doubt()
        evidence = doubt.evidence(sample)
        alert = Alert(resource=self._resource, opened_at=sample.unix_seconds, evidence=evidence)
        self.trouble = _Trouble(alert, evidence, picture.monotonic_seconds, hot)
        costs = {container: cost / doubt.samples for container, cost in doubt.costs.items()}
        return self._name(self.trouble, picture, costs)

    def _follow(
        self, trouble: _Trouble, picture: Picture, settings: BottleneckConfig, heats: Mapping[Sign, Heat]
    ) -> Alert | None:
        trouble.blamed |= {sign for sign, heat in heats.items() if heat is Heat.HOT}
        trouble.cool_samples = trouble.cool_samples + 1 if max(heats.values()) is Heat.COOL else 0
        if trouble.cool_samples >= settings.samples:
            return self._close(trouble, picture, "ended after")
        costs = self._costs(picture)
        rival = _rival(trouble.alert.container, costs)
        trouble.rival_samples = trouble.rival_samples + 1 if rival == trouble.rival else 1
        trouble.rival = rival
        if rival is None or trouble.rival_samples < settings.samples:
            return None
        return self._name(trouble, picture, costs)

    def _name(self, trouble: _Trouble, picture: Picture, costs: Mapping[str, float]) -> Alert:
        """Put the costliest container into the alert, and how things are now."""
        names = {container.id: container.info.name for container in picture.containers}
        # Not one that is gone by now: nothing could be done about it.
        present = [container for container in costs if container in names]
        costliest = max(present, key=costs.__getitem__, default=None)
        evidence, name = trouble.evidence, None
        if costliest is not None:
            name = name_of(names[costliest], costliest)
            evidence += f"; costliest container: {name}, {amount(self._resource, costs[costliest])}"
        trouble.alert = replace(
            trouble.alert, evidence=evidence, container=costliest, name=name, **self._now(picture)
        )
        return trouble.alert

    def _close(self, trouble: _Trouble, picture: Picture, how: str) -> Alert:
        self.trouble = None
        self._unseen_samples = 0
        alert = trouble.alert
        lasted_seconds = picture.monotonic_seconds - trouble.opened_monotonic_seconds
        return replace(
            alert,
            evidence=f"{alert.evidence}; {how} {lasted_seconds:.0f} s",
            # The clock may have been set back; an alert that ends before it began would be nonsense.
            closed_at=max(alert.opened_at, picture.sample.unix_seconds),
            **self._now(picture),
        )

    def _now(self, picture: Picture) -> dict[str, float | None]:
        return {
            "ratio": use(self._resource)(picture.sample),
            "pressure_ratio": pressure(self._resource)(picture.sample),
        }

    def _costs(self, picture: Picture) -> dict[str, float]:
        """What each container uses of the resource, where that is known and not nothing."""
        return {
            container.id: cost
            for container in picture.containers
            if (cost := container.sample.used.of(self._resource))
        }


def _rival(named: str | None, costs: Mapping[str, float]) -> str | None:
    """The container that costs clearly more than the one named, if there is one."""
    costliest = max(costs, key=costs.__getitem__, default=None)
    if costliest is None or costs[costliest] < _CLEARLY_COSTLIER * costs.get(named or "", 0.0):
        return None
    return costliest

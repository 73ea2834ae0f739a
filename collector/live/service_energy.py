"""Power and energy of each service, from the reported power of its containers."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_MAX_ENDED = 10_000
"""Services without containers whose energy is kept, so that it goes on when they run again."""


@dataclass(frozen=True, slots=True)
class ServicePower:
    """A service with containers that report power."""

    service: str
    watts: float
    joules_total: float


class ServiceEnergy:
    """Adds up the power of services over time, since the collector started."""

    def __init__(self) -> None:
        self._at: float | None = None
        self._watts: Mapping[str, float] = {}
        self._joules: dict[str, float] = {}

    def update(self, watts: Mapping[str, float], now: float) -> list[ServicePower]:
        """Count the time since the last update at the power set then; `watts` is the power from now on."""
        seconds = 0.0 if self._at is None else max(0.0, now - self._at)
        for service, before in self._watts.items():
            self._joules[service] = self._joules.get(service, 0.0) + before * seconds
        self._at, self._watts = now, dict(watts)
        if len(self._joules) > len(watts) + _MAX_ENDED:
            self._joules = {service: self._joules.get(service, 0.0) for service in watts}
        return [ServicePower(name, each, self._joules.get(name, 0.0)) for name, each in watts.items()]


def sum_watts(reported: Iterable[tuple[str, float]]) -> dict[str, float]:
    """The power of each service, from that of its containers."""
    found: dict[str, float] = {}
    for service, watts in reported:
        found[service] = found.get(service, 0.0) + watts
    return found

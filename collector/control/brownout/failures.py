"""Services that could not be stopped or started: how long each is left alone. Pure."""

from collections.abc import Callable, Collection

from collector.config.brownout import BrownoutConfig
from collector.control.brownout.rule import calm_seconds


class Failures:
    """Attempts that failed in a row, by service. The time until the next one doubles with each."""

    def __init__(self, settings: BrownoutConfig, clock: Callable[[], float]) -> None:
        self._settings, self._clock = settings, clock
        self._failed: dict[str, tuple[int, float]] = {}
        """How often, and when last."""

    def __contains__(self, key: str) -> bool:
        return key in self._failed

    def note(self, key: str, *, failed: bool) -> None:
        """Count an attempt; one that succeeds ends the row."""
        if failed:
            times, _ = self._failed.get(key, (0, 0.0))
            self._failed[key] = times + 1, self._clock()
        else:
            self._failed.pop(key, None)

    def seconds_left(self, key: str) -> float:
        """How long a service is left alone; 0 if it is not."""
        if key not in self._failed:
            return 0.0
        times, last = self._failed[key]
        return max(0.0, last + calm_seconds(times, self._settings) - self._clock())

    def keep(self, keys: Collection[str]) -> None:
        """Forget all other services."""
        self._failed = {key: each for key, each in self._failed.items() if key in keys}

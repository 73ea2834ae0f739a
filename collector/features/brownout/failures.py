"""Services that could not be stopped or started: how long each waits for the next attempt. Pure."""

from collections.abc import Callable, Collection

from collector.features.brownout.rule import required_calm_seconds
from collector.features.brownout.settings import BrownoutConfig


class Failures:
    """Consecutive failed attempts, by service. The time until the next attempt doubles with each."""

    def __init__(self, settings: BrownoutConfig, clock: Callable[[], float]) -> None:
        self._settings, self._clock = settings, clock
        self._failed: dict[str, tuple[int, float]] = {}
        """Number of failures, and the time of the last."""

    def __contains__(self, key: str) -> bool:
        return key in self._failed

    def record(self, key: str, *, failed: bool) -> None:
        """Record an attempt; a success resets the count."""
        if failed:
            times, _ = self._failed.get(key, (0, 0.0))
            self._failed[key] = times + 1, self._clock()
        else:
            self._failed.pop(key, None)

    def seconds_left(self, key: str) -> float:
        """Return how long a service waits for the next attempt; 0 if it may be tried now."""
        if key not in self._failed:
            return 0.0
        times, last = self._failed[key]
        return max(0.0, last + required_calm_seconds(times, self._settings) - self._clock())

    def keep(self, keys: Collection[str]) -> None:
        """Forget all other services."""
        self._failed = {key: each for key, each in self._failed.items() if key in keys}

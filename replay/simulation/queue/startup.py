"""Start-up times, drawn from measured ones: on the same host as before, or on another one."""

import numpy as np

from collector.snapshot.tables import NOWHERE
from replay.setup.scenario import Startup


class StartupTimes:
    """Draws start-up times; the same seed gives the same times."""

    def __init__(self, settings: Startup, *, seed: int) -> None:
        self._same = np.array(settings.same_host_seconds)
        self._other = np.array(settings.other_host_seconds)
        self._first = settings.first
        self._random = np.random.default_rng([seed, len("start-up")])

    def draw(self, last_node: int, node: int) -> float | None:
        """Seconds until a container runs on a node; None if the start takes no time."""
        if last_node == NOWHERE and not self._first:
            return None
        measured = self._same if node == last_node else self._other
        return float(self._random.choice(measured))

"""Whether a node is up, suspect or down: one rule, for one node and for a column of nodes."""

from enum import IntEnum
from math import inf
from typing import Literal

import numpy as np
from numpy.typing import NDArray

LivenessLabel = Literal["up", "suspect", "down"]
"""Liveness in the API and in metrics."""
LIVENESS_LABELS: tuple[LivenessLabel, ...] = ("up", "suspect", "down")


class Liveness(IntEnum):
    """Whether reports of a node arrive on time. The numbers are the codes in columns."""

    UP = 0
    SUSPECT = 1
    """It missed some beacons: its last report may be out of date."""
    DOWN = 2
    """It missed enough beacons to count as failed."""

    @property
    def label(self) -> LivenessLabel:
        """The name in the API and in metrics."""
        return LIVENESS_LABELS[self]


_SUSPECT_RATIO = 0.5
"""A node is suspect after half of the beacons after which it is down."""
_SHORTEST_BEACON_SECONDS = 5.0
"""Lower bound of the beacon interval; also used before a node has reported its own."""


class LivenessRule:
    """Whether nodes are up, by the number of beacons that they missed since their last reports.

    While a start restores, no report can arrive: nodes are as they were at the start. From then on, those
    that were not down have as long to report as after a report.
    """

    def __init__(self, down_after_beacons: float) -> None:
        self._down_after_beacons = down_after_beacons
        self.started_at = -inf
        self.restored_at = -inf
        """Infinite while a start restores."""

    def of(self, now: float, last_report_at: float, beacon_seconds: float) -> Liveness:
        """Return the liveness of one node."""
        down_seconds = self._down_after_beacons * max(beacon_seconds, _SHORTEST_BEACON_SECONDS)
        age_seconds = self.started_at - last_report_at
        if now >= self.restored_at:
            is_lost = age_seconds > down_seconds
            age_seconds = now - (last_report_at if is_lost else max(last_report_at, self.restored_at))
        if age_seconds > down_seconds:
            return Liveness.DOWN
        return Liveness.SUSPECT if age_seconds > _SUSPECT_RATIO * down_seconds else Liveness.UP

    def column(
        self, now: float, last_report_at: NDArray[np.float64], beacon_seconds: NDArray[np.float64]
    ) -> NDArray[np.int8]:
        """Return the liveness of many nodes, as `of` does for one."""
        down_seconds = self._down_after_beacons * np.maximum(beacon_seconds, _SHORTEST_BEACON_SECONDS)
        age_seconds = self.started_at - last_report_at
        if now >= self.restored_at:
            is_lost = age_seconds > down_seconds
            age_seconds = now - np.where(
                is_lost, last_report_at, np.maximum(last_report_at, self.restored_at)
            )
        codes = np.full(age_seconds.size, Liveness.UP, dtype=np.int8)
        codes[age_seconds > _SUSPECT_RATIO * down_seconds] = Liveness.SUSPECT
        codes[age_seconds > down_seconds] = Liveness.DOWN
        return codes

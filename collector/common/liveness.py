"""Whether a node is up, suspect or down: one rule, for one node and for a column of nodes."""

from enum import IntEnum
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


def liveness_of(down_after_beacons: float, report_age_seconds: float, beacon_seconds: float) -> Liveness:
    """Return the liveness of one node, by the number of beacons that it missed."""
    down_seconds = down_after_beacons * max(beacon_seconds, _SHORTEST_BEACON_SECONDS)
    if report_age_seconds > down_seconds:
        return Liveness.DOWN
    return Liveness.SUSPECT if report_age_seconds > _SUSPECT_RATIO * down_seconds else Liveness.UP


def liveness_column(
    down_after_beacons: float, report_age_seconds: NDArray[np.float64], beacon_seconds: NDArray[np.float64]
) -> NDArray[np.int8]:
    """Return the liveness of many nodes, as `liveness_of` does for one."""
    down_seconds = down_after_beacons * np.maximum(beacon_seconds, _SHORTEST_BEACON_SECONDS)
    codes = np.full(report_age_seconds.size, Liveness.UP, dtype=np.int8)
    codes[report_age_seconds > _SUSPECT_RATIO * down_seconds] = Liveness.SUSPECT
    codes[report_age_seconds > down_seconds] = Liveness.DOWN
    return codes

"""Learns usage and margins from a snapshot, once for placements and plans."""

import numpy as np

from collector.decide.policies.least_watts.margins import FEWEST_WINDOWS, Margins, learn_margins
from collector.decide.policies.least_watts.settings import LeastWattsSettings
from collector.decide.policies.least_watts.usage import WINDOW_SECONDS, Usage, learn_usage
from collector.snapshot.columns import CPU
from collector.snapshot.tables import Snapshot

_FEWEST_TO_ASSUME = 4
"""Windows from which Student's t distribution has a variance."""


def learn(snapshot: Snapshot, settings: LeastWattsSettings) -> tuple[Usage, Margins]:
    """Return the expected use of containers, and the margins of nodes."""
    usage = snapshot.cached("usage", lambda: learn_usage(snapshot))
    ratios = settings.short_ratios
    freedom = _freedom(snapshot)
    key = "margins", freedom, *ratios.tolist()
    return usage, snapshot.cached(key, lambda: learn_margins(usage, ratios, _cores(snapshot), freedom))


def _freedom(snapshot: Snapshot) -> int:
    """The degrees of freedom of a typical container's variance: its windows less one, as an odd number.

    Pending tasks with a known use have the profile of their service, which takes an hour to learn.
    """
    windows = snapshot.cached("windows", lambda: _observed_windows(snapshot))
    if np.isnan(windows):
        windows = FEWEST_WINDOWS if snapshot.pending.is_known.any() else 0.0
    return int(min(max(windows, _FEWEST_TO_ASSUME), FEWEST_WINDOWS)) // 2 * 2 - 1


def _observed_windows(snapshot: Snapshot) -> float:
    """The median number of windows of the containers that are observed; NaN if none is."""
    seconds = snapshot.tasks.observed_seconds
    seconds = seconds[seconds > 0]
    return float(np.floor(np.median(seconds) / WINDOW_SECONDS)) if seconds.size else np.nan


def _cores(snapshot: Snapshot) -> float:
    """The CPU of a typical node."""
    known = snapshot.nodes.capacity[:, CPU]
    known = known[~np.isnan(known)]
    return float(np.median(known)) if known.size else 0.0

"""What `least-watts` learns of a snapshot: once, for placements and plans alike."""

import numpy as np

from collector.policies.least_watts.margins import Margins, learn_margins
from collector.policies.least_watts.settings import LeastWattsSettings
from collector.policies.least_watts.usage import Usage, learn_usage
from collector.policies.outlook import CPU
from collector.snapshot.tables import Snapshot


def learned(snapshot: Snapshot, settings: LeastWattsSettings) -> tuple[Usage, Margins]:
    """The expected use of containers, and the margins of nodes."""
    usage = snapshot.cached("usage", lambda: learn_usage(snapshot))
    ratios = settings.short_ratios
    key = "margins", *ratios.tolist()
    return usage, snapshot.cached(key, lambda: learn_margins(usage, ratios, _cores(snapshot)))


def _cores(snapshot: Snapshot) -> float:
    """The CPU of a typical node."""
    known = snapshot.nodes.capacity[:, CPU]
    known = known[~np.isnan(known)]
    return float(np.median(known)) if known.size else 0.0

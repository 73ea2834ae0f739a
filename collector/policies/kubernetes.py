"""How Kubernetes' scheduler scores nodes by what is requested: least, most and balanced allocation.

Whole points from 0 to 100, as there. A pod that requests nothing counts as 100 millicores and 200 MB, also as
there: else any number of such pods would count as nothing.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from collector.policies.interface import Policy, PolicySettings, Ranking, Request, ranked
from collector.policies.scoring import CPU_AND_MEMORY, amounts, each_percent, share, where_promises_fit
from collector.snapshot.power_curves import Floats
from collector.snapshot.tables import Snapshot

_AT_LEAST = np.array([0.1, 200 * 1024 * 1024.0])
_POINTS = 100.0
_ROUNDING = 1e-9

Score = Callable[[Floats], Floats]
"""From the shares of CPU and memory that are requested of each node, the pod counted, to points."""


def least_allocated(requested: Floats) -> Floats:
    """What is left of both, on average."""
    return _mean_of_points(1.0 - requested)


def most_allocated(requested: Floats) -> Floats:
    """What is requested of both, on average; nothing for what is beyond the whole."""
    return _mean_of_points(np.where(requested > 1.0, 0.0, requested))


def balanced_allocation(requested: Floats) -> Floats:
    """How near the share of CPU is to that of memory."""
    return _whole(1.0 - np.minimum(requested, 1.0).std(axis=1))


def _mean_of_points(ratios: Floats) -> Floats:
    mean: Floats = np.floor(_whole(np.clip(ratios, 0.0, 1.0)).mean(axis=1))
    return mean


def _whole(ratios: Floats) -> Floats:
    points: Floats = np.floor(ratios * _POINTS + _ROUNDING)
    return points


def place(
    score: Score, score_is: str, snapshot: Snapshot, request: Request, _settings: PolicySettings
) -> Ranking:
    """Nodes by points; of equals, the first by name, where Kubernetes draws one."""
    refused = where_promises_fit(snapshot, request)
    asked = amounts(request.reserve)[CPU_AND_MEMORY]
    pod = np.where(asked > 0, asked, _AT_LEAST)
    nodes = snapshot.nodes
    requested = share(nodes.allocated[:, CPU_AND_MEMORY] + pod, nodes.capacity[:, CPU_AND_MEMORY])
    scores = score(np.nan_to_num(requested, nan=1.0))
    rows = ranked(scores, refused)

    def explain(row: int) -> tuple[str, ...]:
        return (f"requested with this pod: {each_percent(requested[row])}",)

    return Ranking(rows=rows, scores=scores[rows], score_is=score_is, refused=refused, explain=explain)


def _policy(name: str, score: Score, summary: str) -> Policy:
    return Policy(name=name, summary=f"Kubernetes: {summary}", place=partial(place, score, summary))


LEAST_ALLOCATED = _policy(
    "least-allocated", least_allocated, "points for what is left of CPU and memory, on average"
)
MOST_ALLOCATED = _policy(
    "most-allocated", most_allocated, "points for what is requested of CPU and memory, on average"
)
BALANCED_ALLOCATION = _policy(
    "balanced-allocation", balanced_allocation, "points for how near the shares of CPU and memory are"
)

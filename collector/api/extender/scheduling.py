"""Filter and score the candidate nodes of a pod."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from collector.placement.ranking import doubtful
from collector.policies.filters import describe_rejection
from collector.policies.interface import Ranking, Rejection
from collector.snapshot.tables import Snapshot

MAX_SCORE = 10
"""Highest score of an extender."""
_UNKNOWN = frozenset({Rejection.DOWN, Rejection.STALE, Rejection.UNKNOWN_CAPACITY})
"""Kubernetes considers the node healthy; missing data on our side must not exclude it."""
_RESOLVABLE = frozenset(
    {
        Rejection.CPU,
        Rejection.MEMORY,
        Rejection.DISK,
        Rejection.NETWORK,
        Rejection.OVERBOOKED,
        Rejection.AVOIDED,
        Rejection.BOTTLENECK,
    }
)
"""Reasons that preemption can resolve."""


@dataclass(frozen=True, slots=True)
class SplitNodes:
    """Nodes by whether the pod fits."""

    passed: list[str]
    failed: dict[str, str]
    unresolvable: dict[str, str]
    """Nodes where preemption would not help."""


def split_nodes(snapshot: Snapshot, ranking: Ranking, names: Iterable[str]) -> SplitNodes:
    """Split candidate nodes by whether the pod fits; a node without an agent passes."""
    passed: list[str] = []
    failed: dict[str, str] = {}
    unresolvable: dict[str, str] = {}
    index, refused = snapshot.nodes.index, ranking.refused
    for name in names:
        row = index.get(name)
        code = Rejection.NOT if row is None else Rejection(int(refused[row]))
        if code is Rejection.NOT or code in _UNKNOWN:
            passed.append(name)
        elif code in _RESOLVABLE:
            failed[name] = describe_rejection(code)
        else:
            unresolvable[name] = describe_rejection(code)
    return SplitNodes(passed, failed, unresolvable)


def score_nodes(snapshot: Snapshot, ranking: Ranking, names: Sequence[str]) -> list[int]:
    """Scale the policy's scores of the candidate nodes to 1-10.

    Rejected, unknown and doubtful nodes get 0, so they never rank above a known one.
    """
    scores = np.full(len(snapshot.nodes.names), np.nan)
    scores[ranking.rows] = ranking.scores
    scores[doubtful(snapshot)] = np.nan
    rows = [snapshot.nodes.index.get(name) for name in names]
    candidates = np.array([np.nan if row is None else scores[row] for row in rows])
    ranked = ~np.isnan(candidates)
    scaled = np.zeros(len(names), dtype=np.int64)
    finite = candidates[np.isfinite(candidates)]
    if not finite.size:
        scaled[ranked] = 1
        return scaled.tolist()
    lowest, highest = float(finite.min()), float(finite.max())
    width = highest - lowest
    shares = np.ones(len(names)) if width == 0 else np.clip((candidates - lowest) / width, 0.0, 1.0)
    scaled[ranked] = 1 + np.rint(shares[ranked] * (MAX_SCORE - 1)).astype(np.int64)
    return scaled.tolist()

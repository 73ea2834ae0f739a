"""Filters and scores for the candidate nodes of a pod."""

from collections.abc import Iterable, Sequence
from enum import IntEnum

import numpy as np

from collector.common.arrays import Codes
from collector.decide.policies.interface import Ranking, Rejection
from collector.decide.ranking import has_unknown_load
from collector.features.kubernetes.extender.models import ExtenderFilterResult
from collector.snapshot.tables import NOWHERE, Snapshot

MAX_SCORE = 10
"""Highest score in the extender protocol."""
_NO_DATA = frozenset({Rejection.DOWN, Rejection.STALE, Rejection.UNKNOWN_CAPACITY})
"""Reasons that come from missing data. Kubernetes considers these nodes healthy, so they stay candidates."""
_PERMANENT = frozenset(
    {
        Rejection.OFF,
        Rejection.CLOSED,
        Rejection.EXCLUDED,
        Rejection.CONSTRAINT,
        Rejection.CAME_FROM,
        Rejection.DISTANCE,
    }
)
"""Reasons that remain after a preemption."""


class _Suitability(IntEnum):
    """How well a node suits a pod. Only the candidates of the best level pass."""

    FITS = 0
    ALERT = 1
    """The pod fits, but an alert is open, or a resource is busy most of the time."""
    RISKY = 2
    """The pod fits, but the node would be short too often. It passes only before nodes of unknown load."""
    UNKNOWN = 3
    """The node has no agent or no recent report, so its load is unknown."""
    REFUSED = 4


_FALLBACK_REASONS = {
    _Suitability.ALERT: Rejection.BOTTLENECK.text,
    _Suitability.RISKY: Rejection.RISK.text,
    _Suitability.UNKNOWN: "the node has no recent reports, and the pod fits on a node that has",
}


def split_nodes(
    snapshot: Snapshot, ranking: Ranking, names: Iterable[str], nominated: str | None = None
) -> ExtenderFilterResult:
    """Split candidate nodes by whether the pod fits.

    A node with an open alert passes if the pod fits on no other node; a node without recent reports passes
    if the pod fits on no node with recent reports. A node that would be short too often fails, unless all
    other candidates have no recent reports. The nominated node, on which pods were preempted for this pod,
    always passes: the preempted pods may still be part of its load.
    """
    failed: dict[str, str] = {}
    unresolvable: dict[str, str] = {}
    suitability: dict[str, _Suitability] = {}
    # Plain lists, because numpy reads single places slowly.
    codes, levels = ranking.refused.tolist(), _suitable(snapshot, ranking).tolist()
    for name in names:
        row = snapshot.nodes.index.get(name)
        code = Rejection.STALE if row is None else codes[row]
        suitability[name] = _Suitability.UNKNOWN if row is None else _Suitability(levels[row])
        if row is not None and code == Rejection.NOT and (ranking.needs(row) or ranking.gets(row)):
            # Neither kube-scheduler nor the extender limits, moves or stops pods to make room.
            code, suitability[name] = Rejection.NEEDS_ROOM, _Suitability.REFUSED
        if name == nominated and code not in _PERMANENT:
            suitability[name] = _Suitability.FITS
        elif suitability[name] is _Suitability.REFUSED:
            (unresolvable if code in _PERMANENT else failed)[name] = Rejection(code).text
    best = min(suitability.values(), default=_Suitability.REFUSED)
    if best is _Suitability.RISKY and _Suitability.UNKNOWN not in suitability.values():
        best = _Suitability.REFUSED
    passed = [name for name, level in suitability.items() if level is best is not _Suitability.REFUSED]
    failed |= {
        name: _reason(snapshot, ranking, name, level)
        for name, level in suitability.items()
        if level is not best and level in _FALLBACK_REASONS
    }
    return ExtenderFilterResult(
        node_names=passed, failed_nodes=failed, failed_and_unresolvable_nodes=unresolvable
    )


def _reason(snapshot: Snapshot, ranking: Ranking, name: str, level: _Suitability) -> str:
    """Why a node fails that would pass without a better one."""
    if level is _Suitability.RISKY and ranking.verdict is not None:
        return ranking.verdict(snapshot.nodes.index[name]).reason
    return _FALLBACK_REASONS[level]


def keep_only(kept: str, names: Iterable[str]) -> ExtenderFilterResult:
    """Let only the node pass on which room is reserved for a pod."""
    reason = f"room is reserved for this pod on {kept}"
    others = {name: reason for name in names if name != kept}
    passed = [name for name in names if name == kept]
    return ExtenderFilterResult(node_names=passed, failed_nodes={}, failed_and_unresolvable_nodes=others)


def _suitable(snapshot: Snapshot, ranking: Ranking) -> Codes:
    """The `_Suitability` of each node, room that must be made first apart."""
    nodes, refused = snapshot.nodes, ranking.refused
    levels = np.where(nodes.has_bottleneck | nodes.is_busy, _Suitability.ALERT, _Suitability.FITS)
    levels[refused == Rejection.RISK] = _Suitability.RISKY
    levels[has_unknown_load(snapshot)] = _Suitability.UNKNOWN
    levels[(refused != Rejection.NOT) & (refused != Rejection.RISK)] = _Suitability.REFUSED
    levels[np.isin(refused, list(_NO_DATA))] = _Suitability.UNKNOWN
    return levels.astype(np.int8)


def score_nodes(
    snapshot: Snapshot, ranking: Ranking, names: Sequence[str], nominated: str | None = None
) -> list[int]:
    """Scale the policy's scores of the candidate nodes to 1-10.

    Rejected, unknown and doubtful nodes get 0, so they never rank above a known one. The nominated node is
    the best.
    """
    if nominated in names:
        return [MAX_SCORE if name == nominated else 0 for name in names]
    scores = np.full(len(snapshot.nodes.names), np.nan)
    scores[ranking.rows] = ranking.scores
    scores[has_unknown_load(snapshot)] = np.nan
    # The last place is for unknown nodes.
    scores = np.append(scores, np.nan)
    candidates = scores[[snapshot.nodes.index.get(name, NOWHERE) for name in names]]
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

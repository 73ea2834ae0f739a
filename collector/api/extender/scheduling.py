"""Filter and score the candidate nodes of a pod."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

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
        Rejection.NEEDS_ROOM,
        Rejection.BUSY,
        Rejection.RISK,
    }
)
"""Reasons that preemption can resolve."""
_CLOSED = frozenset({Rejection.CLOSED, Rejection.EXCLUDED, Rejection.CONSTRAINT, Rejection.CAME_FROM})
"""Reasons that hold whatever was preempted."""


@dataclass(frozen=True, slots=True)
class SplitNodes:
    """Nodes by whether the pod fits."""

    passed: list[str]
    failed: dict[str, str]
    unresolvable: dict[str, str]
    """Nodes where preemption would not help."""


class _Grade(IntEnum):
    """How good a node is for a pod. Of the offered nodes, only those of the best grade pass."""

    FITS = 0
    ALERT = 1
    """It fits, but an alert is open, or a resource is busy most of the time."""
    RISKY = 2
    """It fits, but would be short too often. It passes only if all others are of unknown load."""
    UNKNOWN = 3
    """No agent, or no recent report: Kubernetes considers it healthy, but nothing is known of its load."""
    REFUSED = 4


_BETTER_NODES = {
    _Grade.ALERT: describe_rejection(Rejection.BOTTLENECK),
    _Grade.RISKY: describe_rejection(Rejection.RISK),
    _Grade.UNKNOWN: "the node has no recent reports, and the pod fits on a node that has",
}


def split_nodes(
    snapshot: Snapshot, ranking: Ranking, names: Iterable[str], nominated: str | None = None
) -> SplitNodes:
    """Split candidate nodes by whether the pod fits.

    A node with an open alert passes if the pod fits on no other node; a node without recent reports passes
    if the pod fits on no node that has them. A node that would be short too often fails, unless only nodes
    without recent reports were left: nothing speaks for those. The nominated node, where pods were preempted
    for this one, passes always: they may still be part of its load.
    """
    failed: dict[str, str] = {}
    unresolvable: dict[str, str] = {}
    grades: dict[str, _Grade] = {}
    for name in names:
        row = snapshot.nodes.index.get(name)
        code = Rejection.STALE if row is None else Rejection(int(ranking.refused[row]))
        if row is not None and code is Rejection.NOT and (ranking.needs(row) or ranking.gets(row)):
            # Neither kube-scheduler nor the extender cuts, moves or stops other pods, or this one.
            code = Rejection.NEEDS_ROOM
        grades[name] = _grade(snapshot, row, code)
        if name == nominated and code not in _CLOSED:
            grades[name] = _Grade.FITS
        elif grades[name] is _Grade.REFUSED:
            (failed if code in _RESOLVABLE else unresolvable)[name] = describe_rejection(code)
    best = min(grades.values(), default=_Grade.REFUSED)
    if best is _Grade.RISKY and _Grade.UNKNOWN not in grades.values():
        best = _Grade.REFUSED
    passed = [name for name, grade in grades.items() if grade is best is not _Grade.REFUSED]
    failed |= {
        name: _reason(snapshot, ranking, name, grade)
        for name, grade in grades.items()
        if grade is not best and grade in _BETTER_NODES
    }
    return SplitNodes(passed, failed, unresolvable)


def _reason(snapshot: Snapshot, ranking: Ranking, name: str, grade: _Grade) -> str:
    """Why a node fails that would pass if there were no better one."""
    if grade is _Grade.RISKY and ranking.risks is not None:
        return ranking.risks.reason(snapshot.nodes.index[name])
    return _BETTER_NODES[grade]


def only_on(kept: str, names: Sequence[str]) -> SplitNodes:
    """Return the one node that passes for a pod whose place is kept there."""
    reason = f"its place is kept on {kept}"
    others = {name: reason for name in names if name != kept}
    return SplitNodes([name for name in names if name == kept], {}, others)


def _grade(snapshot: Snapshot, row: int | None, code: Rejection) -> _Grade:
    if row is None or code in _UNKNOWN:
        return _Grade.UNKNOWN
    if code is Rejection.RISK:
        return _Grade.UNKNOWN if doubtful(snapshot)[row] else _Grade.RISKY
    if code is not Rejection.NOT:
        return _Grade.REFUSED
    if doubtful(snapshot)[row]:
        return _Grade.UNKNOWN
    strained = snapshot.nodes.has_bottleneck[row] or snapshot.nodes.is_busy[row]
    return _Grade.ALERT if strained else _Grade.FITS


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

"""What is answered about a pod and some nodes: which of them, and how good each is."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from collector.placement.ranking import doubtful
from collector.policies.filters import why
from collector.policies.interface import Ranking, Rejection
from collector.snapshot.tables import Snapshot

MOST_POINTS = 10
"""What an extender may give at most."""
_NOT_KNOWN = frozenset({Rejection.DOWN, Rejection.STALE, Rejection.UNKNOWN_CAPACITY})
"""That we know nothing is no reason to keep a pod from a node that Kubernetes believes in."""
_ROOM = frozenset(
    {
        Rejection.CPU,
        Rejection.MEMORY,
        Rejection.DISK,
        Rejection.NETWORK,
        Rejection.CLASS,
        Rejection.OVERBOOKED,
        Rejection.AVOIDED,
        Rejection.BOTTLENECK,
    }
)
"""What others could make room for by leaving."""


@dataclass(frozen=True, slots=True)
class Sorted:
    """Nodes by whether a pod may go there."""

    passed: list[str]
    failed: dict[str, str]
    unresolvable: dict[str, str]
    """Those that it could not go to even if others left."""


def sort_out(snapshot: Snapshot, ranking: Ranking, names: Iterable[str]) -> Sorted:
    """Which of the nodes asked about a pod may go to; one that is not known here may."""
    passed: list[str] = []
    failed: dict[str, str] = {}
    unresolvable: dict[str, str] = {}
    index, refused = snapshot.nodes.index, ranking.refused
    for name in names:
        row = index.get(name)
        code = Rejection.NOT if row is None else Rejection(int(refused[row]))
        if code is Rejection.NOT or code in _NOT_KNOWN:
            passed.append(name)
        elif code in _ROOM:
            failed[name] = why(code)
        else:
            unresolvable[name] = why(code)
    return Sorted(passed, failed, unresolvable)


def points(snapshot: Snapshot, ranking: Ranking, names: Sequence[str]) -> list[int]:
    """From 1 to 10 for the nodes asked about that the policy ranks, by how their scores compare.

    What is refused, not known here or in doubt gets 0: it never looks better than what is known.
    """
    scores = np.full(len(snapshot.nodes.names), np.nan)
    scores[ranking.rows] = ranking.scores
    scores[doubtful(snapshot)] = np.nan
    rows = [snapshot.nodes.index.get(name) for name in names]
    asked = np.array([np.nan if row is None else scores[row] for row in rows])
    ranked = ~np.isnan(asked)
    given = np.zeros(len(names), dtype=np.int64)
    finite = asked[np.isfinite(asked)]
    if not finite.size:
        given[ranked] = 1
        return given.tolist()
    lowest, highest = float(finite.min()), float(finite.max())
    width = highest - lowest
    places = np.ones(len(names)) if width == 0 else np.clip((asked - lowest) / width, 0.0, 1.0)
    given[ranked] = 1 + np.rint(places[ranked] * (MOST_POINTS - 1)).astype(np.int64)
    return given.tolist()

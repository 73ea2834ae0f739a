"""Place an application as a whole, by any policy."""

from collections.abc import Sequence

import msgspec
import numpy as np

from collector.common.arrays import Rows
from collector.common.text import counted
from collector.decide.policies.actions import Action, PowerOn
from collector.decide.policies.admission.rule import AdmissionRule
from collector.decide.policies.interface import (
    STALE_SECONDS,
    ApplicationPlacement,
    Ranking,
    Rejection,
    Request,
)
from collector.decide.policies.resolve import PolicyChoice
from collector.decide.ranking import overloaded_by, rank
from collector.features.network.applications import greedy
from collector.features.network.applications.answer import describe_refusals, placed_answer, refused_answer
from collector.features.network.applications.problem import build
from collector.snapshot.pending import with_pending
from collector.snapshot.tables import Snapshot

_ATTEMPTS = 8
"""Nodes that are tried for the first container until all others find a node near it."""


def place_application(
    snapshot: Snapshot,
    requests: Sequence[Request],
    choice: PolicyChoice,
    admission: AdmissionRule | None = None,
) -> ApplicationPlacement:
    """Return a node for each container of an application; or the reason why not, and what would be needed.

    A policy that does not place applications as a whole places one container after the other, within the
    bound of those before. If one finds no node, the first one goes elsewhere, and all others after it. So
    does one whose placement as a whole would overload a node.
    """
    risky = frozenset[str]()
    if choice.policy.place_all is not None:
        placed = choice.place_all(snapshot, requests)
        risky = overloaded_by(snapshot, requests, placed, choice, admission)
        if not risky:
            return placed
    stale_seconds = getattr(choice.settings, "stale_seconds", STALE_SECONDS)
    built = build(snapshot, requests, stale_seconds=stale_seconds)
    failure = ""
    is_tried = np.zeros(len(snapshot.nodes.names), dtype=np.bool_)
    first = rank(snapshot, requests[0], choice, admission=admission)
    for _ in range(_ATTEMPTS):
        start = _first_usable(first, [row for row in first.rows.tolist() if not is_tried[row]])
        if start is None:
            failure = failure or _describe_failure(requests[0], 0, first)
            break
        found = _follow(snapshot, requests, choice, start, first, admission)
        if not isinstance(found, str):
            nodes, needs = found
            counts = np.zeros(built.problem.allowed.shape, dtype=np.int64)
            np.add.at(counts, (built.kind, nodes), 1)
            names = tuple(snapshot.nodes.names[row] for row in nodes)
            return msgspec.structs.replace(placed_answer(snapshot, built, counts), nodes=names, needs=needs)
        failure = failure or found
        if not built.problem.is_bounded:
            break
        # A start at a node near this one would find no more.
        is_tried |= built.problem.near_to(start)
    if greedy.solve(built.problem) is None:
        return refused_answer(snapshot, requests, built, stale_seconds=stale_seconds)
    if risky:
        return ApplicationPlacement(why_not=f"{Rejection.RISK.text}: {', '.join(sorted(risky))}; {failure}")
    return ApplicationPlacement(
        why_not=f"policy {choice.policy.name} places one container after the other: {failure}",
        needed=("policy net-aware, which places the containers together",),
    )


def _follow(  # noqa: PLR0913, PLR0917 - question and start
    snapshot: Snapshot,
    requests: Sequence[Request],
    choice: PolicyChoice,
    start: int,
    first: Ranking,
    admission: AdmissionRule | None,
) -> tuple[Rows, tuple[Action, ...]] | str:
    """Place all containers after the first one, which goes to `start`; return why one finds no node."""
    names = snapshot.nodes.names
    rows, needs = [start], list(first.needs(start))
    for number, request in enumerate(requests[1:], 1):
        before = requests[number - 1].pending_on(names[rows[-1]])
        snapshot = with_pending(snapshot, [before], snapshot.turn + 1)
        ranking = rank(snapshot, request, choice, admission=admission)
        row = _first_usable(ranking, ranking.rows.tolist())
        if row is None:
            return _describe_failure(request, number, ranking)
        rows.append(row)
        needs += [each for each in ranking.needs(row) if each not in needs]
    return np.array(rows, dtype=np.intp), tuple(needs)


def _first_usable(ranking: Ranking, rows: Sequence[int]) -> int | None:
    """Return the first node for which nothing must be stopped, moved or cut."""
    fits = (row for row in rows if all(isinstance(each, PowerOn) for each in ranking.needs(row)))
    return next((row for row in fits if ranking.gets(row) is None), None)


def _describe_failure(request: Request, placed: int, ranking: Ranking) -> str:
    after = f" after {counted(placed, 'other')}" if placed else ""
    return f"no node for {request.service or 'a container'}{after}{describe_refusals(ranking.refused)}"

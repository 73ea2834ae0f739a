"""Place a container: question, ranking with predictions and reasons, reservation; live and in replay."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import erf, isfinite, isnan, sqrt

import numpy as np

from collector.common.arrays import Flags, Floats, Rows
from collector.common.liveness import LIVENESS_LABELS, Liveness
from collector.common.ratios import ratios_of
from collector.common.text import counted
from collector.decide.answers import Assumed, Basis, PlacementHint, RankedNode, RefusedFor, RefusedNode
from collector.decide.policies.admission.rule import AdmissionRule
from collector.decide.policies.filters import describe_refusal, node_filters
from collector.decide.policies.interface import ApplicationPlacement, Ranking, Rejection, Request
from collector.decide.policies.least_watts.cost import added_watts
from collector.decide.policies.resolve import PolicyChoice, excluding
from collector.decide.question import PlacementQuestion, build_request
from collector.decide.reservations import PendingPlacement, PendingTasks, Reservations, fold_pending
from collector.snapshot.columns import square
from collector.snapshot.tables import Snapshot

_SOME = 10
"""Number of refused nodes that are listed by default."""
_ATTEMPTS = 8
"""Placements of an application that are tried, each without the nodes that earlier ones would overload."""
_ROUNDING = 1e-9
_ROOT_OF_2 = sqrt(2)
_NO_CURVE = "the node has not reported a power curve yet"


@dataclass(frozen=True, slots=True)
class Placement:
    """The answer of a policy to a question about one container."""

    policy: str
    request: Request
    assumed: Assumed
    ranking: Ranking
    reservation: PendingPlacement | None
    """On the best node, if the question asks for one and a node fits."""


def place_container(  # noqa: PLR0913 - question, policy and state
    snapshot: Snapshot,
    question: PlacementQuestion,
    chosen: PolicyChoice,
    reservations: Reservations,
    *,
    default_class: int,
    now: float,
    admission: AdmissionRule | None = None,
    may_cut: bool = True,
) -> Placement:
    """Rank the nodes, and reserve the best one if the question requests it.

    Without `may_cut`, the best is one where the container itself is not cut. Raise `LimitError` if too many
    placements are pending.
    """
    request, assumed = build_request(question, snapshot, default_class)
    left = reservations.left_by([question.service], now) if question.service else frozenset[str]()
    ranking = rank(snapshot, request, chosen, left, admission=admission)
    ranking = ranking if may_cut else ranking.uncut()
    reservation, best = None, ranking.best
    if question.reserve_seconds and best is not None:
        node, gets = snapshot.nodes.names[best], ranking.gets(best)
        reservation = reservations.place(
            snapshot, request, node, now=now, seconds=question.reserve_seconds, gets=gets
        )
    return Placement(chosen.policy.name, request, assumed, ranking, reservation)


def rank(
    snapshot: Snapshot,
    request: Request,
    chosen: PolicyChoice,
    left: frozenset[str] = frozenset(),
    *,
    admission: AdmissionRule | None = None,
) -> Ranking:
    """Rank nodes by a policy; nodes with an unknown load come last.

    Nodes that the service just `left`, and nodes that `admission` does not admit, are refused.
    """
    elsewhere = replace(request, exclude=request.exclude | left) if left else request
    ranking = chosen.place(snapshot, elsewhere)
    refused = ranking.refused
    just_left = [
        snapshot.nodes.index[name] for name in left - request.exclude if name in snapshot.nodes.index
    ]
    if just_left:
        refused = refused.copy()
        rows = np.array(just_left, dtype=np.intp)
        refused[rows[refused[rows] == Rejection.EXCLUDED]] = Rejection.CAME_FROM
    in_doubt = has_unknown_load(snapshot)[ranking.rows]
    order = np.concatenate((np.flatnonzero(~in_doubt), np.flatnonzero(in_doubt)))
    ranking = replace(ranking, rows=ranking.rows[order], scores=ranking.scores[order], refused=refused)
    if admission is None:
        return ranking
    return admission.apply(snapshot, request, ranking, has_margins=chosen.policy.has_margins)


def place_together(
    snapshot: Snapshot,
    requests: Sequence[Request],
    chosen: PolicyChoice,
    left: frozenset[str] = frozenset(),
    *,
    admission: AdmissionRule | None = None,
) -> ApplicationPlacement:
    """Place the containers of an application as a whole, where `admission` admits all of them together."""
    risky = frozenset[str]()
    for _ in range(_ATTEMPTS):
        placed = chosen.place_all(snapshot, excluding(requests, left | risky))
        more = overloaded_by(snapshot, requests, placed, chosen, admission)
        if not more:
            return placed
        risky |= more
    return ApplicationPlacement(why_not=f"{Rejection.RISK.text}: {', '.join(sorted(risky))}")


def overloaded_by(
    snapshot: Snapshot,
    requests: Sequence[Request],
    placed: ApplicationPlacement,
    chosen: PolicyChoice,
    admission: AdmissionRule | None,
) -> frozenset[str]:
    """Return the nodes that admit not all that is placed there."""
    if admission is None or not placed.nodes:
        return frozenset()
    tasks = [one.pending_on(node) for one, node in zip(requests, placed.nodes, strict=True)]
    return admission.overloaded(snapshot, tasks, has_margins=chosen.policy.has_margins)


def warm_up(
    snapshot: Snapshot,
    request: Request,
    chosen: PolicyChoice,
    *,
    pending: PendingTasks,
    admission: AdmissionRule | None = None,
) -> None:
    """Compute what answers on a new snapshot share, so that the first one does not take longer."""
    snapshot.build_indexes()
    snapshot = fold_pending(snapshot, pending)
    rank(snapshot, request, chosen, admission=admission)
    _load(snapshot)


def has_unknown_load(snapshot: Snapshot) -> Flags:
    """Return the nodes that are on and whose present use is unknown."""

    def find() -> Flags:
        nodes = snapshot.nodes
        unknown: Flags = np.isnan(nodes.used[:, 0]) | np.isnan(nodes.used[:, 1])
        return nodes.on & (np.not_equal(nodes.liveness, Liveness.UP) | unknown)

    return snapshot.cached("unknown load", find)


def hint(snapshot: Snapshot, question: PlacementQuestion, placement: Placement) -> PlacementHint:
    """Convert the answer to a question for the API."""
    request, assumed, ranking = placement.request, placement.assumed, placement.ranking
    rejected = np.flatnonzero(ranking.refused != Rejection.NOT)
    counts = np.bincount(ranking.refused[rejected], minlength=1)
    named = rejected if question.refused == "all" else rejected[:_SOME]
    need = np.array(request.likely_mean)
    is_short = _is_short(snapshot, need)
    short = int(np.count_nonzero(is_short[ranking.rows]))
    return PlacementHint(
        policy=placement.policy,
        score_is=ranking.score_is,
        at=snapshot.at,
        turn=snapshot.turn,
        assumed=assumed,
        nodes=_ranked(snapshot, request, need, ranking, ranking.rows[: question.limit], assumed, is_short),
        fitting=int(ranking.rows.size) - short,
        short=short,
        refused=tuple(_refused(snapshot, request, ranking, row) for row in named.tolist()),
        refused_for=tuple(
            RefusedFor(Rejection(code).text, int(counts[code])) for code in np.flatnonzero(counts).tolist()
        ),
        notes=ranking_notes(snapshot, request),
        reservation=None if placement.reservation is None else placement.reservation.described(),
    )


def ranking_notes(snapshot: Snapshot, request: Request) -> tuple[str, ...]:
    """Return what a ranking could not take into account."""
    notes = (each.note(snapshot, request) for each in node_filters(snapshot))
    return tuple(each for each in notes if each is not None)


def _refused(snapshot: Snapshot, request: Request, ranking: Ranking, row: int) -> RefusedNode:
    code, name = int(ranking.refused[row]), snapshot.nodes.names[row]
    verdict = ranking.verdict(row) if ranking.verdict is not None and code == Rejection.RISK else None
    reason = describe_refusal(snapshot, request, code, row) if verdict is None else verdict.reason
    return RefusedNode(name, reason, verdict)


def _load(snapshot: Snapshot) -> Floats:
    """Return the load of each node: its use, or the sum of its tasks if that is more; 0 if it is off."""

    def compute() -> Floats:
        load = np.fmax(snapshot.nodes.used, snapshot.nodes.mean)
        load[snapshot.cached("off", lambda: np.flatnonzero(~snapshot.nodes.on))] = 0.0
        return load

    return snapshot.cached_with_pending("load", compute)


def _is_short(snapshot: Snapshot, need: Floats) -> Flags:
    """Return the nodes whose expected use with a request exceeds their capacity."""
    used_ratio = (_load(snapshot) + need) / snapshot.nodes.known_capacity
    # A ratio that is unknown exceeds nothing.
    short: Flags = np.any(used_ratio > 1.0 + _ROUNDING, axis=1)
    return short


def _predict(
    snapshot: Snapshot, request: Request, need: Floats, rows: Rows
) -> tuple[Floats, Floats, list[float]]:
    """Predict the used ratios and the added watts of nodes with a request, and whether they suffice.

    The watts are NaN without a power curve; the last is a probability.
    """
    nodes = snapshot.nodes
    known_capacity, on = nodes.known_capacity[rows], nodes.on[rows]
    load = _load(snapshot)[rows]
    after = (load + need) / known_capacity
    # The error of a guessed need is taken to be the need itself.
    variance = np.array(request.variance) if request.known else square(need)
    deviation = np.sqrt(np.maximum(nodes.variance[rows] * on[:, None] + variance, 0.0))
    return (
        after,
        added_watts(snapshot, request, rows),
        _suffices(nodes.capacity[rows] - load - need, deviation),
    )


def _suffices(left: Floats, deviation: Floats) -> list[float]:
    """Return the probability per node that every resource suffices, by what is left of it."""
    probabilities = []
    for frees, deviations in zip(left.tolist(), deviation.tolist(), strict=True):
        probability = 1.0
        for free, sigma in zip(frees, deviations, strict=True):
            if isnan(free):
                continue  # The capacity is unknown.
            probability *= 0.5 * (1 + erf(free / sigma / _ROOT_OF_2)) if sigma > 0 else float(free >= 0)
        probabilities.append(probability)
    return probabilities


def _ranked(  # noqa: PLR0913, PLR0917 - question and result
    snapshot: Snapshot,
    request: Request,
    need: Floats,
    ranking: Ranking,
    rows: Rows,
    assumed: Assumed,
    is_short: Flags,
) -> tuple[RankedNode, ...]:
    nodes = snapshot.nodes
    used_ratio, watts_by_row, confidence = _predict(snapshot, request, need, rows)
    sent = (snapshot.pending.nodes[:, None] == rows).sum(axis=0).tolist()
    in_doubt = has_unknown_load(snapshot)[rows].tolist()
    short = is_short[rows].tolist()
    used_ratios, watts = used_ratio.tolist(), watts_by_row.tolist()
    liveness = nodes.liveness[rows].tolist()
    found = []
    for place, row in enumerate(rows.tolist()):
        added, score = watts[place], float(ranking.scores[place])
        known = isfinite(added)
        found.append(
            RankedNode(
                node=nodes.names[row],
                score=score if isfinite(score) else None,
                state=LIVENESS_LABELS[liveness[place]],
                report_age_seconds=float(nodes.report_age_seconds[row]) if nodes.on[row] else None,
                predicted_ratio=ratios_of(used_ratios[place]),
                added_watts=added if known else None,
                error_watts=abs(added) * float(nodes.power.error_ratio[row]) if known else None,
                watts_unknown=None if known else _NO_CURVE,
                confidence=None if assumed.basis is Basis.NOTHING else confidence[place],
                reasons=(
                    *ranking.explain(row),
                    *_remarks(snapshot, row, sent[place], in_doubt=in_doubt[place], short=short[place]),
                ),
                needs=ranking.needs(row),
                gets=ranking.gets(row),
                admission=None if ranking.verdict is None else ranking.verdict(row),
            )
        )
    return tuple(found)


def _remarks(snapshot: Snapshot, row: int, sent: int, *, in_doubt: bool, short: bool) -> Iterator[str]:
    """Return what influences a node's rank and figures besides the policy."""
    if short:
        yield "its resources will not suffice: the policy considers only reservations"
    if sent:
        yield f"includes {counted(sent, 'pending placement')}"
    if in_doubt and snapshot.nodes.liveness[row] != Liveness.UP:
        age = f"{snapshot.nodes.report_age_seconds[row]:.0f} s"
        yield f"ranked last: its last report is {age} old"
    elif in_doubt:
        yield "ranked last: it has not reported its use"

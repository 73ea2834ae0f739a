"""Place a container: question, ranking, reservation; for `POST /v1/hints/placement` and for replay alike."""

from dataclasses import dataclass

from collector.decide.answers import Assumed
from collector.decide.policies.admission.rule import AdmissionRule
from collector.decide.policies.interface import Ranking, Request
from collector.decide.policies.resolve import PolicyChoice
from collector.decide.question import PlacementQuestion, build_request
from collector.decide.ranking import rank
from collector.decide.reservations import PendingPlacement, Reservations
from collector.snapshot.tables import Snapshot


@dataclass(frozen=True, slots=True)
class Placement:
    """The answer to a question about one container."""

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
) -> Placement:
    """Rank the nodes, and reserve the best one if the question requests it.

    Raise `LimitError` if too many placements are pending.
    """
    request, assumed = build_request(question, snapshot, default_class)
    left = reservations.left_by([question.service], now) if question.service else frozenset[str]()
    ranking = rank(snapshot, request, chosen.policy, chosen.settings, left, admission=admission)
    reservation = None
    if question.reserve_seconds and ranking.best is not None:
        reservation = reservations.place(
            snapshot, request, snapshot.nodes.names[ranking.best], now=now, seconds=question.reserve_seconds
        )
    return Placement(request, assumed, ranking, reservation)

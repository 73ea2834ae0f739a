"""What can be asked about decisions."""

import asyncio
from functools import partial
from http import HTTPStatus
from typing import Annotated

import msgspec
from aiohttp import web
from msgspec import Meta

from collector.analysis.usage import quantities
from collector.common.errors import ApiError
from collector.core.parts import Core
from collector.placement.answers import (
    PlacementHint,
    PlanHint,
    Policies,
    Proposals,
    Reservation,
    ReservationList,
)
from collector.placement.planning import RebalanceQuestion, plan, policies, proposals
from collector.placement.question import PlacementQuestion, resolve_policy, understood
from collector.placement.ranking import hint, rank
from collector.placement.reservations import PendingPlacement
from collector.snapshot.tables import Snapshot
from collector.web.bodies import JSON_TYPE, parse_body, read_body
from collector.web.routes import (
    REFUSED_BODY,
    REFUSED_HOST,
    REFUSED_QUERY,
    Answer,
    NoQuery,
    Route,
    get,
    parse_query,
    post,
    refused,
)
from collector.web.scopes import CALLER, Scope
from wire.errors import UserError
from wire.messages import encode

_question = msgspec.json.Decoder(PlacementQuestion)


async def place(core: Core, request: web.Request) -> web.Response:
    """Rank nodes for what is asked, and keep the best one for it if that is asked too."""
    parse_query(request, NoQuery)
    question = parse_body(await read_body(request), _question.decode)
    if question.reserve_seconds and not request[CALLER].may(Scope.ADMIN):
        raise ApiError(
            HTTPStatus.FORBIDDEN,
            "a token to read may ask, but not keep places: leave out reserve_seconds, or show an admin's",
            "$.reserve_seconds",
        )
    answer = answer_placement(core, await core.snapshot(), question)
    return web.Response(body=encode(answer), content_type=JSON_TYPE)


def answer_placement(core: Core, snapshot: Snapshot, question: PlacementQuestion) -> PlacementHint:
    """Where something should go. The event loop waits for this: it takes some milliseconds at most."""
    chosen = resolve_policy(core.config, question.policy, question.settings, "place")
    policy, settings = chosen.policy, chosen.settings
    now = core.clock()
    request, assumed = understood(question, snapshot, core.config.placement.default_class)
    left = core.reservations.left_by([question.service], now) if question.service else frozenset[str]()
    ranking = rank(snapshot, request, policy, settings, left)
    core.snapshots.rehearse = partial(rank, request=request, policy=policy, settings=settings)
    reservation = None
    if question.reserve_seconds and ranking.best is not None:
        best = snapshot.nodes.names[ranking.best]
        try:
            kept = core.reservations.place(snapshot, request, best, now=now, seconds=question.reserve_seconds)
        except UserError as complaint:
            raise ApiError(HTTPStatus.TOO_MANY_REQUESTS, str(complaint), "$.reserve_seconds") from complaint
        reservation = _reservation(kept)
    return hint(
        snapshot,
        request,
        ranking,
        policy=policy.name,
        assumed=assumed,
        limit=question.limit,
        name_all_refused=question.refused == "all",
        reservation=reservation,
    )


async def rebalance(core: Core, question: RebalanceQuestion) -> PlanHint:
    """What a policy would move now."""
    given = question.settings if question.moves is None else question.settings | {"moves": question.moves}
    chosen = resolve_policy(core.config, question.policy, given, "rebalance")
    # A plan over a large cluster takes seconds.
    return await asyncio.to_thread(plan, await core.snapshot(), chosen)


async def propose(core: Core, _query: NoQuery) -> Proposals:
    """What each open bottleneck asks for."""
    return await asyncio.to_thread(proposals, await core.snapshot())


async def list_policies(core: Core, _query: NoQuery) -> Policies:
    """By what can be decided."""
    return Policies(default=core.config.placement.policy, policies=policies())


async def list_reservations(core: Core, _query: NoQuery) -> ReservationList:
    """The places that are kept."""
    return ReservationList([_reservation(each) for each in core.reservations.placements(core.clock())])


class ReservationQuery(msgspec.Struct, frozen=True):
    """Which place to let go."""

    id: Annotated[str, Meta(description="As the hint told it.")]


async def release(core: Core, request: web.Request) -> web.Response:
    """Keep a place no longer."""
    query = parse_query(request, ReservationQuery)
    core.reservations.placements(core.clock())
    found = core.reservations.release(query.id)
    if found is None:
        detail = f"there is no reservation {query.id}: it is over, or its container was seen"
        raise ApiError(HTTPStatus.NOT_FOUND, detail, "id")
    return web.Response(body=encode(_reservation(found)), content_type=JSON_TYPE)


def _reservation(placement: PendingPlacement) -> Reservation:
    return Reservation(
        id=placement.id,
        node=placement.sent.node,
        service=placement.sent.service,
        made_at=placement.made_at,
        expires_at=placement.expires_at,
        demand=quantities(placement.sent.envelope),
    )


ROUTES: tuple[Route, ...] = (
    Route(
        method="POST",
        path="/v1/hints/placement",
        summary="Where a container should go, and why; the best node can be kept for it for a while, which"
        " needs an admin's token.",
        serve=place,
        body=PlacementQuestion,
        needs=Scope.READ,
        answers={
            HTTPStatus.OK: Answer("Where a container should go, the best node first.", PlacementHint),
            **refused(HTTPStatus.BAD_REQUEST, "Something in the body is wrong."),
            **REFUSED_BODY,
            **REFUSED_HOST,
            **refused(HTTPStatus.TOO_MANY_REQUESTS, "Too many places are kept already."),
        },
    ),
    post(
        "/v1/hints/rebalance",
        "What should be moved, cut, started or switched now, and why.",
        PlanHint,
        rebalance,
        body=RebalanceQuestion,
    ),
    get(
        "/v1/hints/reservations",
        "The places that are kept now.",
        ReservationList,
        list_reservations,
        query=NoQuery,
    ),
    Route(
        method="DELETE",
        path="/v1/hints/reservations",
        summary="Keep a place no longer.",
        serve=release,
        query=ReservationQuery,
        answers={
            HTTPStatus.OK: Answer("It was kept until now.", Reservation),
            **REFUSED_QUERY,
            **REFUSED_HOST,
            **refused(HTTPStatus.NOT_FOUND, "There is no such reservation any more."),
        },
    ),
    get(
        "/v1/alerts/proposals",
        "A migration for each bottleneck that nodes have now, or why there is none.",
        Proposals,
        propose,
        query=NoQuery,
    ),
    get(
        "/v1/policies",
        "By what can be decided, and what can be chosen of it.",
        Policies,
        list_policies,
        query=NoQuery,
    ),
)

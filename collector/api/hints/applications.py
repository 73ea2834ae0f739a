"""Applications: where the containers of one should go, all at once."""

import asyncio
from http import HTTPStatus

import msgspec
from aiohttp import web

from collector.api.hints.containers import reservation_of
from collector.common.errors import ApiError
from collector.core.parts import Core
from collector.placement.answers import Reservation
from collector.placement.applications import (
    ApplicationHint,
    ApplicationQuestion,
    Placed,
    application_hint,
    place_requests,
    requests_of,
)
from collector.placement.question import resolve_policy
from collector.snapshot.tables import Snapshot
from collector.web.bodies import JSON_TYPE, parse_body, read_body
from collector.web.routes import (
    REFUSED_BODY,
    REFUSED_HOST,
    Answer,
    NoQuery,
    Route,
    parse_query,
    refused,
)
from collector.web.scopes import CALLER, Scope
from wire.errors import UserError
from wire.messages import encode

_question = msgspec.json.Decoder(ApplicationQuestion)


async def place_application(core: Core, request: web.Request) -> web.Response:
    """Choose a node for each container of an application, and reserve these if requested."""
    parse_query(request, NoQuery)
    question = parse_body(await read_body(request), _question.decode)
    if question.reserve_seconds and not request[CALLER].may(Scope.PLACE):
        raise ApiError(
            HTTPStatus.FORBIDDEN,
            "a read token cannot reserve nodes: omit reserve_seconds, or send a token of kind place",
            "$.reserve_seconds",
        )
    chosen = resolve_policy(core.config, question.policy, question.settings, "place")
    # The exact solver takes seconds.
    async with core.planning:
        snapshot = await core.snapshot()
        requests = requests_of(question, snapshot, core.config.placement.default_class)
        left = core.reservations.left_by([each.service for each in question.services], core.clock())
        placed = await asyncio.to_thread(place_requests, snapshot, requests, chosen, left)
        reserved = _reserve(core, snapshot, placed, question.reserve_seconds)
    answer = application_hint(snapshot, question, placed, chosen.policy.name, reserved)
    return web.Response(body=encode(answer), content_type=JSON_TYPE)


def _reserve(core: Core, snapshot: Snapshot, placed: Placed, seconds: float) -> list[Reservation]:
    """Reserve the node of each container; none if there are too many reservations."""
    if not seconds:
        return []
    made = []
    try:
        for request, node in placed.pairs:
            made.append(core.reservations.place(snapshot, request, node, now=core.clock(), seconds=seconds))
    except UserError as error:
        for each in made:
            core.reservations.release(each.id)
        raise ApiError(HTTPStatus.TOO_MANY_REQUESTS, str(error), "$.reserve_seconds") from error
    return [reservation_of(each) for each in made]


ROUTES: tuple[Route, ...] = (
    Route(
        method="POST",
        path="/v1/hints/application",
        summary="Choose a node for each container of an application, as a whole and within its bound of"
        " round-trip times; or answer why not, and what would be needed. With `reserve_seconds`, reserve the"
        " nodes, which needs a token of kind place.",
        serve=place_application,
        body=ApplicationQuestion,
        needs=Scope.READ,
        answers={
            HTTPStatus.OK: Answer("Nodes for the containers, or why there are none.", ApplicationHint),
            **refused(HTTPStatus.BAD_REQUEST, "The body is invalid."),
            **REFUSED_BODY,
            **REFUSED_HOST,
            **refused(HTTPStatus.TOO_MANY_REQUESTS, "Too many reservations."),
        },
    ),
)

"""Hints for applications: a node for each container of an application, as a whole."""

import asyncio

from collector.api.hints.containers import TOO_MANY_RESERVATIONS, check_reservation, describe_reservation
from collector.common.errors import LimitError
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
from collector.web.routes import Route, post_as_caller
from collector.web.scopes import Caller


async def place_containers(core: Core, question: ApplicationQuestion, caller: Caller) -> ApplicationHint:
    """Choose a node for each container of an application, and reserve these if requested."""
    check_reservation(caller, question.reserve_seconds)
    chosen = resolve_policy(core.config, question.policy, question.settings, "place")
    # The exact solver takes seconds.
    async with core.planning:
        snapshot = await core.snapshot()
        requests = requests_of(question, snapshot, core.config.placement.default_class)
        left = core.reservations.left_by([each.service for each in question.services], core.clock())
        placed = await asyncio.to_thread(place_requests, snapshot, requests, chosen, left)
        reserved = _reserve(core, snapshot, placed, question.reserve_seconds)
    return application_hint(snapshot, question, placed, chosen.policy.name, reserved)


def _reserve(core: Core, snapshot: Snapshot, placed: Placed, seconds: float) -> list[Reservation]:
    """Reserve the node of each container; if there are too many reservations, reserve none."""
    if not seconds:
        return []
    made = []
    try:
        for request, node in placed.pairs:
            made.append(core.reservations.place(snapshot, request, node, now=core.clock(), seconds=seconds))
    except LimitError:
        for each in made:
            core.reservations.release(each.id)
        raise
    return [describe_reservation(each) for each in made]


ROUTES: tuple[Route, ...] = (
    post_as_caller(
        "/v1/hints/application",
        "Choose a node for each container of an application, as a whole and within its maximum"
        " round-trip time. If that is impossible, the response says why, and what would be needed. With"
        " `reserve_seconds`, the nodes are reserved, which requires a token of kind `place`.",
        ApplicationHint,
        place_containers,
        body=ApplicationQuestion,
        problems=TOO_MANY_RESERVATIONS,
    ),
)

"""Hints for containers: placement, rebalancing, reservations; and the list of policies."""

import asyncio
from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from collector.act.why import with_guards
from collector.common.errors import ApiError
from collector.decide.answers import (
    PlacementHint,
    PlanHint,
    Policies,
    PolicyInfo,
    Reservation,
    ReservationList,
)
from collector.decide.policies.interface import PolicySettings
from collector.decide.policies.table import POLICIES
from collector.decide.question import Name, PlacementQuestion, resolve_policy
from collector.decide.ranking import hint
from collector.decide.why import explain, find_case
from collector.runtime.parts import Core
from collector.runtime.placing import place_now
from collector.serve.api.control import Api
from collector.serve.web.descriptions import describe_fields, object_types
from collector.serve.web.routes import Route, delete, get, post, problem
from collector.serve.web.scopes import Caller, Scope
from collector.snapshot.tables import Snapshot

_NO_RESERVATION = problem(HTTPStatus.NOT_FOUND, "No reservation has this id.")
TOO_MANY_RESERVATIONS = problem(HTTPStatus.TOO_MANY_REQUESTS, "Too many reservations.")


async def place(core: Core, question: PlacementQuestion, caller: Caller) -> PlacementHint:
    """Rank nodes for a container, with reasons.

    With `reserve_seconds`, the best node is reserved, which requires a token of kind `place`.
    """
    check_reservation(caller, question.reserve_seconds)
    return rank_nodes(core, await core.snapshot(), question)


def check_reservation(caller: Caller, reserve_seconds: float) -> None:
    """Raise `ApiError` if the caller requests a reservation and must not make one."""
    if reserve_seconds and not caller.may(Scope.PLACE):
        raise ApiError(
            HTTPStatus.FORBIDDEN,
            "a read token cannot reserve nodes: omit reserve_seconds, or send a token of kind place",
            "$.reserve_seconds",
        )


def rank_nodes(core: Core, snapshot: Snapshot, question: PlacementQuestion) -> PlacementHint:
    """Rank nodes, and reserve the best one if requested. Blocks the event loop for a few milliseconds."""
    return hint(snapshot, question, place_now(core, snapshot, question))


class RebalanceQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A question for a plan. It changes nothing."""

    policy: Name | None = None
    """Default: `control.timer_policy`, which the collector itself runs, or else `placement.policy`."""
    settings: dict[str, Any] = {}
    """Settings of the policy. Default: as configured."""
    moves: Annotated[int, Meta(ge=0, le=1_000_000)] | None = None
    """Maximum number of moves; overrides the setting `moves`."""
    why: Name | None = None
    """Name of a node, or name or id of a container: also explain why the plan does not empty or move it. This
    takes as long as some twenty plans."""


async def rebalance(core: Api, question: RebalanceQuestion) -> PlanHint:
    """Get the plan of a policy for the cluster now: what to move, limit, stop, start or switch, and why."""
    settings = question.settings if question.moves is None else question.settings | {"moves": question.moves}
    chosen = resolve_policy(core.config, question.policy, settings, "rebalance")
    name, control, situation = chosen.policy.name, core.config.control, core.control.actor.situation
    # The control loop would carry it out.
    chosen = core.control.as_it_runs(chosen, {**core.config.policies.get(name, {}), **question.settings})
    # A plan for a large cluster takes seconds.
    async with core.planning:
        snapshot, why = await core.snapshot(), None
        spent: tuple[str, ...] = ()
        if question.why is not None:
            case = await asyncio.to_thread(find_case, snapshot, chosen, question.why)
            made, why = await core.worker.run(explain, case)
            why = with_guards(situation.guard_context, snapshot, made, why)
        else:
            if name == control.policy != control.timer_policy:
                snapshot, spent = situation.spent_answers(snapshot).pinned(snapshot)
            made = await core.worker.run(chosen.rebalance, snapshot)
    return PlanHint(
        policy=name,
        at=snapshot.at,
        actions=made.actions,
        reasons=made.reasons,
        left=(*made.left, *spent),
        timer_policy=control.timer_policy,
        alert_policy=control.policy,
        watts_before=made.watts_before,
        watts_after=made.watts_after,
        why=why,
    )


async def list_policies(core: Core) -> Policies:
    """List policies with their settings."""
    infos = [
        PolicyInfo(
            name=policy.name,
            summary=policy.summary,
            for_whom=policy.for_whom,
            places=policy.place is not None,
            plans=policy.rebalance is not None,
            settings=_schema(policy.settings),
        )
        for policy in POLICIES.values()
    ]
    return Policies(default=core.config.placement.policy, policies=infos)


def _schema(settings: type[PolicySettings]) -> dict[str, Any]:
    (_,), components = msgspec.json.schema_components([settings])
    texts = describe_fields(next(object_types([settings])))
    properties: dict[str, dict[str, Any]] = components[settings.__name__]["properties"]
    return {name: {"description": texts[name]} | each for name, each in properties.items()}


async def list_reservations(core: Core) -> ReservationList:
    """List current reservations."""
    return ReservationList([each.described() for each in core.reservations.placements(core.clock())])


class ReservationQuery(msgspec.Struct, frozen=True):
    """Which reservation to release."""

    id: Annotated[str, Meta(description="Id of the reservation, from the hint.")]


async def release(core: Core, query: ReservationQuery) -> Reservation:
    """Release a reservation."""
    core.reservations.placements(core.clock())
    found = core.reservations.release(query.id)
    if found is None:
        detail = f"no reservation has the id {query.id}: it has expired, or its container has started"
        raise ApiError(HTTPStatus.NOT_FOUND, detail, "id")
    return found.described()


ROUTES: tuple[Route, ...] = (
    post("/v1/hints/placement", place, problems=TOO_MANY_RESERVATIONS),
    post("/v1/hints/rebalance", rebalance),
    get("/v1/hints/reservations", list_reservations),
    delete("/v1/hints/reservations", release, problems=_NO_RESERVATION, scope=Scope.ADMIN),
    get("/v1/policies", list_policies),
)

"""What can be asked of acting: the record, how it stands, and the switch that stops it all."""

import asyncio
from dataclasses import dataclass, fields
from http import HTTPStatus
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from collector.common.errors import ApiError
from collector.control.loop import ControlLoop
from collector.control.make_room import asked, room
from collector.control.records import Decision, Pause
from collector.control.situation import Situation
from collector.core.parts import Core
from collector.placement.question import PlacementQuestion
from collector.policies.actions import Action
from collector.policies.resolve import resolve
from collector.snapshot.codec import unpack
from collector.web.routes import NO_HISTORY, NoQuery, Route, get, post, refused
from collector.web.scopes import Scope

_NO_DECISION = refused(HTTPStatus.NOT_FOUND, "There is no such decision on record.")
_NO_INPUT = refused(HTTPStatus.GONE, "What the decision was made from is not kept any more.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Api(Core):
    """A running collector as its API sees it: the core, and the control loop beside it.

    A handler that needs no more than the core takes a `Core`.
    """

    control: ControlLoop

    @classmethod
    def of(cls, core: Core, control: ControlLoop) -> "Api":
        """The same core, with its control loop."""
        parts: dict[str, Any] = {each.name: getattr(core, each.name) for each in fields(Core)}
        return cls(**parts, control=control)


class Decisions(msgspec.Struct, frozen=True):
    """Decisions, the latest first."""

    decisions: list[Decision]


class DecisionsQuery(msgspec.Struct, frozen=True):
    """How decisions are asked for."""

    id: Annotated[str | None, Meta(description="Only this one.")] = None
    node: Annotated[str | None, Meta(description="Only those that touch the node of this name.")] = None
    service: Annotated[str | None, Meta(description="Only those that touch this service.")] = None
    trigger: Annotated[
        Literal["alert", "timer", "request"] | None, Meta(description="Only those made for this reason.")
    ] = None
    outcome: Annotated[
        Literal["nothing", "dry", "running", "done", "partly", "refused", "failed"] | None,
        Meta(description="Only those that came to this."),
    ] = None
    since: Annotated[float | None, Meta(description="Only those made at this Unix time or later.")] = None
    limit: Annotated[int, Meta(ge=1, le=1000, description="No more than so many.")] = 100


class ReplayQuery(msgspec.Struct, frozen=True):
    """Which decision is made again."""

    id: Annotated[str, Meta(description="The decision.")]


class ActingNow(msgspec.Struct, frozen=True, kw_only=True):
    """How acting stands."""

    driver: str
    dry: bool
    """Whether nothing is asked of anybody: plans are only kept on record."""
    acts: bool
    """Whether plans are carried out now: neither dry, nor paused, nor another collector's turn."""
    holder: str | None
    """Another collector, which holds the lease; null if none does."""
    pause: Pause | None
    policy: str
    timer_policy: str
    in_motion: int
    """Steps that are begun and not ended."""
    trouble: str | None
    """Why the driver cannot act, if it cannot."""


class PauseQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """For how long, and why, nothing may be done."""

    seconds: Annotated[float, Meta(gt=0, le=366 * 86_400)] | None = None
    """Null means until somebody resumes."""
    why: Annotated[str, Meta(max_length=1000)] = ""


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nothing needs to be said."""


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """A decision made again from its record."""

    same: bool
    """Whether the policy gives the same plan."""
    then: tuple[Action, ...]
    now: tuple[Action, ...]


def _situation(core: Core) -> Situation:
    return _control(core).actor.situation


def _control(core: Core) -> ControlLoop:
    assert isinstance(core, Api), "the routes are served with the control loop beside the core"
    return core.control


async def decisions(core: Core, query: DecisionsQuery) -> Decisions:
    """What was decided, the latest first."""
    found = [each for each in _situation(core).journal.decisions() if _is_asked_for(each, query)]
    return Decisions(found[: query.limit])


def _is_asked_for(decision: Decision, query: DecisionsQuery) -> bool:
    nodes = {*decision.before.used_ratios, *(alert.node for alert in decision.alerts)}
    return (
        (query.id is None or query.id == decision.id)
        and (query.node is None or query.node in nodes)
        and (query.service is None or any(step.service == query.service for step in decision.steps))
        and (query.trigger is None or decision.trigger == query.trigger)
        and (query.outcome is None or decision.outcome == query.outcome)
        and (query.since is None or decision.at >= query.since)
    )


async def replay(core: Core, query: ReplayQuery) -> Replayed:
    """Make a decision again from its record."""
    journal = _situation(core).journal
    found = journal.get(query.id)
    if found is None:
        detail = f"there is no decision {query.id!r}: GET /v1/decisions lists them"
        raise ApiError(HTTPStatus.NOT_FOUND, detail, "id")
    packed = await journal.input_of(found.id)
    if packed is None:
        raise ApiError(HTTPStatus.GONE, "what this decision was made from is not kept any more", "id")
    who, snapshot = resolve(found.policy, found.settings), unpack(packed)
    if found.request is None:
        plan = await asyncio.to_thread(who.rebalance, snapshot)
    else:
        plan = room(snapshot, asked(found.request), who, core.config.placement.default_class).plan
    then, now = tuple(step.action for step in found.steps), plan.actions
    return Replayed(same=then == now and found.left == plan.left, then=then, now=now)


async def make_room(core: Core, question: PlacementQuestion) -> Decision:
    """Cut or move what stands in the way of a container."""
    return await _control(core).make_room(question)


async def standing(core: Core, _query: NoQuery) -> ActingNow:
    """Whether anything is done, by whom, and if not, why."""
    return _now(core)


async def pause(core: Core, question: PauseQuestion) -> ActingNow:
    """Do nothing for some time, or until somebody resumes."""
    now = core.clock()
    until = None if question.seconds is None else now + question.seconds
    await _situation(core).journal.set_pause(Pause(since=now, until=until, why=question.why))
    return _now(core)


async def resume(core: Core, _nothing: Nothing) -> ActingNow:
    """Act again."""
    await _situation(core).journal.set_pause(None)
    return _now(core)


def _now(core: Core) -> ActingNow:
    now, settings = _situation(core), core.config.control
    return ActingNow(
        driver=now.driver_name,
        dry=now.is_dry,
        acts=now.acts,
        holder=now.holder,
        pause=now.pause,
        policy=settings.policy,
        timer_policy=settings.timer_policy,
        in_motion=now.in_motion,
        trouble=now.trouble,
    )


ROUTES: tuple[Route, ...] = (
    get(
        "/v1/decisions",
        "What was decided, why, and what came of it.",
        Decisions,
        decisions,
        query=DecisionsQuery,
    ),
    get(
        "/v1/decisions/replay",
        "The same policy, asked again about what a decision was made from.",
        Replayed,
        replay,
        query=ReplayQuery,
        refusals={**_NO_DECISION, **_NO_INPUT, **NO_HISTORY},
    ),
    post(
        "/v1/room",
        "Make room for a container that fits nowhere as things are, and say what was done for it.",
        Decision,
        make_room,
        body=PlacementQuestion,
        refusals=NO_HISTORY,
        scope=Scope.ADMIN,
    ),
    get("/v1/acting", "Whether plans are carried out now.", ActingNow, standing, query=NoQuery),
    post(
        "/v1/pause",
        "Stop acting: what is under way is brought to its end, nothing else is begun.",
        ActingNow,
        pause,
        body=PauseQuestion,
        refusals=NO_HISTORY,
        scope=Scope.ADMIN,
    ),
    post(
        "/v1/resume",
        "Act again.",
        ActingNow,
        resume,
        body=Nothing,
        refusals=NO_HISTORY,
        scope=Scope.ADMIN,
    ),
)

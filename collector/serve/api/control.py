"""The control loop: its decisions, its status, and the switch that pauses it."""

import asyncio
from dataclasses import dataclass, fields
from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from collector.act.loop import ControlLoop
from collector.act.orchestrator_state import pending_tasks, waiting_tasks
from collector.act.planner import plan_room
from collector.act.records import Decision, DecisionOutcome, Pause, Trigger
from collector.act.verdicts.learning import DeciderEffect, badness, effects_of
from collector.analysis.usage import to_quantities
from collector.common.errors import ApiError
from collector.decide.policies.actions import Action, Kill
from collector.decide.policies.resolve import resolve
from collector.decide.question import PlacementQuestion
from collector.runtime.parts import Core
from collector.serve.api.queries import DAY_SECONDS
from collector.serve.web.routes import NO_HISTORY, Route, get, post, problem
from collector.serve.web.scopes import Scope
from collector.snapshot.codec import unpack
from wire.resources import Quantities

_NO_DECISION = problem(HTTPStatus.NOT_FOUND, "No decision has this id.")
_NO_REPLAY = problem(HTTPStatus.CONFLICT, "An elasticity policy or brownout made this decision.")
_NO_INPUT = problem(HTTPStatus.GONE, "The snapshot behind this decision is no longer stored.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Api(Core):
    """The parts of a running collector that handlers use: the core and the control loop.

    Handlers that need only the core take a `Core`.
    """

    control: ControlLoop

    @classmethod
    def of(cls, core: Core, control: ControlLoop) -> "Api":
        parts: dict[str, Any] = {each.name: getattr(core, each.name) for each in fields(Core)}
        return cls(**parts, control=control)


class Decisions(msgspec.Struct, frozen=True):
    """Decisions, the most recent first."""

    decisions: list[Decision]


class DecisionsQuery(msgspec.Struct, frozen=True):
    """Filters for decisions."""

    id: Annotated[str | None, Meta(description="Only the decision with this id.")] = None
    node: str | None = None
    """Only decisions that affect the node with this name."""
    service: Annotated[str | None, Meta(description="Only decisions that affect this service.")] = None
    trigger: Annotated[Trigger | None, Meta(description="Only decisions with this trigger.")] = None
    outcome: Annotated[DecisionOutcome | None, Meta(description="Only decisions with this outcome.")] = None
    since: Annotated[float | None, Meta(description="Only decisions made at this Unix time or later.")] = None
    limit: Annotated[int, Meta(ge=1, le=1000, description="Maximum number of decisions.")] = 100


class EffectQuery(msgspec.Struct, frozen=True):
    """Period of the decisions."""

    days: Annotated[float, Meta(gt=0, le=366, description="Only decisions of the last days.")] = 7.0


class DecisionEffects(msgspec.Struct, frozen=True):
    """What decisions brought: planned against measured."""

    since: float
    """Start of the period."""
    deciders: list[DeciderEffect]
    """Each policy or feature that carried out decisions in it, by name."""
    worst: list[str]
    """Ids of its decisions with a verdict, the worst first: useless ones, then those that brought less than
    promised; among equals, the one that missed the most watts."""


class ReplayQuery(msgspec.Struct, frozen=True):
    """Which decision to replay."""

    id: Annotated[str, Meta(description="Id of the decision.")]


class ControlStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Status of the control loop."""

    driver: str
    dry_run: bool
    """True if plans are only recorded, never carried out."""
    active: bool
    """True if plans are carried out now: no dry run, no pause, and no other collector holds the lease."""
    lease_holder: str | None
    """The collector that holds the lease, if it is another one; null otherwise."""
    pause: Pause | None
    """The current pause; null if the control loop is not paused."""
    policy: str
    """Name of the policy that responds to alerts."""
    timer_policy: str
    """Name of the policy that runs on a timer; empty if none does."""
    steps_in_progress: int
    """Number of steps that have started and not ended."""
    problem: str | None
    """Why the driver cannot act; null if it can."""


class ControlRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Pause the control loop, or resume it."""

    paused: bool
    """Whether it is paused: steps in progress finish, no new step starts."""
    seconds: Annotated[float, Meta(gt=0, le=366 * 86_400)] | None = None
    """Length of the pause; null pauses until it is resumed."""
    why: Annotated[str, Meta(max_length=1000)] = ""


class ReplayedDecision(msgspec.Struct, frozen=True, kw_only=True):
    """A decision replayed from its stored snapshot."""

    same: bool
    """Whether the policy returns the same plan."""
    recorded: tuple[Action, ...]
    """The actions of the recorded decision."""
    replayed: tuple[Action, ...]
    """The actions that the policy returns now."""


async def decisions(api: Api, query: DecisionsQuery) -> Decisions:
    """List decisions with their reasons, steps and outcome."""
    found = [each for each in api.control.actor.situation.journal.decisions() if _matches(each, query)]
    return Decisions(found[: query.limit])


async def effects(api: Api, query: EffectQuery) -> DecisionEffects:
    """Get what the decisions of the last days brought, by policy, and the worst ones."""
    since = api.clock() - query.days * DAY_SECONDS
    found = [each for each in api.control.actor.situation.journal.decisions() if each.at >= since]
    judged = sorted((each for each in found if each.verdicts), key=badness, reverse=True)
    deciders = await asyncio.to_thread(effects_of, found, since)
    return DecisionEffects(since=since, deciders=deciders, worst=[each.id for each in judged])


def _matches(decision: Decision, query: DecisionsQuery) -> bool:
    nodes = {*decision.before.used_ratios, *(alert.node for alert in decision.alerts)}
    return (
        (query.id is None or query.id == decision.id)
        and (query.node is None or query.node in nodes)
        and (query.service is None or any(step.service == query.service for step in decision.steps))
        and (query.trigger is None or decision.trigger == query.trigger)
        and (query.outcome is None or decision.outcome == query.outcome)
        and (query.since is None or decision.at >= query.since)
    )


async def replay(api: Api, query: ReplayQuery) -> ReplayedDecision:
    """Replay a decision: run its policy on the stored snapshot, and compare the plans."""
    journal = api.control.actor.situation.journal
    found = journal.get(query.id)
    if found is None:
        detail = (
            f"no decision has the id {query.id!r}: 'wattpack control history' (GET /v1/decisions) lists all"
        )
        raise ApiError(HTTPStatus.NOT_FOUND, detail, "id")
    if found.trigger in {Trigger.ELASTIC, Trigger.BROWNOUT}:
        detail = (
            "this decision cannot be replayed, because it depends on the past of the service: see"
            " GET /v1/elastic and /v1/control"
        )
        raise ApiError(HTTPStatus.CONFLICT, detail, "id")
    packed = await journal.input_of(found.id)
    if packed is None:
        raise ApiError(HTTPStatus.GONE, "the snapshot behind this decision is no longer stored", "id")
    try:
        policy, snapshot = resolve(found.policy, found.settings), unpack(packed)
    except msgspec.DecodeError as error:
        detail = "another version of the collector stored the snapshot behind this decision"
        raise ApiError(HTTPStatus.GONE, detail, "id") from error
    async with api.planning:
        if found.request is None:
            plan = await api.worker.run(policy.rebalance, snapshot)
        else:
            question = msgspec.convert(found.request, PlacementQuestion)
            default_class = api.config.placement.default_class
            plan = (await api.worker.run(plan_room, snapshot, question, policy, default_class)).plan
    recorded, replayed = tuple(step.action for step in found.steps), plan.actions
    same = recorded == replayed and found.left[: len(plan.left)] == plan.left
    return ReplayedDecision(same=same, recorded=recorded, replayed=replayed)


async def make_room(api: Api, question: PlacementQuestion) -> Decision:
    """Make room for a container that fits on no node: limit, move or stop other containers."""
    decision, _ = await api.control.make_room(question)
    return decision


class WaitingContainer(msgspec.Struct, frozen=True, kw_only=True):
    """A container that was stopped to make room. It starts again when it fits, or by its promise."""

    id: str
    """Id of the container or task."""
    name: str
    """Name of the container or task."""
    service: str | None
    node: str
    """The node on which it was stopped."""
    since: float
    """Unix time at which it was stopped."""
    task_class: int = msgspec.field(name="class")
    requested: Quantities
    """Resources that are reserved for it when it starts."""
    decision: str
    """Id of the decision that stopped it."""


class WaitingContainers(msgspec.Struct, frozen=True):
    """Containers that wait for room, the longest wait first."""

    waiting: list[WaitingContainer]
    """All waiting containers."""


async def list_waiting(api: Api) -> WaitingContainers:
    """List containers that were stopped to make room and wait to start again."""
    situation = api.control.actor.situation
    default_class = api.config.placement.default_class
    by_task: dict[str, str] = {}
    by_service: dict[str | None, str] = {}
    for decision in reversed(situation.journal.decisions()):
        for step in decision.steps:
            if isinstance(step.action, Kill):
                by_task[step.action.task] = by_service[step.service] = decision.id
    since = {each.id: each.created_at for each in situation.view.pending}
    killed = situation.waiting
    since |= {task: step.done_at for task, step in killed.items()}
    stopped = [each for each in waiting_tasks(situation.completed) if each.id in killed]
    waiting = [
        WaitingContainer(
            id=each.id,
            name=each.name,
            service=each.service,
            node=each.last_node,
            since=since[each.id] or 0.0,
            task_class=each.task_class,
            requested=to_quantities(each.requested),
            decision=by_task.get(each.id) or by_service.get(each.service, ""),
        )
        for each in [*stopped, *pending_tasks(situation.view, default_class)]
        if each.last_node is not None
    ]
    return WaitingContainers(sorted(waiting, key=lambda each: each.since))


async def set_pause(api: Api, question: ControlRequest) -> ControlStatus:
    """Pause the control loop, for a time or until it is resumed; or resume it."""
    now = api.clock()
    until = None if question.seconds is None else now + question.seconds
    pause = Pause(since=now, until=until, why=question.why) if question.paused else None
    await api.control.actor.situation.journal.set_pause(pause)
    return await status(api)


async def status(api: Api) -> ControlStatus:
    """Get the status of the control loop."""
    now, settings = api.control.actor.situation, api.config.control
    return ControlStatus(
        driver=now.driver.name,
        dry_run=now.is_dry,
        active=now.acts,
        lease_holder=now.holder,
        pause=now.pause,
        policy=settings.policy,
        timer_policy=settings.timer_policy,
        steps_in_progress=now.in_motion,
        problem=now.trouble,
    )


ROUTES: tuple[Route, ...] = (
    get("/v1/decisions", decisions),
    get("/v1/decisions/effect", effects),
    get("/v1/decisions/replay", replay, problems={**_NO_DECISION, **_NO_REPLAY, **_NO_INPUT, **NO_HISTORY}),
    post("/v1/room", make_room, problems=NO_HISTORY, scope=Scope.ADMIN),
    get("/v1/room", list_waiting),
    get("/v1/control", status),
    post("/v1/control", set_pause, problems=NO_HISTORY, scope=Scope.ADMIN),
)

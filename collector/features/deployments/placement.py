"""Where the containers of new services start: a policy chooses the nodes, the driver holds them there.

The collector does not create services: their creator does, with its own rights, and with the temporary
constraints of the response. The control loop removes these later.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from math import isfinite
from typing import NamedTuple

import msgspec

from collector.common.applications import application_traits
from collector.common.errors import ApiError
from collector.control.loop import ControlLoop
from collector.control.new_services import NewService, container_question
from collector.control.orchestrator_state import UnknownConstraintError, require_known
from collector.control.records import DecisionOutcome
from collector.control.situation import Situation
from collector.core.placing import place_now
from collector.drivers.interface import DriverError
from collector.features.deployments.models import Deployment, DeployRequest, ServiceDeployment
from collector.placement.question import PlacementQuestion, build_request, resolve_policy
from collector.placement.reservations import MAX_PLACEMENTS
from collector.policies.actions import describe
from collector.policies.filters import describe_rejection
from collector.policies.interface import Ranking, Request
from collector.policies.resolve import PolicyChoice
from collector.snapshot.tables import Snapshot
from wire.errors import UserError


class _ChosenNodes(NamedTuple):
    """Where the replicas of a service start, and why."""

    counts: Counter[str]
    reasons: tuple[str, ...]


async def deploy(loop: ControlLoop, request: DeployRequest) -> Deployment:
    """Choose the nodes of new services, make room for them if needed, and reserve the nodes.

    A policy that places whole applications gets all services of an application at once. Raise `ApiError` if a
    service fits nowhere; then nothing is reserved.
    """
    situation, core = loop.actor.situation, loop.actor.situation.core
    if not request.dry and not situation.acts:
        raise ApiError(HTTPStatus.CONFLICT, f"nothing is deployed: {_why_it_does_not_act(situation)}", "$")
    chosen = resolve_policy(core.config, request.policy, request.settings, "place")
    replicas = sum(each.replicas for each in request.services)
    if replicas > MAX_PLACEMENTS:
        detail = f"the services have {replicas} replicas, limit {MAX_PLACEMENTS}: deploy some of them first"
        raise ApiError(HTTPStatus.BAD_REQUEST, detail, "$.services")
    reserved: list[str] = []
    keeps = False
    try:
        together: dict[str, _ChosenNodes] = {}
        if chosen.policy.place_all is not None:
            for application, members in _applications(situation, request):
                together |= await _place_together(loop, chosen, application, members, reserved)
        services = [await _place(loop, request, each, together, reserved) for each in request.services]
        keeps = not request.dry
    finally:
        if not keeps:
            for name in reserved:
                core.reservations.release(name)
    if keeps:
        loop.expect_deployment()
    return Deployment(policy=chosen.policy.name, services=tuple(services))


def _why_it_does_not_act(situation: Situation) -> str:
    if situation.is_dry:
        return "driver.name is none. Set it to swarm, or request a dry run"
    if situation.pause is not None:
        return "actions are paused. Resume them with: wattpack control resume"
    return f"another collector holds the lease: {situation.holder}. Send the request there"


def _applications(
    situation: Situation, request: DeployRequest
) -> Iterator[tuple[str, list[tuple[NewService, PlacementQuestion]]]]:
    """Return the services that are placed together, by application, with a question each."""
    found: dict[str, list[tuple[NewService, PlacementQuestion]]] = {}
    for service in request.services:
        application = application_traits(service.labels, service.application or "").name
        if (
            not application
            or service.max_replicas_per_node
            or _reason_to_leave_to_orchestrator(service) is not None
        ):
            continue
        question = _question(situation, request, service)
        found.setdefault(application, []).append((service, question))
    yield from found.items()


async def _place_together(
    loop: ControlLoop,
    chosen: PolicyChoice,
    application: str,
    members: Sequence[tuple[NewService, PlacementQuestion]],
    reserved: list[str],
) -> dict[str, _ChosenNodes]:
    """Choose and reserve the nodes of all containers of an application."""
    situation, core = loop.actor.situation, loop.actor.situation.core
    names = [service.name for service, _ in members]
    bounds = [application_traits(service.labels, application).delay_max for service, _ in members]
    bound = min(bounds) if isfinite(min(bounds)) else None
    async with core.planning:
        snapshot = await situation.snapshot()
        requests: list[Request] = []
        for service, question in members:
            bounded = msgspec.structs.replace(question, application=application, delay_max_seconds=bound)
            one, _ = build_request(bounded, snapshot, core.config.placement.default_class)
            requests += [one] * service.replicas
        left = core.reservations.left_by(names, core.clock())
        placed = await asyncio.to_thread(chosen.place_all, snapshot, requests, left)
        if placed.why_not is not None:
            needed = "".join(f"; needed: {each}" for each in placed.needed)
            detail = f"application {application} cannot be placed: {placed.why_not}{needed}"
            raise ApiError(HTTPStatus.CONFLICT, detail, "$")
        counts: dict[str, Counter[str]] = {name: Counter() for name in names}
        for one, node in zip(requests, placed.nodes, strict=True):
            counts[one.service or ""][node] += 1
            reserved.append(_reserve(situation, snapshot, one, node))
    return {name: _ChosenNodes(count, placed.reasons) for name, count in counts.items()}


def _reserve(situation: Situation, snapshot: Snapshot, request: Request, node: str) -> str:
    core = situation.core
    try:
        return core.reservations.place(
            snapshot, request, node, now=core.clock(), seconds=situation.settings.reservation_seconds
        ).id
    except UserError as error:
        raise ApiError(HTTPStatus.TOO_MANY_REQUESTS, str(error), "$") from error


def _reason_to_leave_to_orchestrator(service: NewService) -> str | None:
    """Return why the orchestrator chooses the nodes of a service."""
    if service.mode == "global":
        return "it runs on every node"
    if not service.replicas:
        return "it has no replicas"
    try:
        require_known(service.constraints)
    except UnknownConstraintError as error:
        return str(error)
    return None


def _question(situation: Situation, request: DeployRequest, service: NewService) -> PlacementQuestion:
    """Return the question for a container of a service."""
    return container_question(
        service,
        situation.view.nodes,
        spread=request.spread and service.replicas > 1,
        reserve_seconds=situation.settings.reservation_seconds,
        policy=request.policy,
        settings=request.settings,
    )


async def _place(
    loop: ControlLoop,
    request: DeployRequest,
    service: NewService,
    together: Mapping[str, _ChosenNodes],
    reserved: list[str],
) -> ServiceDeployment:
    situation = loop.actor.situation
    reason = _reason_to_leave_to_orchestrator(service)
    if reason is not None:
        return ServiceDeployment(name=service.name, left_to_orchestrator=reason)
    chosen = together.get(service.name)
    if chosen is None:
        chosen = await _place_one_by_one(loop, request, service, reserved)
    if request.dry:
        return ServiceDeployment(name=service.name, nodes=dict(chosen.counts), reasons=chosen.reasons)
    try:
        hold = await situation.hold(chosen.counts)
    except DriverError as error:
        raise ApiError(HTTPStatus.CONFLICT, f"{service.name} cannot be deployed: {error}", "$") from error
    return ServiceDeployment(
        name=service.name,
        nodes=dict(chosen.counts),
        replicas=hold.replicas,
        constraints=hold.constraints,
        labels=dict(hold.labels),
        reasons=chosen.reasons,
    )


async def _place_one_by_one(
    loop: ControlLoop, request: DeployRequest, service: NewService, reserved: list[str]
) -> _ChosenNodes:
    """Choose and reserve the nodes of a service, one replica after the other."""
    question = _question(loop.actor.situation, request, service)
    counts: Counter[str] = Counter()
    reasons: tuple[str, ...] = ()
    for _ in range(service.replicas):
        most = service.max_replicas_per_node
        full = {node for node, count in counts.items() if most and count >= most}
        open_question = msgspec.structs.replace(question, exclude=question.exclude | full)
        node, why = await _place_one(loop, open_question, reserved, dry=request.dry)
        counts[node] += 1
        reasons = reasons or why
    return _ChosenNodes(counts, reasons)


async def _place_one(
    loop: ControlLoop, question: PlacementQuestion, reserved: list[str], *, dry: bool
) -> tuple[str, tuple[str, ...]]:
    """Choose and reserve the node of one container; return it with the reasons."""
    situation, core = loop.actor.situation, loop.actor.situation.core
    snapshot = await situation.snapshot()
    chosen, found = place_now(core, snapshot, question)
    best = found.ranking.best
    if best is None or found.reservation is None:
        why = _why_nowhere(found.ranking)
        raise ApiError(HTTPStatus.CONFLICT, f"{question.service} fits on no node: {why}", "$")
    node, reasons = snapshot.nodes.names[best], found.ranking.explain(best)
    needs = found.ranking.needs(best)
    if dry or not needs:
        reserved.append(found.reservation.id)
        return node, (*reasons, *(f"first {describe(action)}" for action in needs))
    core.reservations.release(found.reservation.id)
    question = msgspec.structs.replace(question, policy=chosen.policy.name)
    decision, room = await loop.make_room(question)
    if decision.outcome is not DecisionOutcome.DONE or room is None:
        refused = next((step.why for step in decision.steps if step.why), decision.outcome.value)
        detail = f"{question.service} fits on {node} only after other actions, which failed: {refused}"
        raise ApiError(HTTPStatus.CONFLICT, detail, "$")
    return room, (*reasons, f"room was made by decision {decision.id}")


def _why_nowhere(ranking: Ranking) -> str:
    codes = Counter(int(code) for code in ranking.refused if code)
    if not codes:
        return "no node reports"
    return "; ".join(f"{describe_rejection(code)} ({count})" for code, count in codes.most_common(3))

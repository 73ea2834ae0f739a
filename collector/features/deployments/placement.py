"""Where the containers of new services start: a policy chooses the nodes, the driver holds them there.

The collector does not create services: their creator does, with its own rights, and with the temporary
constraints of the response. The control loop removes these later.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Sequence
from http import HTTPStatus
from math import isfinite

import msgspec

from collector.act.drivers.interface import DriverError
from collector.act.loop import ControlLoop
from collector.act.new_services import NewService, container_question
from collector.act.orchestrator_state import UnknownConstraintError, require_known
from collector.act.records import DecisionOutcome
from collector.act.situation import Situation
from collector.common.applications import application_traits
from collector.common.errors import ApiError
from collector.decide.policies.actions import describe
from collector.decide.policies.interface import Ranking, Rejection, Request
from collector.decide.question import PlacementQuestion, build_request, resolve_policy
from collector.decide.ranking import place_together
from collector.decide.reservations import MAX_PLACEMENTS
from collector.features.deployments.models import Deployment, DeployRequest, ServiceDeployment
from collector.runtime.placing import place_now
from collector.snapshot.tables import Snapshot
from wire.errors import UserError


async def deploy(loop: ControlLoop, request: DeployRequest) -> Deployment:
    """Choose the nodes of new services, make room for them if needed, and reserve the nodes.

    A policy that places whole applications gets all services of an application at once. Raise `ApiError` if a
    service fits nowhere; then nothing is reserved.
    """
    situation, core = loop.actor.situation, loop.actor.situation.core
    core.require_state()
    if not request.dry and not situation.acts:
        raise ApiError(HTTPStatus.CONFLICT, f"nothing is deployed: {_why_it_does_not_act(situation)}", "$")
    replicas = sum(each.replicas for each in request.services)
    if replicas > MAX_PLACEMENTS:
        detail = f"the services have {replicas} replicas, limit {MAX_PLACEMENTS}: deploy some of them first"
        raise ApiError(HTTPStatus.BAD_REQUEST, detail, "$.services")
    placer = _Placer(loop, request)
    keeps = False
    try:
        services = await placer.place_services()
        keeps = not request.dry
    finally:
        if not keeps:
            core.reservations.release_all(placer.reserved)
    if keeps:
        loop.expect_deployment()
    return Deployment(policy=placer.chosen.policy.name, services=tuple(services))


def _why_it_does_not_act(situation: Situation) -> str:
    if situation.is_dry:
        return "driver.name is none. Set it to swarm, or request a dry run"
    if situation.pause is not None:
        return "actions are paused. Resume them with: wattpack control resume"
    return f"another collector holds the lease: {situation.holder}. Send the request there"


class _Placer:
    """Places the services of one request."""

    def __init__(self, loop: ControlLoop, request: DeployRequest) -> None:
        self._loop, self._request, self._situation = loop, request, loop.actor.situation
        self._core = self._situation.core
        self.chosen = resolve_policy(self._core.config, request.policy, {}, "place")
        self.reserved: list[str] = []
        """The reservations so far."""

    async def place_services(self) -> list[ServiceDeployment]:
        """Choose and reserve the nodes of all services."""
        left = {each.name: _reason_to_leave_to_orchestrator(each) for each in self._request.services}
        together: dict[str, ServiceDeployment] = {}
        if self.chosen.policy.place_all is not None:
            applications: defaultdict[str, list[NewService]] = defaultdict(list)
            for service in self._request.services:
                application = application_traits(service.labels, service.application or "", service.name).name
                if application and not service.max_replicas_per_node and left[service.name] is None:
                    applications[application].append(service)
            for application, members in applications.items():
                together |= await self._place_application(application, members)
        found = []
        for service in self._request.services:
            if (reason := left[service.name]) is not None:
                found.append(ServiceDeployment(name=service.name, left_to_orchestrator=reason))
            else:
                placed = together.get(service.name) or await self._place_service(service)
                found.append(placed if self._request.dry else await self._hold(placed))
        return found

    async def _place_application(
        self, application: str, members: Sequence[NewService]
    ) -> dict[str, ServiceDeployment]:
        """Choose and reserve the nodes of all containers of an application."""
        situation, core = self._situation, self._core
        bound = min(application_traits(each.labels, application).delay_max for each in members)
        async with core.planning:
            snapshot = await situation.snapshot()
            requests: list[Request] = []
            for service in members:
                bounded = msgspec.structs.replace(
                    self._question(service),
                    application=application,
                    delay_max_seconds=bound if isfinite(bound) else None,
                )
                one, _ = build_request(bounded, snapshot, core.config.placement.default_class)
                requests += [one] * service.replicas
            left = core.reservations.left_by([each.name for each in members], core.clock())
            placed = await asyncio.to_thread(
                place_together, snapshot, requests, self.chosen, left, admission=core.admission
            )
            if placed.why_not is not None:
                needed = "".join(f"; needed: {each}" for each in placed.needed)
                detail = f"application {application} cannot be placed: {placed.why_not}{needed}"
                raise ApiError(HTTPStatus.CONFLICT, detail, "$")
            counts: dict[str, Counter[str]] = {each.name: Counter() for each in members}
            for one, node in zip(requests, placed.nodes, strict=True):
                counts[one.service or ""][node] += 1
                self._reserve(snapshot, one, node)
        return {
            name: ServiceDeployment(name=name, nodes=dict(count), reasons=placed.reasons)
            for name, count in counts.items()
        }

    def _reserve(self, snapshot: Snapshot, request: Request, node: str) -> None:
        seconds = self._situation.settings.reservation_seconds
        try:
            made = self._core.reservations.place(
                snapshot, request, node, now=self._core.clock(), seconds=seconds
            )
        except UserError as error:
            raise ApiError(HTTPStatus.TOO_MANY_REQUESTS, str(error), "$") from error
        self.reserved.append(made.id)

    def _question(self, service: NewService) -> PlacementQuestion:
        return container_question(
            service,
            self._situation.view.nodes,
            spread=self._request.spread and service.replicas > 1,
            reserve_seconds=self._situation.settings.reservation_seconds,
            policy=self._request.policy,
        )

    async def _place_service(self, service: NewService) -> ServiceDeployment:
        """Choose and reserve the nodes of a service, one replica after the other."""
        question, most = self._question(service), service.max_replicas_per_node
        counts: Counter[str] = Counter()
        reasons: tuple[str, ...] = ()
        for _ in range(service.replicas):
            full = {node for node, count in counts.items() if most and count >= most}
            node, why = await self._place_container(
                msgspec.structs.replace(question, exclude=question.exclude | full)
            )
            counts[node] += 1
            reasons = reasons or why
        return ServiceDeployment(name=service.name, nodes=dict(counts), reasons=reasons)

    async def _place_container(self, question: PlacementQuestion) -> tuple[str, tuple[str, ...]]:
        """Choose and reserve the node of one container; return it with the reasons."""
        snapshot = await self._situation.snapshot()
        found = place_now(self._core, snapshot, question, may_cut=False)
        best = found.ranking.best
        if best is None or found.reservation is None:
            why = _why_nowhere(found.ranking)
            raise ApiError(HTTPStatus.CONFLICT, f"{question.service} fits on no node: {why}", "$")
        node, reasons = snapshot.nodes.names[best], found.ranking.explain(best)
        needs = found.ranking.needs(best)
        if self._request.dry or not needs:
            self.reserved.append(found.reservation.id)
            return node, (*reasons, *(f"first {describe(action)}" for action in needs))
        self._core.reservations.release(found.reservation.id)
        decision, room = await self._loop.make_room(
            msgspec.structs.replace(question, policy=self.chosen.policy.name), may_cut=False
        )
        if decision.outcome is not DecisionOutcome.DONE or room is None:
            refused = next((step.why for step in decision.steps if step.why), decision.outcome.value)
            detail = f"{question.service} fits on {node} only after other actions, which failed: {refused}"
            raise ApiError(HTTPStatus.CONFLICT, detail, "$")
        return room, (*reasons, f"room was made by decision {decision.id}")

    async def _hold(self, placed: ServiceDeployment) -> ServiceDeployment:
        """Add how to create a service so that it starts on its nodes."""
        try:
            hold = await self._situation.driver.hold(placed.nodes)
        except DriverError as error:
            raise ApiError(HTTPStatus.CONFLICT, f"{placed.name} cannot be deployed: {error}", "$") from error
        return msgspec.structs.replace(
            placed, replicas=hold.replicas, constraints=hold.constraints, labels=dict(hold.labels)
        )


def _reason_to_leave_to_orchestrator(service: NewService) -> str | None:
    if service.mode == "global":
        return "it runs on every node"
    if not service.replicas:
        return "it has no replicas"
    try:
        require_known(service.constraints)
    except UnknownConstraintError as error:
        return str(error)
    return None


def _why_nowhere(ranking: Ranking) -> str:
    codes = Counter(int(code) for code in ranking.refused if code)
    if not codes:
        return "no node reports"
    return "; ".join(f"{Rejection(code).text} ({count})" for code, count in codes.most_common(3))

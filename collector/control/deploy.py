"""Where the containers of new services start: a policy chooses the nodes, the driver holds them there.

The collector does not create services: their creator does, with its own rights, and with the temporary
constraints that are the answer here. The control loop removes these later.
"""

from collections import Counter
from collections.abc import Iterator
from http import HTTPStatus
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from collector.common.errors import ApiError
from collector.control.loop import ControlLoop
from collector.control.records import DecisionOutcome
from collector.drivers.interface import DriverError, NodeView
from collector.placement.placing import place_container
from collector.placement.question import Name, PlacementQuestion, resolve_policy
from collector.policies.actions import describe
from collector.policies.filters import describe_rejection
from collector.policies.interface import Ranking
from wire.errors import UserError
from wire.resources import Quantities

MAX_REPLICAS = 1000
_NOTHING = Quantities()
_LABEL, _HOSTNAME, _ROLE = "node.labels.", "node.hostname", "node.role"


class NewService(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A service to deploy."""

    name: Name
    """Its name in the orchestrator."""
    image: Name | None = None
    mode: Literal["replicated", "global"] = "replicated"
    replicas: Annotated[int, Meta(ge=0, le=MAX_REPLICAS)] = 1
    reserve: Quantities = _NOTHING
    """Reservation of each container."""
    labels: dict[str, str] = {}
    """Labels of the service; `wattpack.class` and `wattpack.kind` are used."""
    constraints: Annotated[tuple[Name, ...], Meta(max_length=100)] = ()
    """Its own constraints, in the orchestrator's syntax."""
    max_replicas_per_node: Annotated[int, Meta(ge=0)] = 0
    """0 is no limit."""


class DeployRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Services to deploy together."""

    services: Annotated[tuple[NewService, ...], Meta(min_length=1, max_length=1000)]
    policy: Name | None = None
    """Default: the configured policy."""
    settings: dict[str, Any] = {}
    """Settings of the policy. Default: as configured."""
    spread: bool = True
    """Whether to spread the replicas of a service over failure domains, or over nodes."""
    dry: bool = False
    """Whether only to tell where the services would start: nothing is reserved, and no room is made."""


class ServiceDeployment(msgspec.Struct, frozen=True, kw_only=True):
    """Where a service starts, and how to create it so that it does."""

    name: str
    nodes: dict[str, int] = {}
    """Replicas by node."""
    replicas: int = 0
    """Replicas to create it with. The collector adds the others."""
    constraints: tuple[str, ...] = ()
    """Temporary constraints to create it with, besides its own. The collector removes them."""
    labels: dict[str, str] = {}
    """Temporary labels to create it with."""
    reasons: tuple[str, ...] = ()
    """Why the first replica starts where it does."""
    left_to_orchestrator: str | None = None
    """Why the orchestrator chooses the nodes; null if Wattpack does."""


class Deployment(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a `DeployRequest`."""

    policy: str
    services: tuple[ServiceDeployment, ...]


async def deploy(loop: ControlLoop, request: DeployRequest) -> Deployment:
    """Choose the nodes of new services, make room for them if needed, and reserve the nodes.

    Raise `ApiError` if a service fits nowhere; then nothing is reserved.
    """
    situation, core = loop.actor.situation, loop.actor.situation.core
    if not request.dry and not situation.acts:
        reason = "driver.name is none" if situation.is_dry else "it is paused, or another one holds the lease"
        raise ApiError(HTTPStatus.CONFLICT, f"this collector does not act now: {reason}", "$")
    reserved: list[str] = []
    keeps = False
    try:
        services = [await _place(loop, request, each, reserved) for each in request.services]
        keeps = not request.dry
    finally:
        if not keeps:
            for name in reserved:
                core.reservations.release(name)
    if keeps:
        loop.expect_deployment()
    chosen = resolve_policy(core.config, request.policy, request.settings, "place")
    return Deployment(policy=chosen.policy.name, services=tuple(services))


async def _place(
    loop: ControlLoop, request: DeployRequest, service: NewService, reserved: list[str]
) -> ServiceDeployment:
    situation = loop.actor.situation
    if service.mode == "global" or not service.replicas:
        reason = "it runs on every node" if service.mode == "global" else "it has no replicas"
        return ServiceDeployment(name=service.name, left_to_orchestrator=reason)
    try:
        conditions = list(_conditions(service.constraints))
    except _UnknownConstraintError as error:
        return ServiceDeployment(name=service.name, left_to_orchestrator=str(error))
    constraints = tuple(each for each in conditions if isinstance(each, str))
    roles = [each for each in conditions if isinstance(each, _Role)]
    unfit = {node.name for node in situation.view.nodes for role in roles if not role.matches(node)}
    counts: Counter[str] = Counter()
    reasons: tuple[str, ...] = ()
    for _ in range(service.replicas):
        most = service.max_replicas_per_node
        full = {node for node, count in counts.items() if most and count >= most}
        question = PlacementQuestion(
            service=service.name,
            image=service.image,
            reserve=service.reserve,
            labels=service.labels,
            constraints=constraints,
            exclude=frozenset(unfit | full),
            spread=request.spread and service.replicas > 1,
            policy=request.policy,
            settings=request.settings,
            reserve_seconds=situation.settings.reservation_seconds,
        )
        node, why = await _place_one(loop, question, reserved, dry=request.dry)
        counts[node] += 1
        reasons = reasons or why
    if request.dry:
        return ServiceDeployment(name=service.name, nodes=dict(counts), reasons=reasons)
    try:
        hold = await situation.hold(counts)
    except DriverError as error:
        raise ApiError(HTTPStatus.CONFLICT, f"{service.name} cannot be deployed: {error}", "$") from error
    return ServiceDeployment(
        name=service.name,
        nodes=dict(counts),
        replicas=hold.replicas,
        constraints=hold.constraints,
        labels=dict(hold.labels),
        reasons=reasons,
    )


async def _place_one(
    loop: ControlLoop, question: PlacementQuestion, reserved: list[str], *, dry: bool
) -> tuple[str, tuple[str, ...]]:
    """Choose and reserve the node of one container; return it with the reasons."""
    situation, core = loop.actor.situation, loop.actor.situation.core
    chosen = resolve_policy(core.config, question.policy, question.settings, "place")
    snapshot = await situation.snapshot()
    try:
        found = place_container(
            snapshot,
            question,
            chosen,
            core.reservations,
            default_class=core.config.placement.default_class,
            now=core.clock(),
        )
    except UserError as error:
        raise ApiError(HTTPStatus.TOO_MANY_REQUESTS, str(error), "$") from error
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
    decision, room = await loop.make_room_on(question)
    if decision.outcome is not DecisionOutcome.DONE or room is None:
        refused = next((step.why for step in decision.steps if step.why), decision.outcome.value)
        detail = f"{question.service} fits on {node} only after other actions, which failed: {refused}"
        raise ApiError(HTTPStatus.CONFLICT, detail, "$")
    return room, (*reasons, f"room was made by decision {decision.id}")


def _why_nowhere(ranking: Ranking) -> str:
    codes = Counter(int(code) for code in ranking.refused if code)
    if not codes:
        return "there is no node"
    return "; ".join(f"{describe_rejection(code)} ({count})" for code, count in codes.most_common(3))


class _UnknownConstraintError(Exception):
    """A constraint that only the orchestrator can check."""


class _Role(msgspec.Struct, frozen=True):
    is_manager: bool

    def matches(self, node: NodeView) -> bool:
        return node.is_manager == self.is_manager


def _conditions(constraints: tuple[str, ...]) -> Iterator[str | _Role]:
    """Return the constraints of Swarm as conditions on nodes."""
    for each in constraints:
        operator = "!=" if "!=" in each else "=="
        key, found, value = (part.strip() for part in each.partition(operator))
        if not found or not value:
            raise _UnknownConstraintError(f"its constraint {each} is unknown here")
        if key.startswith(_LABEL):
            yield f"{key.removeprefix(_LABEL)}{operator}{value}"
        elif key == _HOSTNAME:
            yield f"node{operator}{value}"
        elif key == _ROLE:
            yield _Role((value == "manager") == (operator == "=="))
        else:
            raise _UnknownConstraintError(f"only Swarm can check its constraint {each}")

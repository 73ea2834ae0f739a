"""Running applications, and questions about a node for each container of one; the routes of the mesh."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from http import HTTPStatus
from math import isfinite, isnan
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from collector.common.applications import application_traits
from collector.common.errors import ApiError, QuestionError
from collector.decide.answers import Reservation
from collector.decide.policies.interface import ApplicationPlacement, Request
from collector.decide.policies.resolve import excluding
from collector.decide.question import (
    ContainerQuestion,
    Name,
    PlacementQuestion,
    build_request,
    resolve_policy,
)
from collector.decide.ranking import ranking_notes
from collector.features.network.applications.distance import bound_of, farthest_pair, nodes_of, within
from collector.features.network.applications.in_turn import place_application
from collector.features.network.applications.table import Applications, applications_in
from collector.features.network.mesh import routes as mesh
from collector.features.network.mesh.delays import Delays
from collector.runtime.parts import Core
from collector.serve.api.hints import TOO_MANY_RESERVATIONS, check_reservation
from collector.serve.api.queries import PageQuery, Pager
from collector.serve.web.routes import Route, get, post
from collector.serve.web.scopes import Caller
from collector.snapshot.tables import NOWHERE, Snapshot
from wire.errors import UserError

MAX_SERVICES, MAX_CONTAINERS = 100, 200
"""Limits of one question: if no placement exists, a search for more takes too long in a large cluster."""


class NodePair(msgspec.Struct, frozen=True, kw_only=True):
    """Two nodes, and the round-trip time between them."""

    nodes: tuple[str, ...]
    """Names of the two nodes."""
    seconds: float
    """Round-trip time, in seconds."""


class RunningApplication(msgspec.Struct, frozen=True, kw_only=True):
    """An application with running containers."""

    name: str
    """Name of the application."""
    services: tuple[str, ...]
    """Names of its services."""
    nodes: dict[str, int]
    """Number of its containers on each node."""
    delay_max_seconds: float | None
    """Allowed round-trip time between its nodes, by its labels; null without a limit."""
    farthest: NodePair | None
    """The nodes with the longest round-trip time between containers that talk; null if unknown."""
    within_bound: bool | None
    """Whether all round-trip times are within the limit; null without a limit, or if unknown."""


class ApplicationPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of applications, by name."""

    applications: list[RunningApplication]
    """The applications of this page."""
    next: str | None
    """Cursor of the next page; null on the last page."""


def _name(application: tuple[int, str]) -> tuple[str]:
    return (application[1],)


_BY_NAME: Pager[tuple[int, str], tuple[str]] = Pager(_name, tuple[str])


async def list_applications(core: Core, query: PageQuery) -> ApplicationPage:
    """List applications with running containers: services, nodes, and the round-trip times between them."""
    snapshot = await core.snapshot()
    applications = applications_in(snapshot)
    rows = sorted(enumerate(applications.names), key=_name)
    found, after = _BY_NAME.page(rows, query)
    # Large applications have many pairs of nodes.
    described = await asyncio.to_thread(
        lambda: [_describe(snapshot, applications, row, name) for row, name in found]
    )
    return ApplicationPage(applications=described, next=after)


def _describe(snapshot: Snapshot, applications: Applications, row: int, name: str) -> RunningApplication:
    services, bound = applications.services_of(row), float(applications.delay_max[row])
    counts = Counter(snapshot.tasks.node[applications.tasks_of(snapshot, services)].tolist())
    delays, farthest, within_bound = snapshot.part(Delays), None, None
    if delays is not None:
        *pair, seconds = farthest_pair(snapshot, delays, services, lambda some: nodes_of(snapshot, some))
        if seconds > 0:
            farthest = NodePair(
                nodes=tuple(snapshot.nodes.names[each] for each in sorted(pair)), seconds=seconds
            )
        if isfinite(bound) and not isnan(seconds):
            within_bound = bool(within(np.array(seconds), bound))
    return RunningApplication(
        name=name,
        services=tuple(snapshot.services.names[each] for each in services.tolist()),
        nodes={snapshot.nodes.names[node]: counts[node] for node in sorted(counts) if node != NOWHERE},
        delay_max_seconds=bound if isfinite(bound) else None,
        farthest=farthest,
        within_bound=within_bound,
    )


class ApplicationService(ContainerQuestion, frozen=True, kw_only=True):
    """A service of the application to place."""

    service: Name
    """Its name."""
    replicas: Annotated[int, Meta(ge=1, le=MAX_CONTAINERS)] = 1
    """Number of containers to place."""


class ApplicationQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An application to place as a whole: at most 200 new containers. Those that run already count too."""

    application: Name
    services: Annotated[tuple[ApplicationService, ...], Meta(min_length=1, max_length=MAX_SERVICES)]
    """Its services with new containers."""
    delay_max_seconds: Annotated[float, Meta(gt=0, le=3600)] | None = None
    """Maximum round-trip time between its nodes. Default: the smallest in the labels of its services."""
    spread: bool = False
    """Whether containers of a service go to different nodes, if possible."""
    policy: Name | None = None
    """Default: the configured policy."""
    settings: dict[str, Any] = {}
    """Settings of the policy. Default: as configured."""
    reserve_seconds: Annotated[float, Meta(ge=0, le=86_400)] = 0.0
    """Time that the nodes are reserved for the containers, or until agents report them there."""


class ApplicationHint(ApplicationPlacement, frozen=True, kw_only=True):
    """A node for each container of an application; or why there is none, and what would be needed."""

    policy: str
    at: float
    """Time of the snapshot."""
    application: str
    delay_max_seconds: float | None
    """Maximum round-trip time between its nodes; null without a bound."""
    placed: bool
    """Whether every container has a node; otherwise none has one."""
    services: dict[str, dict[str, int]]
    """The number of containers on each node, by service; empty if nothing is placed."""
    notes: tuple[str, ...]
    """What could not be taken into account."""
    reservations: tuple[Reservation, ...]
    """One for each container, if the question asks for reservations."""


async def place_containers(core: Core, question: ApplicationQuestion, caller: Caller) -> ApplicationHint:
    """Choose a node for each container of an application, within its maximum round-trip time.

    If that is impossible, the response says why, and what would be needed. With `reserve_seconds`, the nodes
    are reserved, which requires a token of kind `place`.
    """
    check_reservation(caller, question.reserve_seconds)
    chosen = resolve_policy(core.config, question.policy, question.settings, "place")
    # A search in a large cluster takes seconds.
    async with core.planning:
        snapshot = await core.snapshot()
        requests = requests_of(question, snapshot, core.config.placement.default_class)
        left = core.reservations.left_by([each.service for each in question.services], core.clock())
        placement = await asyncio.to_thread(
            place_application, snapshot, excluding(requests, left), chosen, core.admission
        )
        reserved = _reserve(core, snapshot, requests, placement, question.reserve_seconds)
    return _hint(snapshot, question, requests, placement, chosen.policy.name, reserved)


def _reserve(
    core: Core,
    snapshot: Snapshot,
    requests: Sequence[Request],
    placement: ApplicationPlacement,
    seconds: float,
) -> list[Reservation]:
    """Reserve the node of each container; if there are too many reservations, reserve none."""
    if not seconds:
        return []
    made = []
    try:
        for request, node in zip(requests, placement.nodes, strict=bool(placement.nodes)):
            made.append(core.reservations.place(snapshot, request, node, now=core.clock(), seconds=seconds))
    except UserError as error:
        core.reservations.release_all(each.id for each in made)
        raise ApiError(HTTPStatus.TOO_MANY_REQUESTS, str(error), "$.reserve_seconds") from error
    return [each.described() for each in made]


def requests_of(question: ApplicationQuestion, snapshot: Snapshot, default_class: int) -> list[Request]:
    """Return a request for each container. Raise `QuestionError` for an invalid question."""
    replicas = sum(each.replicas for each in question.services)
    if replicas > MAX_CONTAINERS:
        detail = f"the application has {replicas} containers, limit {MAX_CONTAINERS}: ask for its parts"
        raise QuestionError(detail, "$.services")
    names = [each.service for each in question.services]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        detail = f"service {twice[0]} is listed twice: set its replicas instead"
        raise QuestionError(detail, "$.services")
    bound = question.delay_max_seconds or _smallest_bound(question.services)
    requests: list[Request] = []
    for each in question.services:
        fields = {name: getattr(each, name) for name in ContainerQuestion.__struct_fields__}
        one = PlacementQuestion(
            **fields,
            spread=question.spread and each.replicas > 1,
            application=question.application,
            delay_max_seconds=bound,
        )
        request, _ = build_request(one, snapshot, default_class)
        requests += [request] * each.replicas
    return requests


def _smallest_bound(services: Sequence[ApplicationService]) -> float | None:
    smallest = min(application_traits(each.labels, each.service).delay_max for each in services)
    return smallest if isfinite(smallest) else None


def _hint(  # noqa: PLR0913, PLR0917 - question and result
    snapshot: Snapshot,
    question: ApplicationQuestion,
    requests: Sequence[Request],
    placement: ApplicationPlacement,
    policy: str,
    reservations: Sequence[Reservation],
) -> ApplicationHint:
    """Convert a placement to an answer."""
    bound = min(bound_of(snapshot, each) for each in requests)
    nodes: dict[str, Counter[str]] = {each.service: Counter() for each in question.services}
    for request, node in zip(requests, placement.nodes, strict=bool(placement.nodes)):
        nodes[request.service or ""][node] += 1
    notes = ranking_notes(snapshot, requests[0])
    reasons = tuple(each for each in placement.reasons if each not in notes)
    return ApplicationHint(
        **msgspec.structs.asdict(msgspec.structs.replace(placement, reasons=reasons)),
        policy=policy,
        at=snapshot.at,
        application=question.application,
        delay_max_seconds=bound if isfinite(bound) else None,
        placed=bool(placement.nodes),
        services={service: dict(found) for service, found in nodes.items() if found},
        notes=notes,
        reservations=tuple(reservations),
    )


ROUTES: tuple[Route, ...] = (
    *mesh.ROUTES,
    get("/v1/applications", list_applications),
    post("/v1/hints/application", place_containers, problems=TOO_MANY_RESERVATIONS),
)

"""Questions about a whole application: a node for each of its containers at once."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf, isfinite
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta

from collector.common.errors import QuestionError
from collector.live.traits import application_traits
from collector.placement.answers import Reservation
from collector.placement.application_placing import place_application
from collector.placement.question import Name, PlacementQuestion, build_request
from collector.placement.ranking import ranking_notes
from collector.policies.actions import Action
from collector.policies.distance import bound_of
from collector.policies.interface import ApplicationPlacement, Request
from collector.policies.resolve import PolicyChoice
from collector.snapshot.tables import Snapshot
from wire.resources import Quantities

MAX_SERVICES, MAX_CONTAINERS = 100, 200
"""Limits of one question: if no placement exists, a search for more takes too long in a large cluster."""
_NOTHING = Quantities()


class ApplicationService(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A service of the application to place. The fields have the same meaning as in a `PlacementQuestion`."""

    service: Name
    replicas: Annotated[int, Meta(ge=1, le=MAX_CONTAINERS)] = 1
    """Number of containers to place."""
    image: Name | None = None
    demand: Quantities = _NOTHING
    """Expected usage of each container."""
    reserve: Quantities = _NOTHING
    """Reservation of each container."""
    task_class: Annotated[int, Meta(ge=1, le=4)] | None = msgspec.field(default=None, name="class")
    kind: Literal["service", "job"] | None = None
    """Whether it runs until it is stopped, or until its work is done. Default: by its labels."""
    constraints: Annotated[tuple[Name, ...], Meta(max_length=100)] = ()
    labels: dict[str, str] = {}
    avoid: Annotated[tuple[Name, ...], Meta(max_length=100)] = ()
    exclude: Annotated[frozenset[Name], Meta(max_length=10_000)] = frozenset()
    talks_to: Annotated[tuple[Name, ...], Meta(max_length=100)] = ()


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


class PlacedService(msgspec.Struct, frozen=True, kw_only=True):
    """Where the containers of a service go."""

    service: str
    nodes: dict[str, int]
    """Containers by node."""


class ObjectiveTerms(msgspec.Struct, frozen=True, kw_only=True):
    """F = absent_images / containers + (nodes_in_use - 1) / (candidates - 1): the lower, the better."""

    value: float
    """F itself."""
    absent_images: int
    """Containers on nodes without their image."""
    containers: int
    nodes_in_use: int
    """Nodes that the application uses, with those of its running containers."""
    candidates: int
    """Nodes that could be used."""


class ApplicationHint(msgspec.Struct, frozen=True, kw_only=True):
    """A node for each container of an application; or why there is none, and what would be needed."""

    policy: str
    at: float
    """Time of the snapshot."""
    application: str
    delay_max_seconds: float | None
    """Maximum round-trip time between its nodes; null without a bound."""
    placed: bool
    """Whether every container has a node; otherwise none has one."""
    services: tuple[PlacedService, ...]
    """Empty if nothing is placed."""
    objective: ObjectiveTerms | None
    """What the placement minimizes; null if nothing is placed."""
    round_trip_seconds: float | None
    """Longest round-trip time between its nodes; null if it is unknown."""
    reasons: tuple[str, ...]
    needs: tuple[Action, ...]
    """Actions that must come first."""
    why_not: str | None
    """Why nothing is placed."""
    needed: tuple[str, ...]
    """What would be needed, if nothing is placed."""
    notes: tuple[str, ...]
    """What could not be taken into account."""
    reservations: tuple[Reservation, ...]
    """One for each container, if the question asks for reservations."""


class Placed(NamedTuple):
    """The containers of an application, one request each, and where they go."""

    requests: list[Request]
    placement: ApplicationPlacement

    @property
    def pairs(self) -> Iterator[tuple[Request, str]]:
        """Each request with its node; none if nothing is placed."""
        return zip(self.requests, self.placement.nodes, strict=bool(self.placement.nodes))


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
        one = PlacementQuestion(
            service=each.service,
            image=each.image,
            demand=each.demand,
            reserve=each.reserve,
            task_class=each.task_class,
            kind=each.kind,
            constraints=each.constraints,
            labels=each.labels,
            avoid=each.avoid,
            exclude=each.exclude,
            spread=question.spread and each.replicas > 1,
            application=question.application,
            delay_max_seconds=bound,
            talks_to=each.talks_to,
        )
        request, _ = build_request(one, snapshot, default_class, others=names)
        requests += [request] * each.replicas
    return requests


def _smallest_bound(services: Sequence[ApplicationService]) -> float | None:
    bounds = [application_traits(each.labels, each.service).delay_max for each in services]
    smallest = min(bounds, default=inf)
    return smallest if isfinite(smallest) else None


def place_requests(
    snapshot: Snapshot, requests: Sequence[Request], chosen: PolicyChoice, left: frozenset[str] = frozenset()
) -> Placed:
    """Place the containers of an application, not on nodes that it just `left`. May take seconds."""
    elsewhere = [replace(each, exclude=each.exclude | left) if left else each for each in requests]
    return Placed(list(requests), place_application(snapshot, elsewhere, chosen))


def application_hint(
    snapshot: Snapshot,
    question: ApplicationQuestion,
    placed: Placed,
    policy: str,
    reservations: Sequence[Reservation] = (),
) -> ApplicationHint:
    """Convert a placement to an answer."""
    placement, bound = placed.placement, min(bound_of(snapshot, each) for each in placed.requests)
    nodes: dict[str, Counter[str]] = {each.service: Counter() for each in question.services}
    for request, node in placed.pairs:
        nodes[request.service or ""][node] += 1
    objective = None
    if placement.objective is not None:
        objective = ObjectiveTerms(
            value=placement.objective,
            absent_images=placement.absent_images,
            containers=len(placed.requests),
            nodes_in_use=placement.nodes_in_use,
            candidates=placement.candidates,
        )
    notes = ranking_notes(snapshot, placed.requests[0])
    return ApplicationHint(
        policy=policy,
        at=snapshot.at,
        application=question.application,
        delay_max_seconds=bound if isfinite(bound) else None,
        placed=bool(placement.nodes),
        services=tuple(
            PlacedService(service=service, nodes=dict(found)) for service, found in nodes.items() if found
        ),
        objective=objective,
        round_trip_seconds=placement.round_trip_seconds,
        reasons=tuple(each for each in placement.reasons if each not in notes),
        needs=placement.needs,
        why_not=placement.why_not,
        needed=placement.needed,
        notes=notes,
        reservations=tuple(reservations),
    )

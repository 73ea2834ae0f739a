"""What is asked: a container that wants a place; and what of it is known, from where."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta

from collector.analysis.usage import quantities
from collector.common.errors import ApiError, message_and_path
from collector.config import CollectorConfig
from collector.live.traits import task_traits
from collector.placement.answers import Assumed, Basis
from collector.policies.interface import Constraint, Operator, Request
from collector.policies.resolve import Ability, PolicyChoice, SettingsError, resolve
from collector.snapshot.columns import Four
from collector.snapshot.power_curves import Floats
from collector.snapshot.tables import NOWHERE, Snapshot, TaskKind
from wire.errors import UserError
from wire.resources import RESOURCES, Quantities, Resource

Name = Annotated[str, Meta(min_length=1, max_length=500)]
_NOTHING = Quantities()
_KINDS = {"service": TaskKind.SERVICE, "job": TaskKind.JOB}


class PlacementQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A container that wants a place. Everything may be left out; the more is told, the better the answer."""

    service: Name | None = None
    """What it is an instance of. What was learnt of a known service tells what it needs."""
    image: Name | None = None
    """What it runs; a known service that runs the same tells what it needs."""
    demand: Quantities = _NOTHING
    """What it will use, where somebody knows better."""
    reserve: Quantities = _NOTHING
    """What it asks to be promised."""
    task_class: Annotated[int, Meta(ge=1, le=4)] | None = msgspec.field(default=None, name="class")
    """1 (nothing may be taken from it) to 4; if not told, what its labels say."""
    kind: Literal["service", "job"] | None = None
    type: Resource | None = None
    """Its dominant resource, where somebody knows better."""
    constraints: Annotated[tuple[Name, ...], Meta(max_length=100)] = ()
    """`label==value` or `label!=value`, of a node's labels; the label `node` is the node's name."""
    labels: dict[str, str] = {}
    """Its own; `wattpack.class` and `wattpack.kind` count."""
    avoid: Annotated[tuple[Name, ...], Meta(max_length=100)] = ()
    """Services that it must not share a node with."""
    exclude: Annotated[frozenset[Name], Meta(max_length=10_000)] = frozenset()
    """Nodes that are out of the question."""
    spread: bool = False
    """Whether instances of its service are kept apart: over failure domains, or else over nodes."""
    policy: Name | None = None
    """By what to decide; if not told, by what is configured."""
    settings: dict[str, Any] = {}
    """Of the policy; those not told are as configured, or its defaults."""
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 10
    """No more nodes than these are answered, the best."""
    refused: Literal["some", "all"] = "some"
    """Whether every refused node is named, or the first few."""
    reserve_seconds: Annotated[float, Meta(ge=0, le=86_400)] = 0.0
    """The best node is kept for it for so long, or until it is seen there: others see the node fuller."""


def resolve_policy(
    config: CollectorConfig, name: str | None, settings: Mapping[str, Any], ability: Ability
) -> PolicyChoice:
    """Return the policy that a request names, or the configured one, with its settings.

    Settings that the request leaves out are as configured. Raise `ApiError` if a name or a setting is wrong.
    """
    name = name or config.placement.policy
    try:
        return resolve(name, {**config.policies.get(name, {}), **settings}, ability)
    except SettingsError as invalid:
        what, where = message_and_path(invalid.error)
        path = f"$.settings{where.removeprefix('$')}"
        raise ApiError(HTTPStatus.BAD_REQUEST, f"{what} - at `{path}`", path) from invalid
    except UserError as error:
        raise ApiError(HTTPStatus.BAD_REQUEST, str(error), "$.policy") from error


def parse_constraint(text: str) -> Constraint:
    """`label==value` or `label!=value`."""
    for operator in Operator:
        label, found, value = text.partition(operator)
        if found and label.strip() and value.strip():
            return Constraint(label.strip(), operator, value.strip())
    raise UserError(f"{text!r} is no constraint: write label==value or label!=value")


def understood(
    question: PlacementQuestion, snapshot: Snapshot, default_class: int
) -> tuple[Request, Assumed]:
    """A request for the policies, and what of it is assumed."""
    traits = task_traits(question.labels, default_class)
    try:
        constraints = tuple(parse_constraint(each) for each in question.constraints)
    except UserError as complaint:
        raise ApiError(HTTPStatus.BAD_REQUEST, str(complaint), "$.constraints") from complaint
    need = make_out(
        snapshot,
        services=(question.service,) if question.service else (),
        image=question.image,
        demand=question.demand,
        reserve=question.reserve,
    )
    request = Request(
        demand=need.assumed.demand,
        mean=need.assumed.mean,
        variance=need.variance,
        reserve=need.assumed.reserve,
        known=need.known,
        service=question.service,
        dominant=question.type or need.dominant,
        task_class=question.task_class or traits.task_class,
        kind=traits.kind if question.kind is None else _KINDS[question.kind],
        constraints=constraints,
        avoid=question.avoid,
        exclude=question.exclude,
        spread=question.spread,
    )
    return request, need.assumed


class ExpectedNeed(msgspec.Struct, frozen=True, kw_only=True):
    """What a container will need, as far as that can be made out."""

    assumed: Assumed
    known: bool
    variance: Four = (0.0, 0.0, 0.0, 0.0)
    dominant: Resource | None = None


def make_out(
    snapshot: Snapshot,
    *,
    services: tuple[str, ...],
    image: str | None,
    demand: Quantities,
    reserve: Quantities,
) -> ExpectedNeed:
    """What a container will need: what is told counts before what was learnt, and that before a guess.

    `services` are the names that it may be known by, the best first.
    """
    known = snapshot.services.profiled
    named = [row for name in services if (row := snapshot.services.index.get(name)) is not None]
    row = next((row for row in named if known[row]), None)
    basis = Basis.SERVICE
    if row is None and image is not None:
        row, basis = snapshot.services.by_image.get(image), Basis.IMAGE
    if reserve == _NOTHING and named:
        reserve = _promised(snapshot, named[0])
    told = demand != _NOTHING
    if row is None:
        return _unlearnt(demand, reserve, told=told)
    table = snapshot.services
    name, lead = table.names[row], int(table.dominant[row])
    envelope, mean = (_or(demand, each[row]) for each in (table.envelope, table.mean))
    learnt = f"what was learnt of {'' if basis is Basis.SERVICE else 'the image, by '}the service {name}"
    return ExpectedNeed(
        assumed=Assumed(
            basis=Basis.TOLD if told else basis,
            says=f"what the question tells, and of the rest {learnt}" if told else learnt,
            demand=envelope,
            mean=mean,
            reserve=reserve,
        ),
        known=True,
        variance=_four(np.nan_to_num(table.variance[row], nan=0.0)),
        dominant=None if lead == NOWHERE else RESOURCES[lead],
    )


def _unlearnt(demand: Quantities, reserve: Quantities, *, told: bool) -> ExpectedNeed:
    if told:
        assumed = Assumed(
            basis=Basis.TOLD, says="what the question tells", demand=demand, mean=demand, reserve=reserve
        )
        return ExpectedNeed(assumed=assumed, known=True)
    if reserve != _NOTHING:
        says = "a guess: nothing was learnt of it yet, so it may use all that it asks for"
        return ExpectedNeed(
            assumed=Assumed(basis=Basis.GUESS, says=says, demand=reserve, mean=_NOTHING, reserve=reserve),
            known=False,
        )
    says = (
        "nothing: nothing was learnt of it yet and the question does not tell, so it is placed as if it "
        "needed nothing; tell its demand, or what it reserves"
    )
    return ExpectedNeed(
        assumed=Assumed(basis=Basis.NOTHING, says=says, demand=_NOTHING, mean=_NOTHING, reserve=_NOTHING),
        known=False,
    )


def _promised(snapshot: Snapshot, service: int) -> Quantities:
    """What the service's containers were promised at first: the most that any of them was."""
    requested = snapshot.tasks.requested[snapshot.tasks.service == service]
    if not requested.size:
        return _NOTHING
    most = np.nan_to_num(requested, nan=-1.0).max(axis=0)
    return quantities(np.where(most < 0, np.nan, most))


def _or(told: Quantities, learnt: Floats) -> Quantities:
    """What is told, and what was learnt where nothing is."""
    given = [told.of(resource) for resource in RESOURCES]
    return quantities([learnt[at] if each is None else each for at, each in enumerate(given)])


def _four(row: Floats) -> Four:
    cpu, memory, disk, network = row.tolist()
    return cpu, memory, disk, network

"""Questions about placement, and what the container is assumed to need."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from math import isnan
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta

from collector.analysis.usage import to_quantities
from collector.common.applications import ApplicationTraits, application_traits
from collector.common.arrays import Floats
from collector.common.errors import QuestionError, field_sentence, message_and_path
from collector.common.extensions import extend
from collector.config import CollectorConfig
from collector.decide.answers import Assumed, Basis
from collector.decide.policies.interface import Request
from collector.decide.policies.resolve import Ability, PolicyChoice, SettingsError, find_policy, resolve
from collector.observe.traits import task_traits
from collector.snapshot.columns import Four, four
from collector.snapshot.constraints import NUMERIC, Constraint, Operator, parse_number
from collector.snapshot.tables import NOWHERE, Snapshot, TaskKind
from wire.errors import UserError
from wire.resources import RESOURCES, Quantities, Resource

Name = Annotated[str, Meta(min_length=1, max_length=500)]
_NOTHING = Quantities()
_KINDS = {"service": TaskKind.SERVICE, "job": TaskKind.JOB}


class ContainerQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a container to place needs."""

    service: Name | None = None
    """Its service. The measured need of a known service is used."""
    image: Name | None = None
    """Its image. The measured need of a known service with the same image is used."""
    demand: Quantities = _NOTHING
    """What it is expected to use. Overrides what is measured; before its service is measured, it counts with
    a margin."""
    reserve: Quantities = _NOTHING
    """Its reservation."""
    task_class: Annotated[int, Meta(ge=1, le=4)] | None = msgspec.field(default=None, name="class")
    """1 (never cut) to 4. Default: by its labels."""
    kind: Literal["service", "job"] | None = None
    """Whether it runs until it is stopped, or until its work is done. Default: by its labels."""
    constraints: Annotated[tuple[Name, ...], Meta(max_length=100)] = ()
    """`label==value`, `label!=value`, `label>number` or `label<number`, on node labels; the label `node` is
    the node's name."""
    labels: dict[str, str] = {}
    """Its labels; `wattpack.class`, `wattpack.kind`, `wattpack.slo` and those of applications are used."""
    talks_to: Annotated[tuple[Name, ...], Meta(max_length=100)] = ()
    """Services of its application that it talks to. Default: by its labels, or all."""
    avoid: Annotated[tuple[Name, ...], Meta(max_length=100)] = ()
    """Services that it must not share a node with."""
    exclude: Annotated[frozenset[Name], Meta(max_length=10_000)] = frozenset()
    """Nodes that it must not run on."""


class PlacementQuestion(ContainerQuestion, frozen=True, kw_only=True):
    """A container to place. All fields are optional; the more are set, the better the answer."""

    type: Resource | None = None
    """Its dominant resource. Overrides what is measured."""
    application: Name | None = None
    """The application that its service belongs to. Default: by its labels, or that of the running service."""
    delay_max_seconds: Annotated[float, Meta(gt=0, le=3600)] | None = None
    """Maximum round-trip time between the nodes of its application. Default: by its labels, and by those of
    the running application; of both, the smaller one counts."""
    spread: bool = False
    """Whether to spread its service over failure domains, or over nodes that have none."""
    policy: Name | None = None
    """Default: the configured policy."""
    settings: dict[str, Any] = {}
    """Settings of the policy. Default: as configured."""
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 10
    """Maximum number of nodes in the answer."""
    refused: Literal["some", "all"] = "some"
    """Whether to list all refused nodes, or the first few."""
    reserve_seconds: Annotated[float, Meta(ge=0, le=86_400)] = 0.0
    """Time that the best node is reserved for it, or until an agent reports it there."""


def resolve_policy(
    config: CollectorConfig, name: str | None, settings: Mapping[str, Any], ability: Ability
) -> PolicyChoice:
    """Return the policy that a request names, or the configured one, with its settings.

    Settings that the request leaves out are as configured. Raise `QuestionError` if a name or a setting is
    wrong.
    """
    name = name or (ability == "rebalance" and config.control.timer_policy) or config.placement.policy
    try:
        return resolve(name, {**config.policies.get(name, {}), **settings}, ability)
    except SettingsError as invalid:
        what, where = message_and_path(invalid.error)
        path = f"$.settings{where.removeprefix('$')}"
        detail = f"{field_sentence(what, path.removeprefix('$.'))}{invalid.hint}"
        raise QuestionError(detail, path) from invalid
    except UserError as error:
        raise QuestionError(str(error), "$.policy") from error


def check_policies(config: CollectorConfig) -> None:
    """Check the policies of the settings, and their own settings. Raise `UserError`, which names the key."""
    chosen: tuple[tuple[str, str, Ability], ...] = (
        ("placement.policy", config.placement.policy, "place"),
        ("control.policy", config.control.policy, "rebalance"),
        ("control.timer_policy", config.control.timer_policy, "rebalance"),
    )
    for key, name, ability in chosen:
        if name or ability == "place":
            with _naming(key):
                find_policy(name, ability)
    for name, settings in config.policies.items():
        with _naming(f"policies.{name}"):
            resolve(name, settings)


@contextmanager
def _naming(key: str) -> Iterator[None]:
    try:
        yield
    except UserError as error:
        raise UserError(f"{key}: {error}") from error


def complete_labels(labels: Mapping[str, str], config: CollectorConfig) -> Mapping[str, str]:
    """The labels of a container to place, with those that features derive from the settings."""
    for complete in extend("labels", "COMPLETE"):
        labels = complete(labels, config)
    return labels


def with_complete_labels(question: PlacementQuestion, config: CollectorConfig) -> PlacementQuestion:
    """The question with the labels that its container will have."""
    return msgspec.structs.replace(question, labels=dict(complete_labels(question.labels, config)))


def parse_constraint(text: str) -> Constraint:
    """Parse `label==value`, `label!=value`, `label>number` or `label<number`."""
    for operator in Operator:
        label, found, value = (part.strip() for part in text.partition(operator))
        if found and label and value and not (operator in NUMERIC and isnan(parse_number(value))):
            return Constraint(label, operator, value)
    raise QuestionError(
        f"invalid constraint {text!r}: write label==value, label!=value, label>number or label<number",
        "$.constraints",
    )


def build_request(
    question: PlacementQuestion, snapshot: Snapshot, default_class: int
) -> tuple[Request, Assumed]:
    """Return the request for a policy, and what it assumes."""
    traits = task_traits(question.labels, default_class)
    constraints = tuple(parse_constraint(each) for each in question.constraints)
    need, assumed = estimate_need(
        snapshot,
        services=(question.service,) if question.service else (),
        image=question.image,
        demand=question.demand,
        reserve=question.reserve,
    )
    labelled = application_traits(question.labels, question.application or "", question.service)
    request = replace(
        need,
        service=question.service,
        dominant=question.type or need.dominant,
        task_class=question.task_class or traits.task_class,
        labels=question.labels,
        kind=traits.kind if question.kind is None else _KINDS[question.kind],
        constraints=constraints,
        avoid=question.avoid,
        exclude=question.exclude,
        spread=question.spread,
        application=ApplicationTraits(
            question.application or labelled.name,
            question.delay_max_seconds or labelled.delay_max,
            question.talks_to or labelled.talks_to,
        ),
    )
    return request, assumed


def estimate_need(
    snapshot: Snapshot,
    *,
    services: tuple[str, ...],
    image: str | None,
    demand: Quantities,
    reserve: Quantities,
) -> tuple[Request, Assumed]:
    """Return a request for what a container needs: as given, or else as measured, or else a guess.

    `services` are the names that its service may have, the best first.
    """
    table = snapshot.services
    named = [row for name in services if (row := table.index.get(name)) is not None]
    row = next((row for row in named if table.profiled[row]), None)
    basis = Basis.SERVICE
    if row is None and image is not None:
        row, basis = table.by_image.get(image), Basis.IMAGE
    if reserve == _NOTHING and named:
        reserve = _largest_reservation(snapshot, named[0])
    if row is None:
        assumed, variance, lead = _unmeasured(demand, reserve), _variance_of_guess(demand), NOWHERE
    else:
        assumed = _measured(snapshot, row, basis, demand, reserve)
        cpu, memory, disk, network = np.nan_to_num(table.variance[row], nan=0.0).tolist()
        variance = cpu, memory, disk, network
        lead = int(table.dominant[row])
    request = Request(
        demand=assumed.demand,
        mean=assumed.mean,
        variance=variance,
        reserve=assumed.reserve,
        known=row is not None,
        dominant=None if lead == NOWHERE else RESOURCES[lead],
        image=image,
    )
    return request, assumed


def _measured(snapshot: Snapshot, row: int, basis: Basis, demand: Quantities, reserve: Quantities) -> Assumed:
    table, given = snapshot.services, demand != _NOTHING
    where = f"{'' if basis is Basis.SERVICE else 'the same image, '}service {table.names[row]}"
    return Assumed(
        basis=Basis.REQUEST if given else basis,
        explanation=f"given in the request, the rest measured on {where}"
        if given
        else f"measured on {where}",
        demand=_or(demand, table.envelope[row]),
        mean=_or(demand, table.mean[row]),
        reserve=reserve,
    )


def _unmeasured(demand: Quantities, reserve: Quantities) -> Assumed:
    if demand != _NOTHING:
        basis, explanation = Basis.REQUEST, "given in the request, not measured yet"
    elif reserve != _NOTHING:
        basis = Basis.GUESS
        explanation = "a guess: the service is not measured yet, so its reservation is used"
    else:
        basis = Basis.NOTHING
        explanation = (
            "unknown: the service is not measured yet, and neither its demand nor a reservation of CPU and"
            " memory is given, so it counts as 0"
        )
    expected = reserve if demand == _NOTHING else demand
    return Assumed(basis=basis, explanation=explanation, demand=expected, mean=demand, reserve=reserve)


def _variance_of_guess(demand: Quantities) -> Four:
    """Return the variance of a demand that is not measured.

    As of an exponential law, the deviation is the demand itself. Memory has none: envelopes add up.
    """
    cpu, _, disk, network = (amount * amount for amount in four(demand, missing=0.0))
    return cpu, 0.0, disk, network


def _largest_reservation(snapshot: Snapshot, service: int) -> Quantities:
    """Return the largest reservation of the service's containers."""
    requested = snapshot.tasks.requested[snapshot.tasks.service == service]
    if not requested.size:
        return _NOTHING
    most = np.nan_to_num(requested, nan=-1.0).max(axis=0)
    return to_quantities(np.where(most < 0, np.nan, most))


def _or(given: Quantities, measured: Floats) -> Quantities:
    """Return the given amounts, and the measured ones where none is given."""
    amounts = [given.of(resource) for resource in RESOURCES]
    return to_quantities([measured[at] if each is None else each for at, each in enumerate(amounts)])

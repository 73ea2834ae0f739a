"""Services that get new containers, and the placement question for each container."""

from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from collector.act.orchestrator_state import ROLE, require_known
from collector.common.applications import application_traits
from collector.common.orchestrator import NodeView
from collector.decide.question import Name, PlacementQuestion
from collector.snapshot.constraints import Operator
from wire.resources import Quantities

MAX_REPLICAS = 1000
_NOTHING = Quantities()


class NewService(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A service that gets new containers."""

    name: Name
    """Its name in the orchestrator."""
    image: Name | None = None
    mode: Literal["replicated", "global"] = "replicated"
    """Whether it runs `replicas` containers, or one on each node; a `global` service is left to the
    orchestrator."""
    replicas: Annotated[int, Meta(ge=0, le=MAX_REPLICAS)] = 1
    reserve: Quantities = _NOTHING
    """Reservation of each container."""
    labels: dict[str, str] = {}
    """Labels of the service; `wattpack.class`, `wattpack.kind` and those of applications are used."""
    application: Name | None = None
    """Its application, such as its stack, unless its labels name another one."""
    constraints: Annotated[tuple[Name, ...], Meta(max_length=100)] = ()
    """Its own constraints, in the orchestrator's syntax."""
    max_replicas_per_node: Annotated[int, Meta(ge=0)] = 0
    """0 is no limit."""


def container_question(
    service: NewService,
    nodes: Iterable[NodeView],
    *,
    spread: bool,
    reserve_seconds: float,
    policy: str | None = None,
) -> PlacementQuestion:
    """Return the question for a container of a service.

    Raise `UnknownConstraintError` if only the orchestrator can check its constraints.
    """
    constraints = require_known(service.constraints)
    must_manage = [each.operator is Operator.IS for each in constraints if each.label == ROLE]
    excluded = {node.name for node in nodes for wanted in must_manage if node.is_manager != wanted}
    return PlacementQuestion(
        service=service.name,
        image=service.image,
        reserve=service.reserve,
        labels=service.labels,
        constraints=tuple(str(each) for each in constraints if each.label != ROLE),
        exclude=frozenset(excluded),
        spread=spread,
        application=application_traits(service.labels, service.application or "", service.name).name or None,
        policy=policy,
        reserve_seconds=reserve_seconds,
    )

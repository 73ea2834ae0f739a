"""The placement question for a container of a service."""

from collections.abc import Iterable, Mapping
from typing import Any

from collector.common.applications import application_traits
from collector.control.constraints import ROLE, require_known
from collector.control.deploy.models import NewService
from collector.drivers.interface import NodeView
from collector.placement.question import PlacementQuestion
from collector.snapshot.constraints import Operator


def container_question(  # noqa: PLR0913 - the service, the nodes, and how to place it
    service: NewService,
    nodes: Iterable[NodeView],
    *,
    spread: bool,
    reserve_seconds: float,
    policy: str | None = None,
    settings: Mapping[str, Any] | None = None,
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
        application=application_traits(service.labels, service.application or "").name or None,
        policy=policy,
        settings=dict(settings or {}),
        reserve_seconds=reserve_seconds,
    )

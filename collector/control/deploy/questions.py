"""The question where a container of a service should start."""

from collections.abc import Iterable, Mapping
from typing import Any

from collector.control.deploy.constraints import Role, conditions_of
from collector.control.deploy.models import NewService
from collector.drivers.interface import NodeView
from collector.live.traits import application_traits
from collector.placement.question import PlacementQuestion


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
    conditions = list(conditions_of(service.constraints))
    roles = [each for each in conditions if isinstance(each, Role)]
    unfit = {node.name for node in nodes for role in roles if not role.matches(node)}
    return PlacementQuestion(
        service=service.name,
        image=service.image,
        reserve=service.reserve,
        labels=service.labels,
        constraints=tuple(each for each in conditions if isinstance(each, str)),
        exclude=frozenset(unfit),
        spread=spread,
        application=application_traits(service.labels, service.application or "").name or None,
        policy=policy,
        settings=dict(settings or {}),
        reserve_seconds=reserve_seconds,
    )

"""Requests to deploy services, and the responses."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from collector.placement.question import Name
from wire.resources import Quantities

MAX_REPLICAS = 1000
_NOTHING = Quantities()


class NewService(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A service to deploy."""

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


class DeployRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Services to deploy together."""

    services: Annotated[tuple[NewService, ...], Meta(min_length=1, max_length=1000)]
    """The services to deploy."""
    policy: Name | None = None
    """Policy that chooses the nodes. Default: the configured policy."""
    settings: dict[str, Any] = {}
    """Settings of the policy. Default: as configured."""
    spread: bool = True
    """Whether to spread the replicas of a service over failure domains, or over nodes."""
    dry: bool = False
    """Whether to only return where the services would start: nothing is reserved, and no room is made."""


class ServiceDeployment(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes on which a service starts, and the temporary settings to create it with."""

    name: str
    """Name of the service, as in the request."""
    nodes: dict[str, int] = {}
    """Replicas by node."""
    replicas: int = 0
    """Replicas to create it with. The collector adds the others."""
    constraints: tuple[str, ...] = ()
    """Temporary constraints to create it with, in addition to its own. The collector removes them."""
    labels: dict[str, str] = {}
    """Temporary labels to create it with."""
    reasons: tuple[str, ...] = ()
    """Why the first replica starts where it does."""
    left_to_orchestrator: str | None = None
    """Why the orchestrator chooses the nodes; null if Wattpack does."""


class Deployment(msgspec.Struct, frozen=True, kw_only=True):
    """The response to a `DeployRequest`."""

    policy: str
    services: tuple[ServiceDeployment, ...]
    """One for each service of the request."""

"""Requests to deploy services, and the responses."""

from typing import Annotated

import msgspec
from msgspec import Meta

from collector.act.new_services import NewService
from collector.decide.question import Name


class DeployRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Services to deploy together."""

    services: Annotated[tuple[NewService, ...], Meta(min_length=1, max_length=1000)]
    """The services to deploy."""
    policy: Name | None = None
    """Policy that chooses the nodes. Default: the configured policy."""
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

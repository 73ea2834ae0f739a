"""Whose labels name the application of a service: those of the orchestrator, or of the first node.

Labels come from nodes, and no node changes the application of a service that another one runs: the first node
that runs a service decides, unless an orchestrator lists the service.
"""

from collector.common.applications import ApplicationTraits
from collector.snapshot.claims import ServiceClaim


class ServiceClaims:
    """The claims for all services that run. Not thread-safe."""

    def __init__(self) -> None:
        self._claims: dict[str, ServiceClaim] = {}
        self.version = 0
        """Incremented when a service gets another application."""

    def put(self, service: str, traits: ApplicationTraits, node: str | None) -> None:
        """Set the application of a service, by the labels of a node, or of an orchestrator if that is None.

        The labels of another node are ignored, even while the first one runs no container of the service.
        """
        known = self._claims.get(service)
        if known is not None and node is not None and known.node != node:
            return
        claim = ServiceClaim(traits, node)
        if claim != known:
            self._claims[service] = claim
            if traits.name or (known is not None and known.traits.name):
                self.version += 1

    def drop(self, service: str) -> None:
        """Forget a service that no node runs."""
        claim = self._claims.pop(service, None)
        if claim is not None and claim.traits.name:
            self.version += 1

    def drop_node(self, node: str) -> set[str]:
        """Forget the claims of a node that is removed; returns the services that other nodes may claim."""
        services = {name for name, claim in self._claims.items() if claim.node == node}
        for service in services:
            self.drop(service)
        return services

    def copy(self) -> dict[str, ServiceClaim]:
        """The services that belong to an application, in the order in which they were claimed."""
        return {service: claim for service, claim in self._claims.items() if claim.traits.name}

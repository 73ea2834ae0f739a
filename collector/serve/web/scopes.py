"""Scopes of routes and tokens, and the caller of a request."""

from dataclasses import dataclass
from enum import StrEnum

from aiohttp import web


class Scope(StrEnum):
    """Permission that a route requires."""

    OPEN = "open"
    """Health checks; no token is required."""
    NODE = "node"
    """Send reports for a node; the route checks the name of the node."""
    READ = "read"
    """Read everything, and make requests that change nothing."""
    PLACE = "place"
    """Read everything, and reserve nodes for containers, as kube-scheduler does."""
    JOIN = "join"
    """Get a token for a node."""
    ADMIN = "admin"
    """Everything, including changes of the cluster."""


_PERMITTED: dict[Scope, frozenset[Scope]] = {
    Scope.NODE: frozenset({Scope.OPEN, Scope.NODE}),
    Scope.READ: frozenset({Scope.OPEN, Scope.READ}),
    Scope.PLACE: frozenset({Scope.OPEN, Scope.READ, Scope.PLACE}),
    Scope.JOIN: frozenset({Scope.OPEN, Scope.JOIN}),
    Scope.ADMIN: frozenset(Scope),
}


@dataclass(frozen=True, slots=True)
class Caller:
    """The authenticated sender of a request."""

    scope: Scope
    nodes: frozenset[str] | None = None
    """The nodes that it may report for; None means all."""
    token: str = ""
    """Id of its token; empty for a certificate, and if there are no tokens."""
    machine: str | None = None
    """The machine that its token belongs to; None means any."""
    joins: str | None = None
    """Pattern of the names of nodes that may join; None means any."""

    def may(self, scope: Scope) -> bool:
        return scope in _PERMITTED[self.scope]

    def may_report_for(self, node: str) -> bool:
        return self.nodes is None or node in self.nodes


TRUSTED = Caller(Scope.ADMIN)
"""Any process on this host, if there are no tokens."""

CALLER = web.RequestKey("CALLER", Caller)
"""Set by the authentication middleware."""

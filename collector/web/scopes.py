"""What can be allowed, and who is asking."""

from dataclasses import dataclass
from enum import StrEnum

from aiohttp import web


class Scope(StrEnum):
    """What a route asks of who calls it."""

    OPEN = "open"
    """Nothing: anybody may know that the collector lives."""
    NODE = "node"
    """To speak for a node, which the route then compares with what is said."""
    READ = "read"
    """To see everything, and to ask questions that change nothing."""
    ADMIN = "admin"
    """To change things."""


_MAY: dict[Scope, frozenset[Scope]] = {
    Scope.NODE: frozenset({Scope.OPEN, Scope.NODE}),
    Scope.READ: frozenset({Scope.OPEN, Scope.READ}),
    Scope.ADMIN: frozenset(Scope),
}


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request, as far as that is known and matters."""

    scope: Scope
    nodes: frozenset[str] | None = None
    """The only nodes that it may speak for; None does not bind it to any."""

    def may(self, scope: Scope) -> bool:
        return scope in _MAY[self.scope]

    def may_speak_for(self, node: str) -> bool:
        return self.nodes is None or node in self.nodes


ANYBODY = Caller(Scope.ADMIN)
"""Whoever is on this host, where there are no tokens."""

CALLER = web.RequestKey("CALLER", Caller)
"""Where the guard leaves who it let in."""

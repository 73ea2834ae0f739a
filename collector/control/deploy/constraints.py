"""Constraints of Swarm on nodes, as far as the collector can check them. Pure."""

from collections.abc import Iterator

import msgspec

from collector.drivers.interface import NodeView

_LABEL, _HOSTNAME, _ROLE = "node.labels.", "node.hostname", "node.role"


class UnknownConstraintError(Exception):
    """A constraint that only the orchestrator can check."""


class Role(msgspec.Struct, frozen=True):
    """The role that a node must have."""

    is_manager: bool

    def matches(self, node: NodeView) -> bool:
        """Whether a node has it."""
        return node.is_manager == self.is_manager


def conditions_of(constraints: tuple[str, ...]) -> Iterator[str | Role]:
    """Return the constraints of Swarm as conditions on nodes."""
    for each in constraints:
        operator = "!=" if "!=" in each else "=="
        key, found, value = (part.strip() for part in each.partition(operator))
        if not found or not value:
            raise UnknownConstraintError(f"its constraint {each} is unknown here")
        if key.startswith(_LABEL):
            yield f"{key.removeprefix(_LABEL)}{operator}{value}"
        elif key == _HOSTNAME:
            yield f"node{operator}{value}"
        elif key == _ROLE:
            yield Role((value == "manager") == (operator == "=="))
        else:
            raise UnknownConstraintError(f"only Swarm can check its constraint {each}")

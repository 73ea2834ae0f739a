"""Where a task may run: conditions on the labels of nodes, and on what else runs there."""

from dataclasses import dataclass
from enum import StrEnum


class Operator(StrEnum):
    """How a constraint compares a label."""

    IS = "=="
    IS_NOT = "!="
    ABOVE = ">"
    """As a number. A label that is absent or not a number does not match."""
    BELOW = "<"
    """As a number, in the same way."""


NUMERIC = (Operator.ABOVE, Operator.BELOW)


@dataclass(frozen=True, slots=True)
class Constraint:
    """A condition on a label of a node. The label `node` is the name of the node."""

    label: str
    operator: Operator
    value: str

    def __str__(self) -> str:
        return f"{self.label}{self.operator}{self.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRules:
    """The rules of one task."""

    constraints: tuple[Constraint, ...] = ()
    spread: bool = False
    """Whether a node runs at most one instance of its service."""


def parse_number(text: str | None) -> float:
    """Return the number that a label has as its value; NaN if there is none."""
    try:
        return float(text) if text is not None else float("nan")
    except ValueError:
        return float("nan")

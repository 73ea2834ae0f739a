"""Constraints of services in the orchestrator's syntax, as far as the collector can check them. Pure."""

from collections.abc import Iterable, Iterator

from collector.snapshot.constraints import Constraint, Operator

ROLE, MANAGER = "node.role", "manager"
"""The label that managers of a Swarm have; workers have none."""
_WORKER = "worker"
_LABEL, _HOSTNAME = "node.labels.", "node.hostname"
_UNKNOWN = ("node.id", "node.ip", "node.platform.", "engine.labels.")
"""Attributes of Swarm that are not labels."""
_OPPOSITE = {Operator.IS: Operator.IS_NOT, Operator.IS_NOT: Operator.IS}


class UnknownConstraintError(Exception):
    """A constraint that only the orchestrator can check."""


def parse_constraint(text: str) -> Constraint | None:
    """Return a constraint on the name, role or labels of nodes; None if only Swarm can check it.

    Swarm knows no other attributes than these and `_UNKNOWN`: a constraint on any other one, such as a label
    without `node.labels.`, holds on no node.
    """
    key, operator, value = _split(text)
    if not value:
        return None
    if key == _HOSTNAME:
        return Constraint("node", operator, value)
    if key == ROLE and value in {MANAGER, _WORKER}:
        return Constraint(ROLE, _OPPOSITE[operator] if value == _WORKER else operator, MANAGER)
    return Constraint(key.removeprefix(_LABEL), operator, value) if key.startswith(_LABEL) else None


def known_constraints(texts: Iterable[str]) -> Iterator[Constraint]:
    """Return the constraints that can be checked here; other names are labels of nodes, as in Kubernetes."""
    for text in texts:
        key, operator, value = _split(text)
        if (constraint := parse_constraint(text)) is not None:
            yield constraint
        elif key and not key.startswith(_UNKNOWN):
            yield Constraint(key.removeprefix(_LABEL), operator, value)


def _split(text: str) -> tuple[str, Operator, str]:
    """Return the attribute, the operator and the value; an empty attribute if there is no operator."""
    operator = Operator.IS_NOT if Operator.IS_NOT in text else Operator.IS
    key, found, value = (part.strip() for part in text.partition(operator))
    return key if found else "", operator, value


def require_known(texts: Iterable[str]) -> list[Constraint]:
    """Return all constraints. Raise `UnknownConstraintError` if only the orchestrator can check one."""
    constraints = []
    for text in texts:
        constraint = parse_constraint(text)
        if constraint is None:
            raise UnknownConstraintError(f"only the orchestrator can check its constraint {text}")
        constraints.append(constraint)
    return constraints

"""Constraints on the names and labels of nodes: where the containers of a service may run."""

from collections.abc import Iterable

import numpy as np

from collector.common.arrays import Flags
from collector.snapshot.constraints import NUMERIC, Constraint, Operator, parse_number
from collector.snapshot.tables import Nodes, Snapshot


def constraints_of(snapshot: Snapshot, task: int) -> tuple[Constraint, ...]:
    """Return the constraints of a task: its own, and those of its service."""
    own = snapshot.rules[task].constraints if task in snapshot.rules else ()
    return own + snapshot.constraints.get(int(snapshot.tasks.service[task]), ())


def nodes_for(snapshot: Snapshot, task: int) -> Flags | None:
    """Return the nodes that meet the constraints of a task; None if it has none."""
    constraints = constraints_of(snapshot, task)
    if not constraints:
        return None
    return snapshot.cached(("meet", constraints), lambda: nodes_matching_all(snapshot.nodes, constraints))


def nodes_matching_all(nodes: Nodes, constraints: Iterable[Constraint]) -> Flags:
    """Return the nodes that meet all of some constraints."""
    allowed = np.ones(len(nodes.names), dtype=np.bool_)
    for each in constraints:
        allowed &= nodes_matching(nodes, each)
    return allowed


def nodes_matching(nodes: Nodes, constraint: Constraint) -> Flags:
    """Return the nodes that meet a constraint."""
    if constraint.operator in NUMERIC:
        numbers, bound = nodes.label_numbers(constraint.label), parse_number(constraint.value)
        # A comparison with NaN is false.
        return numbers > bound if constraint.operator is Operator.ABOVE else numbers < bound
    equal = nodes.labelled(constraint.label, constraint.value)
    return equal if constraint.operator is Operator.IS else ~equal

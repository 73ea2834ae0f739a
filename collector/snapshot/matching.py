"""Constraints on the names and labels of nodes: where the containers of a service may run."""

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

    def find() -> Flags:
        allowed: Flags = np.all([nodes_matching(snapshot.nodes, each) for each in constraints], axis=0)
        return allowed

    return snapshot.cached(("meet", constraints), find)


def nodes_matching(nodes: Nodes, constraint: Constraint) -> Flags:
    """Return the nodes that meet a constraint."""
    if constraint.operator in NUMERIC:
        numbers, bound = nodes.label_numbers(constraint.label), parse_number(constraint.value)
        # A comparison with NaN is false.
        return numbers > bound if constraint.operator is Operator.ABOVE else numbers < bound
    equal = nodes.labelled(constraint.label, constraint.value)
    return equal if constraint.operator is Operator.IS else ~equal

"""Whether a node meets the constraints of a container's service."""

from collector.control.guards.context import GuardContext, Refusal
from collector.control.records import Step
from collector.policies.actions import Relocation
from collector.snapshot.matching import constraints_of, nodes_matching


def meets_constraints(step: Step, context: GuardContext) -> Refusal:
    """Refuse to bring a container to a node that its orchestrator would not run it on."""
    snapshot, action = context.snapshot, step.action
    if not isinstance(action, Relocation) or action.target is None:
        return None
    task, target = snapshot.tasks.index.get(action.task), snapshot.nodes.index.get(action.target)
    if task is None or target is None:
        return None
    for each in constraints_of(snapshot, task):
        if not nodes_matching(snapshot.nodes, each)[target]:
            return (
                f"{action.title} must not move to {action.target}: its constraint {each} does not hold there"
            )
    return None

"""What the guards add to the reasons why a plan leaves a node or container as it is."""

from collections.abc import Callable

import msgspec

from collector.act.guards import GuardContext, first_refusal
from collector.act.guards.state import may_move
from collector.act.steps import planned_step
from collector.common.text import counted
from collector.decide.answers import Obstacle, WhyNot
from collector.decide.policies.actions import Move
from collector.decide.policies.interface import Plan
from collector.snapshot.tables import Snapshot

_NAMED = 3
"""Reasons that are listed; the others are counted."""


def with_guards(
    guard_context: Callable[..., GuardContext], snapshot: Snapshot, plan: Plan, found: WhyNot
) -> WhyNot:
    """Return the same with what guards say about the planned actions, and about containers that stay."""
    steps = tuple(planned_step(action, snapshot) for action in plan.actions)
    context = guard_context(snapshot, steps=steps)
    if not found.planned:
        told = tuple(_told(each, found.node, snapshot, context) for each in found.obstacles)
        return msgspec.structs.replace(found, obstacles=told)
    moves = [each for each in found.planned if isinstance(each, Move)]
    # A node is switched off after these.
    refusals = {
        refusal: None
        for step in steps
        if step.action in (moves or found.planned) and (refusal := first_refusal(step, context)) is not None
    }
    guards = tuple(
        Obstacle(kind="guard", why=f"guard {name} refuses it now: {why}") for name, why in refusals
    )
    return msgspec.structs.replace(found, obstacles=guards)


def _told(obstacle: Obstacle, node: str, snapshot: Snapshot, context: GuardContext) -> Obstacle:
    """Return an obstacle that containers must stay with the guard's reasons."""
    if obstacle.kind != "stays":
        return obstacle
    tasks = snapshot.tasks
    rows = [
        row
        for row in snapshot.tasks_on(snapshot.nodes.index[node]).tolist()
        if tasks.names[row] in obstacle.containers and not tasks.movable[row]
    ]
    moves = [
        Move(task=tasks.ids[row], name=tasks.names[row], node=node, target=node, reasons=()) for row in rows
    ]
    reasons = {may_move(planned_step(each, snapshot), context): None for each in moves}
    told = [each for each in reasons if each is not None]
    if not told:
        return obstacle
    more = f"; and {counted(len(told) - _NAMED, 'other')}" if len(told) > _NAMED else ""
    return msgspec.structs.replace(obstacle, why="; ".join(told[:_NAMED]) + more)

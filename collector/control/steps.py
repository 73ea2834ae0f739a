"""The steps of a decision: how a plan becomes steps, which run together, which depend on earlier ones."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from math import isfinite

import numpy as np

from collector.analysis.usage import quantities
from collector.control.records import IN_MOTION, Step, StepState, Trigger
from collector.policies.actions import Action, Move, PowerOff, PowerOn, affected_nodes
from collector.snapshot.tables import NOWHERE, Snapshot

_MEMORY = 1


def planned_step(action: Action, snapshot: Snapshot, trigger: Trigger = Trigger.TIMER) -> Step:
    """An action of a plan, with what guards have to know of its container."""
    tasks = snapshot.tasks
    row = NOWHERE if isinstance(action, PowerOn | PowerOff) else tasks.index.get(action.task, NOWHERE)
    if row == NOWHERE:
        return Step(action=action, answers_alert=trigger is Trigger.ALERT)
    service = int(tasks.service[row])
    requested = np.where(np.isnan(tasks.requested[row]), tasks.allocated[row], tasks.requested[row])
    return Step(
        action=action,
        service=None if service == NOWHERE else snapshot.services.names[service],
        answers_alert=trigger is Trigger.ALERT,
        memory_bytes=int(tasks.envelope[row, _MEMORY]),
        requested=quantities(requested),
        task_class=int(tasks.task_class[row]),
        first_started_at=snapshot.at - float(tasks.age_seconds[row])
        if isfinite(tasks.age_seconds[row])
        else None,
    )


def batches(steps: Sequence[Step], max_concurrent_moves: int) -> Iterator[list[int]]:
    """Return indices of steps that may run concurrently: consecutive moves, up to a limit."""
    for is_move, group in groupby(range(len(steps)), key=lambda place: isinstance(steps[place].action, Move)):
        places, size = list(group), max_concurrent_moves if is_move else 1
        yield from (places[start : start + size] for start in range(0, len(places), size))


def failed_prerequisite(steps: Sequence[Step], position: int) -> str | None:
    """Return why a step must not run: an earlier step on the same node was not carried out."""
    mine = affected_nodes(steps[position].action)
    for step in steps[:position]:
        shared = mine & affected_nodes(step.action)
        if shared and step.state not in {StepState.VERIFIED, *IN_MOTION}:
            return f"an earlier step on {min(shared)} was not carried out"
    return None

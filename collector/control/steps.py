"""The steps of a decision: how a plan becomes steps, which run together, which depend on earlier ones."""

from collections.abc import Iterator, Sequence
from enum import Enum, auto
from itertools import groupby, zip_longest
from math import isfinite

import numpy as np

from collector.analysis.usage import to_quantities
from collector.control.records import IN_MOTION, Step, StepState, Trigger
from collector.policies.actions import (
    Action,
    Kill,
    Move,
    PowerOff,
    PowerOn,
    ServiceAction,
    Start,
    affected_nodes,
)
from collector.snapshot.tables import NOWHERE, Snapshot

_MEMORY = 1
_CARRIED_OUT = frozenset({StepState.VERIFIED, *IN_MOTION})


def planned_step(
    action: Action, snapshot: Snapshot, trigger: Trigger = Trigger.TIMER, *, keeps_promises: bool = False
) -> Step:
    """An action of a plan, with what guards have to know of its container and of the policy."""
    if isinstance(action, ServiceAction):
        return Step(action=action, service=action.service)
    tasks = snapshot.tasks
    row = NOWHERE if isinstance(action, PowerOn | PowerOff) else tasks.index.get(action.task, NOWHERE)
    if row == NOWHERE:
        return Step(action=action, answers_alert=trigger is Trigger.ALERT, keeps_promises=keeps_promises)
    service = int(tasks.service[row])
    requested = np.where(np.isnan(tasks.requested[row]), tasks.allocated[row], tasks.requested[row])
    return Step(
        action=action,
        service=None if service == NOWHERE else snapshot.services.names[service],
        answers_alert=trigger is Trigger.ALERT,
        keeps_promises=keeps_promises,
        memory_bytes=int(tasks.envelope[row, _MEMORY]),
        requested=to_quantities(requested),
        task_class=int(tasks.task_class[row]),
        first_started_at=snapshot.at - float(tasks.age_seconds[row])
        if isfinite(tasks.age_seconds[row])
        else None,
    )


def batches(steps: Sequence[Step], max_concurrent_moves: int) -> Iterator[list[int]]:
    """Return indices of steps that may run concurrently.

    These are consecutive moves, up to a limit; and stops and starts that keep promises: on each node, all
    stops before a start, then all starts before the next stop.
    """
    for kind, group in groupby(range(len(steps)), key=lambda place: _Kind.of(steps[place])):
        places = list(group)
        if kind is _Kind.PROMISE:
            yield from _rounds(steps, places)
            continue
        size = max_concurrent_moves if kind is _Kind.MOVE else 1
        yield from (places[start : start + size] for start in range(0, len(places), size))


class _Kind(Enum):
    MOVE = auto()
    PROMISE = auto()
    OTHER = auto()

    @staticmethod
    def of(step: Step) -> "_Kind":
        if step.keeps_promises and len(affected_nodes(step.action)) == 1:
            return _Kind.PROMISE
        return _Kind.MOVE if isinstance(step.action, Move) else _Kind.OTHER


def _rounds(steps: Sequence[Step], places: Sequence[int]) -> Iterator[list[int]]:
    """Return the first stops or starts of each node, then what follows on each, and so on."""
    by_node: dict[str, list[int]] = {}
    for place in places:
        (node,) = affected_nodes(steps[place].action)
        by_node.setdefault(node, []).append(place)
    runs = [
        [list(run) for _, run in groupby(chain, key=lambda place: steps[place].action.kind)]
        for chain in by_node.values()
    ]
    for batch in zip_longest(*runs, fillvalue=[]):
        yield sorted(place for run in batch for place in run)


def failed_prerequisite(steps: Sequence[Step], position: int) -> str | None:
    """Return why a step must not run: an earlier step on the same node was not carried out.

    Of the steps that keep promises, a start needs the stops that make room for it.
    """
    own = steps[position]
    mine = affected_nodes(own.action)
    for step in steps[:position]:
        if step.state in _CARRIED_OUT:
            continue
        if own.keeps_promises and not (isinstance(own.action, Start) and isinstance(step.action, Kill)):
            continue
        if shared := mine & affected_nodes(step.action):
            return f"an earlier step on {min(shared)} was not carried out"
    return None

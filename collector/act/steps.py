"""The steps of a decision: their creation, the batches that run together, and dependencies."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, zip_longest
from math import isfinite

import msgspec
import numpy as np

from collector.act.records import HAS_BEGUN, Relief, Step, StepState, Trigger
from collector.analysis.usage import to_quantities
from collector.decide.policies.actions import (
    Action,
    Cut,
    Kill,
    Move,
    PowerOff,
    PowerOn,
    Scale,
    ServiceAction,
    Start,
    affected_nodes,
)
from collector.snapshot.columns import four, parts_of_nodes, sum_by_node
from collector.snapshot.tables import NOWHERE, Snapshot, share
from wire.resources import RESOURCES

_MEMORY = 1


def planned_step(
    action: Action, snapshot: Snapshot, trigger: Trigger = Trigger.TIMER, *, keeps_promises: bool = False
) -> Step:
    """Return the step of an action, with the facts about its container and policy that guards need."""
    if isinstance(action, ServiceAction):
        return Step(action=action, service=action.service, reliefs=_reliefs(action, snapshot))
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
        reliefs=_reliefs(action, snapshot),
        keeps_promises=keeps_promises,
        memory_bytes=int(tasks.envelope[row, _MEMORY]),
        requested=to_quantities(requested),
        task_class=int(tasks.task_class[row]),
        first_started_at=snapshot.at - float(tasks.age_seconds[row])
        if isfinite(tasks.age_seconds[row])
        else None,
    )


def _reliefs(action: Action, snapshot: Snapshot) -> tuple[Relief, ...]:
    """Return what an action takes off the short resources of the nodes whose containers leave or shrink."""
    nodes, tasks = snapshot.nodes, snapshot.tasks
    match action:
        case Move(task=task) | Kill(task=task) | Cut(task=task) if task in tasks.index:
            rows = np.array([tasks.index[task]])
        case Scale(service=service, replicas=0) if service in snapshot.services.index:
            rows = snapshot.tasks_of(snapshot.services.index[service])
        case _:
            return ()
    rows = rows[tasks.node[rows] != NOWHERE]
    rows = rows[nodes.has_bottleneck[tasks.node[rows]]]
    if not rows.size:
        return ()
    taken = parts_of_nodes(snapshot)[rows]
    if isinstance(action, Cut):
        # Of what it uses, it keeps as much as its new limits allow.
        left = share(np.array([four(action.allocated)]), tasks.used[rows])
        taken = taken * np.clip(1.0 - np.nan_to_num(left, nan=1.0), 0.0, 1.0)
    by_node = sum_by_node(tasks.node[rows], taken, len(nodes.names))
    short = nodes.bottleneck & (by_node > 0.0)
    return tuple(
        Relief(node=nodes.names[row], resource=RESOURCES[column], ratio=round(float(by_node[row, column]), 4))
        for row, column in np.argwhere(short).tolist()
    )


def batches(steps: Sequence[Step], max_concurrent_moves: int) -> Iterator[list[int]]:
    """Return indices of steps that may run concurrently.

    These are consecutive moves that share no node, up to a limit; and stops and starts that keep promises: on
    each node, all stops before a start, then all starts before the next stop.
    """

    def kind(index: int) -> tuple[bool, bool]:
        step = steps[index]
        is_promise = step.keeps_promises and len(affected_nodes(step.action)) == 1
        return is_promise, isinstance(step.action, Move) and not is_promise

    for (is_promise, is_move), group in groupby(range(len(steps)), key=kind):
        indices = list(group)
        if is_promise:
            yield from _rounds(steps, indices)
            continue
        size = max_concurrent_moves if is_move else 1
        batch, affected = list[int](), frozenset[str]()
        for index in indices:
            nodes = affected_nodes(steps[index].action)
            if batch and (len(batch) >= size or nodes & affected):
                yield batch
                batch, affected = [], frozenset()
            batch, affected = [*batch, index], affected | nodes
        yield batch


def _rounds(steps: Sequence[Step], indices: Sequence[int]) -> Iterator[list[int]]:
    """Return batches: the first run of stops or starts of every node, then the second, and so on."""
    by_node: dict[str, list[int]] = {}
    for index in indices:
        (node,) = affected_nodes(steps[index].action)
        by_node.setdefault(node, []).append(index)
    runs = [
        [list(run) for _, run in groupby(queue, key=lambda index: steps[index].action.kind)]
        for queue in by_node.values()
    ]
    for batch in zip_longest(*runs, fillvalue=[]):
        yield sorted(index for run in batch for index in run)


def failed_prerequisite(steps: Sequence[Step], index: int) -> str | None:
    """Return why a step must not run: an earlier step on the same node was not carried out.

    Among the steps that keep promises, only a start depends on others: the stops that make room for it. A
    move depends on what leaves its source too, and on what makes room on its target or switches it on; what
    does not come to its target only leaves more room there.
    """
    own = steps[index]
    mine = affected_nodes(own.action)
    for step in steps[:index]:
        if step.state in HAS_BEGUN:
            continue
        if own.keeps_promises and not (isinstance(own.action, Start) and isinstance(step.action, Kill)):
            continue
        changed = affected_nodes(step.action)
        if isinstance(own.action, Move):
            changed &= {getattr(step.action, "node", "")}
        if shared := mine & changed:
            return f"an earlier step on {min(shared)} was not carried out"
    return None


def will_run(steps: Sequence[Step], refused: Iterable[bool]) -> list[bool]:
    """Return for each step whether it runs if guards refuse these, and with them what depends on them."""
    ended: list[Step] = []
    for step, is_refused in zip(steps, refused, strict=True):
        ended.append(step)
        is_left = is_refused or failed_prerequisite(ended, len(ended) - 1) is not None
        state = StepState.REFUSED if is_left else StepState.STARTED
        ended[-1] = msgspec.structs.replace(step, state=state)
    return [step.state is StepState.STARTED for step in ended]

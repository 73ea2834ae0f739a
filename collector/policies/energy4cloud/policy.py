"""Energy4Cloud: fill the nodes that use their energy badly, by overbooking, by cuts, and by kills at last.

Candidates come in the thesis' order. First the nodes where a request simply fits: low efficiency before
desired, stricter classes first, the fullest first; a node without tasks takes any class and comes last of its
region. Then those where running tasks of laxer classes, or the request itself, can be cut. Then those where
tasks of laxer classes can be killed: the most degraded first.

Three things are not as in the thesis. There, a request is cut only on nodes of a stricter class, but its
candidates for cutting are all of the same class or laxer, so that this never happens: the nodes of stricter
classes are tried here after those. And a task is killed only where it has a place to go, as a task there is
lost in one case of five; with `may_wait`, it waits in sight instead. And a node whose CPU is used up only by
tasks that use more than they were promised is taken where no other is left: they give back what they borrow,
so nobody loses a promise, and the node draws no more with one task than without it.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Annotated

import numpy as np
from msgspec import Meta

from collector.policies.actions import Action, Cut, Start
from collector.policies.energy4cloud.search import Candidate, Search
from collector.policies.filters import eligible
from collector.policies.interface import Plan, Policy, PolicySettings, Ranking, Rejection, Request
from collector.policies.overbooking import (
    LIMITS,
    Books,
    allocations,
    asked,
    cut_tasks,
    originals,
    quantities,
)
from collector.snapshot.power_curves import Rows
from collector.snapshot.tables import Snapshot, TaskKind
from wire.resources import Quantities


class Energy4CloudSettings(PolicySettings, frozen=True):
    """What can be chosen of Energy4Cloud."""

    may_kill: Annotated[bool, Meta(description="Whether tasks of laxer classes may be ended for others.")] = (
        True
    )
    may_wait: Annotated[
        bool, Meta(description="Whether a task may be ended that has no other place yet, and waits for one.")
    ] = False
    borrowed_counts: Annotated[
        bool,
        Meta(
            description="Whether a node is closed by CPU that its tasks use beyond their promises, "
            "as in the thesis."
        ),
    ] = False
    restore_below: Annotated[
        float,
        Meta(
            gt=0,
            le=1,
            description="Cuts are undone while a node stays below this share of what it may promise.",
        ),
    ] = 0.9


def place(snapshot: Snapshot, request: Request, settings: Energy4CloudSettings) -> Ranking:
    """Nodes in the order of the three algorithms; what a node needs first is in the ranking's `needs`."""
    refused = eligible(snapshot, request)
    asking = Search(
        snapshot,
        request,
        Books.of(snapshot),
        refused == Rejection.NOT,
        borrowed_counts=settings.borrowed_counts,
    )
    rows, found = _search(asking, settings)
    considered = np.flatnonzero(refused == Rejection.NOT)
    refused[considered] = Rejection.OVERBOOKED
    refused[rows] = Rejection.NOT

    def gets(row: int) -> Quantities | None:
        promised = found(row).gets
        return None if promised is None else quantities(promised)

    return Ranking(
        rows=rows,
        scores=-np.arange(rows.size, dtype=np.float64),
        score_is="place in the order of candidates, counted down from 0",
        refused=refused,
        explain=lambda row: asking.explain(found(row)),
        needs=lambda row: found(row).first(),
        gets=gets,
    )


def _search(asking: Search, settings: Energy4CloudSettings) -> tuple[Rows, Callable[[int], Candidate]]:
    """Nodes in order, and what each needs, by the first algorithm that finds any."""
    if (rows := asking.simple()).size:
        return rows, Candidate
    if (rows := asking.cut()).size:
        return rows, cache(asking.cut_on)
    killed = asking.kill(may_wait=settings.may_wait) if settings.may_kill else None
    if killed is None:
        return rows, Candidate
    return np.array([killed.row]), lambda _row: killed


# --- What can be done better now --------------------------------------------------------------------


def rebalance(snapshot: Snapshot, settings: Energy4CloudSettings) -> Plan:
    """Start what waits, where there is room now; then give back what was cut."""
    books = Books.of(snapshot)
    actions: list[Action] = []
    left: list[str] = []
    for task in snapshot.waiting[np.argsort(snapshot.tasks.task_class[snapshot.waiting], kind="stable")]:
        started = _start(snapshot, int(task), books, borrowed_counts=settings.borrowed_counts)
        if started is None:
            left.append(f"{snapshot.tasks.names[task]} waits: it fits nowhere yet")
        else:
            actions.append(started)
    actions += _restored(snapshot, settings, books)
    return Plan(actions=tuple(actions), left=tuple(left))


def _start(snapshot: Snapshot, task: int, books: Books, *, borrowed_counts: bool) -> Start | None:
    tasks = snapshot.tasks
    task_class = int(tasks.task_class[task])
    wanted = Request(
        reserve=quantities(originals(tasks, np.array([task]))[0]),
        task_class=task_class,
        kind=TaskKind(tasks.kind[task]),
    )
    candidates = eligible(snapshot, wanted) == Rejection.NOT
    found = Search(snapshot, wanted, books, candidates, borrowed_counts=borrowed_counts).as_it_is()
    if found is None:
        return None
    books.add(found, asked(wanted), task_class, LIMITS[task_class])
    return Start(
        task=tasks.ids[task],
        name=tasks.names[task],
        target=snapshot.nodes.names[found],
        reasons=(f"there is room for class {task_class} again",),
    )


def _restored(snapshot: Snapshot, settings: Energy4CloudSettings, books: Books) -> Iterator[Cut]:
    """Tasks that were cut, the strictest classes first, as long as their node has room for it."""
    tasks = snapshot.tasks
    cut = cut_tasks(snapshot)
    for task in cut[np.lexsort((cut, tasks.task_class[cut]))]:
        row = int(tasks.node[task])
        first = originals(tasks, np.array([task]))[0]
        back = first - allocations(tasks, np.array([task]))[0]
        allowed = min(float(books.limit[row]), LIMITS[tasks.task_class[task]])
        if books.factor(back, np.array([row]))[0] > allowed * settings.restore_below:
            continue
        books.promised[row] += back
        yield Cut(
            task=tasks.ids[task],
            name=tasks.names[task],
            node=snapshot.nodes.names[row],
            allocated=quantities(first),
            reasons=("its node has room again for all that it asked for",),
        )


ENERGY4CLOUD = Policy(
    name="energy4cloud",
    summary="overbook by class, fill nodes to the efficient region, cut laxer classes, and end them at last",
    settings=Energy4CloudSettings,
    place=place,
    rebalance=rebalance,
)

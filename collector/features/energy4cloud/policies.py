"""Energy4Cloud: fill nodes of low energy efficiency by overbooking, then by cuts, finally by kills.

Candidates come in the thesis' order. First the nodes where a request fits: low efficiency before desired,
stricter classes first, the fullest first; a node without tasks accepts any class and comes last of its
region. Then the nodes where running tasks of laxer classes, or the request itself, can be cut. Then those
where tasks of laxer classes can be killed: the most degraded first.

Three things differ from the thesis. There, a request is cut only on nodes of a stricter class, but the
candidates for cuts are all of the same class or laxer, so that this never happens: here nodes of stricter
classes come after those. A task is killed only if it fits elsewhere, since the thesis loses a task in one
case of five; with `may_wait`, it waits instead. And a node whose CPU is full only because tasks use more than
they reserved is used if no other is left: they give back what they borrow, so that all reservations hold.
"""

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np

from collector.common.arrays import Flags, Rows
from collector.decide.policies.actions import Action, Cut, Start
from collector.decide.policies.filters import OpenNodes, eligible
from collector.decide.policies.interface import Plan, Policy, PolicySettings, Ranking, Rejection, Request
from collector.decide.policies.overbooking import ReservationBook, reserved_quantities
from collector.decide.policies.stability import opted_out, with_watts
from collector.features.energy4cloud.search import Candidate, Search, task_request
from collector.snapshot.overbooking import allocations, cut_tasks, originals
from collector.snapshot.tables import OVERBOOKING_LIMITS, Snapshot
from wire.resources import Quantities

_RESTORE_BELOW = 0.9
"""Share of a node's overbooking limit up to which cuts are undone."""


class Energy4CloudSettings(PolicySettings, frozen=True):
    """Settings of Energy4Cloud."""

    may_kill: bool = True
    """Allow stopping tasks of laxer classes to make room."""
    may_wait: bool = False
    """Allow stopping a task that fits nowhere else. It waits for room."""
    borrowed_counts: bool = False
    """Count CPU that tasks use beyond their reservation against a node, as in the thesis."""


def place(snapshot: Snapshot, request: Request, settings: Energy4CloudSettings) -> Ranking:
    """Rank nodes in the order of the three algorithms; `needs` has the cuts and kills."""
    refused = eligible(snapshot, request)
    search = Search(
        snapshot,
        request,
        ReservationBook.of(snapshot),
        refused == Rejection.NOT,
        borrowed_counts=settings.borrowed_counts,
    )
    rows, found = _search(search, settings)
    considered = np.flatnonzero(refused == Rejection.NOT)
    refused[considered] = Rejection.OVERBOOKED
    refused[rows] = Rejection.NOT

    def gets(row: int) -> Quantities | None:
        reserved = found(row).gets
        return None if reserved is None else reserved_quantities(reserved)

    return Ranking(
        rows=rows,
        scores=-np.arange(rows.size, dtype=np.float64),
        score_is="minus the number of better candidates",
        refused=refused,
        explain=lambda row: search.explain(found(row)),
        needs=lambda row: found(row).first,
        gets=gets,
    )


def _search(search: Search, settings: Energy4CloudSettings) -> tuple[Rows, Callable[[int], Candidate]]:
    """Return the nodes of the first algorithm that finds any, and what each needs."""
    if (rows := search.simple()).size:
        return rows, Candidate
    if (rows := search.cut()).size:
        return rows, cache(search.cut_on)
    killed = search.kill(may_wait=settings.may_wait) if settings.may_kill else None
    if killed is None:
        return rows, Candidate
    return np.array([killed.row]), lambda _row: killed


def rebalance(snapshot: Snapshot, settings: Energy4CloudSettings) -> Plan:
    """Start waiting tasks that fit now, then undo cuts."""
    books, nodes, home = ReservationBook.of(snapshot), OpenNodes(snapshot), snapshot.tasks.node.copy()
    actions: list[Action] = []
    left: list[str] = []
    for task in snapshot.waiting[np.argsort(snapshot.tasks.task_class[snapshot.waiting], kind="stable")]:
        near = nodes.open_to(int(task), home)
        started = _start(snapshot, int(task), books, near, borrowed_counts=settings.borrowed_counts)
        if started is None:
            left.append(f"{snapshot.tasks.names[task]} waits: no node has room")
        else:
            actions.append(started)
            home[task] = snapshot.nodes.index[started.target]
    actions += _restored(snapshot, books)
    return with_watts(snapshot, Plan(actions=tuple(actions), left=tuple(left)))


def _start(
    snapshot: Snapshot, task: int, books: ReservationBook, near: Flags | None, *, borrowed_counts: bool
) -> Start | None:
    tasks, wanted = snapshot.tasks, task_request(snapshot.tasks, task)
    candidates = eligible(snapshot, wanted) == Rejection.NOT
    if near is not None:
        candidates &= near
    found = Search(snapshot, wanted, books, candidates, borrowed_counts=borrowed_counts).reserve()
    if found is None:
        return None
    return Start(
        task=tasks.ids[task],
        name=tasks.names[task],
        target=snapshot.nodes.names[found],
        reasons=(f"the node has room for a task of class {wanted.task_class} again",),
    )


def _restored(snapshot: Snapshot, books: ReservationBook) -> Iterator[Cut]:
    """Undo cuts, the strictest classes first, while the node has room."""
    tasks = snapshot.tasks
    cut = cut_tasks(snapshot)
    cut = cut[~opted_out(snapshot)[tasks.node[cut]]]
    for task in cut[np.lexsort((cut, tasks.task_class[cut]))]:
        row = int(tasks.node[task])
        first = originals(tasks, np.array([task]))[0]
        back = first - allocations(tasks, np.array([task]))[0]
        allowed = min(float(books.limit[row]), OVERBOOKING_LIMITS[tasks.task_class[task]])
        if books.factor(back, np.array([row]))[0] > allowed * _RESTORE_BELOW:
            continue
        books.reserved[row] += back
        yield Cut(
            task=tasks.ids[task],
            name=tasks.names[task],
            node=snapshot.nodes.names[row],
            allocated=reserved_quantities(first),
            reasons=("the node has room again for its full reservation",),
        )


ENERGY4CLOUD = Policy(
    name="energy4cloud",
    summary="overbook by class, fill nodes to the efficient region, cut laxer classes or stop them",
    for_whom="clusters whose containers reserve far more than they use, and tolerate less by class",
    settings=Energy4CloudSettings,
    place=place,
    rebalance=rebalance,
)

POLICIES = (ENERGY4CLOUD,)

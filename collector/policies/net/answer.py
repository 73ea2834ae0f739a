"""The answer to an application: where its containers go and why, or what is missing."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from collector.common.arrays import Floats, Rows
from collector.common.text import counted
from collector.policies.actions import describe_amounts
from collector.policies.distance import NOT_MEASURED, milliseconds
from collector.policies.filters import describe_rejection
from collector.policies.interface import ApplicationPlacement, Rejection, Request
from collector.policies.net import greedy
from collector.policies.net.build import BuiltProblem, build
from collector.policies.net.problem import Counts, Problem
from collector.policies.overbooking import reservation_of
from collector.snapshot.tables import Snapshot
from wire.resources import Quantities

_MOST_BOUNDS = 64
"""Bounds that are tried to find the smallest one that is enough."""
_NAMED = 3


def nodes_of_requests(built: BuiltProblem, placed: Counts) -> Rows:
    """Return the node of each request."""
    nodes = np.empty(len(built.kind), dtype=np.intp)
    for kind, counts in enumerate(placed):
        nodes[built.kind == kind] = np.repeat(built.problem.nodes, counts)
    return nodes


def counts_of_nodes(built: BuiltProblem, nodes: Rows) -> Counts:
    """Return how many pods of each kind each node gets, from the node of each request."""
    placed = np.zeros(built.problem.allowed.shape, dtype=np.int64)
    np.add.at(placed, (built.kind, nodes), 1)
    return placed


def placed_answer(snapshot: Snapshot, built: BuiltProblem, placed: Counts) -> ApplicationPlacement:
    """Describe a placement."""
    problem = built.problem
    objective = problem.objective(placed)
    value = objective.value
    longest = longest_round_trip(problem, placed)
    images = f"{objective.absent} of {counted(objective.pods, 'container')} on nodes without their image"
    in_use = f"{counted(objective.in_use, 'node')} in use of {built.candidates} that could be used"
    reasons = [f"F = {value:.3f}: {images}, {in_use}"]
    if snapshot.delays is None and np.isfinite(problem.bound):
        reasons.append(NOT_MEASURED)
    elif longest is not None and np.isfinite(problem.bound):
        reasons.append(
            f"the longest round-trip time between its nodes is {milliseconds(longest)}, the bound is"
            f" {milliseconds(problem.bound)}"
        )
    return ApplicationPlacement(
        nodes=tuple(snapshot.nodes.names[row] for row in nodes_of_requests(built, placed)),
        reasons=tuple(reasons),
        objective=value,
        absent_images=objective.absent,
        nodes_in_use=objective.in_use,
        candidates=built.candidates,
        round_trip_seconds=longest,
    )


def longest_round_trip(problem: Problem, placed: Counts) -> float | None:
    """Return the longest round-trip time between nodes of pods that talk, running members included."""
    if problem.delays is None:
        return None
    places = np.flatnonzero(placed.any(axis=0) | problem.used)
    on = placed[:, places] > 0
    meets = on.T.astype(np.int64) @ problem.talks.astype(np.int64) @ on.astype(np.int64) > 0
    if problem.all_talk:
        meets |= True
    seconds = problem.delays.among(problem.nodes[places])[meets]
    longest = float(seconds.max(initial=0.0))
    return None if np.isnan(longest) else longest


def refused_answer(
    snapshot: Snapshot,
    requests: Sequence[Request],
    built: BuiltProblem,
    *,
    stale_seconds: float,
) -> ApplicationPlacement:
    """Describe why an application is not placed, and what would be needed."""
    shortage = _shortage_of_one_kind(built)
    if shortage is None:
        why, needed = _together(snapshot, requests, built, stale_seconds)
    else:
        why, needed = shortage
    return ApplicationPlacement(why_not=why, needed=needed, candidates=built.candidates)


def _shortage_of_one_kind(built: BuiltProblem) -> tuple[str, tuple[str, ...]] | None:
    """Describe the first kind for which the nodes have no room, even if they take nothing else."""
    problem = built.problem
    room = problem.room.sum(axis=1)
    short = np.flatnonzero(room < problem.counts)
    if not short.size:
        return None
    kind = int(short[0])
    request, count = built.kinds[kind], int(problem.counts[kind])
    codes = Counter(code for code in built.refused[kind].tolist() if code != Rejection.NOT)
    against = "; ".join(
        f"{describe_rejection(code)} ({counted(number, 'node')})"
        for code, number in codes.most_common(_NAMED)
    )
    name = f" of {request.service}" if request.service else ""
    why = f"nodes have room for {room[kind]} of {counted(count, 'container')}{name}"
    missing = count - int(room[kind])
    wanted = reservation_of(request)
    near = ""
    if Rejection.DISTANCE in codes:
        near = f" within {milliseconds(problem.bound)} of its running members"
    needed = f"a node{near} that accepts it"
    if wanted.any():
        each = " each" if missing > 1 else ""
        needed = f"room for {counted(missing, 'more container')} with {_amounts(wanted)}{each}{near}"
    return (f"{why}: {against}" if against else why), (needed,)


def _amounts(reserved: Floats) -> str:
    """Describe CPU and memory, as far as any is wanted."""
    cores, memory = reserved.tolist()
    return describe_amounts(Quantities(cpu_cores=cores or None, memory_bytes=round(memory) or None))


def _together(
    snapshot: Snapshot, requests: Sequence[Request], built: BuiltProblem, stale_seconds: float
) -> tuple[str, tuple[str, ...]]:
    """Describe an application whose containers fit one by one, but not together."""
    problem = built.problem
    best = greedy.solve_partly(problem)
    left = problem.counts - best.sum(axis=1)
    pods, missing = counted(int(problem.counts.sum()), "container"), int(left.sum())
    near = f" within {milliseconds(problem.bound)} of each other" if problem.is_bounded else ""
    why = f"found no nodes{near} with room for all {pods}: {missing} would not fit"
    amount = _amounts(
        np.sum([reservation_of(each) * n for each, n in zip(built.kinds, left, strict=True)], axis=0)
    )
    names = [snapshot.nodes.names[row] for row in problem.nodes[best.any(axis=0)][:_NAMED]]
    close = f" within {milliseconds(problem.bound)} of {', '.join(names)}" if near and names else ""
    needed = [f"{amount} more free on nodes{close}"]
    enough = _sufficient_bound(snapshot, requests, built, stale_seconds) if problem.is_bounded else None
    if enough is not None:
        needed.append(f"or a bound of at least {milliseconds(enough)}")
    return why, tuple(needed)


def _sufficient_bound(
    snapshot: Snapshot, requests: Sequence[Request], built: BuiltProblem, stale_seconds: float
) -> float | None:
    """Return the smallest bound with which all pods are placed; None if no bound is enough."""
    problem = built.problem
    assert problem.delays is not None
    places = np.flatnonzero((built.refused != Rejection.NOT).all(axis=0) == 0)
    some = problem.nodes[places[:: max(len(places) // _MOST_BOUNDS, 1)]]
    times = np.concatenate([problem.delays.from_node(int(row))[problem.nodes] for row in some])
    times = np.unique(times[times > problem.bound])

    def solves(bound: float) -> bool:
        wider = build(snapshot, requests, stale_seconds=stale_seconds, bound=bound)
        return greedy.solve(wider.problem) is not None

    if not times.size or not solves(float(times[-1])):
        return None
    low, high = 0, len(times) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if solves(float(times[middle])) else (middle + 1, high)
    return float(times[high])

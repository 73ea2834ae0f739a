"""The answer to an application: where its containers go and why, or what is missing."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

import numpy as np

from collector.common.arrays import Codes, Floats
from collector.common.text import counted
from collector.decide.policies.actions import describe_amounts
from collector.decide.policies.interface import ApplicationPlacement, Rejection, Request
from collector.decide.policies.overbooking import reservation_of
from collector.features.network.applications import greedy
from collector.features.network.applications.distance import NOT_MEASURED, milliseconds
from collector.features.network.applications.problem import BuiltProblem, Counts, Problem, build
from collector.snapshot.tables import Snapshot
from wire.resources import Quantities

_MOST_BOUNDS = 64
"""Nodes whose round-trip times are tried to find the smallest bound that is enough."""
_NAMED = 3


def describe_refusals(refused: Codes) -> str:
    """Describe the most frequent reasons against nodes, after a colon."""
    codes = Counter(code for code in refused.tolist() if code != Rejection.NOT).most_common(_NAMED)
    against = [f"{Rejection(code).text} ({counted(number, 'node')})" for code, number in codes]
    return f": {'; '.join(against)}" if against else ""


def placed_answer(snapshot: Snapshot, built: BuiltProblem, placed: Counts) -> ApplicationPlacement:
    """Describe a placement."""
    problem, objective = built.problem, built.problem.objective(placed)
    longest = _longest_round_trip(problem, placed)
    images = f"{objective.absent_images} of {counted(objective.containers, 'container')}"
    in_use = f"{counted(objective.nodes_in_use, 'node')} in use of {objective.candidates} that could be used"
    reasons = [f"F = {objective.value:.3f}: {images} on nodes without their image, {in_use}"]
    if problem.delays is None and np.isfinite(problem.bound):
        reasons.append(NOT_MEASURED)
    elif longest is not None and np.isfinite(problem.bound):
        reasons.append(
            f"the longest round-trip time between its nodes is {milliseconds(longest)}, the bound is"
            f" {milliseconds(problem.bound)}"
        )
    nodes = np.empty(len(built.kind), dtype=np.intp)
    for kind, counts in enumerate(placed):
        nodes[built.kind == kind] = np.repeat(problem.nodes, counts)
    return ApplicationPlacement(
        nodes=tuple(snapshot.nodes.names[row] for row in nodes),
        reasons=tuple(reasons),
        objective=objective,
        round_trip_seconds=longest,
    )


def _longest_round_trip(problem: Problem, placed: Counts) -> float | None:
    """Return the longest round-trip time between nodes of pods that talk, running members included."""
    if problem.delays is None:
        return None
    places = np.flatnonzero(placed.any(axis=0) | problem.used)
    on = placed[:, places] > 0
    meets = on.T.astype(np.int64) @ problem.talks.astype(np.int64) @ on.astype(np.int64) > 0
    seconds = problem.delays.among(problem.nodes[places])[meets | problem.all_talk]
    longest = float(seconds.max(initial=0.0))
    return None if np.isnan(longest) else longest


def refused_answer(
    snapshot: Snapshot, requests: Sequence[Request], built: BuiltProblem, *, stale_seconds: float
) -> ApplicationPlacement:
    """Describe why an application is not placed, and what would be needed."""
    short = np.flatnonzero(built.problem.room.sum(axis=1) < built.problem.counts)
    if short.size:
        return _shortage(built, int(short[0]))
    return _together(snapshot, requests, built, stale_seconds)


def _shortage(built: BuiltProblem, kind: int) -> ApplicationPlacement:
    """Describe a kind for which the nodes have no room, even if they take nothing else."""
    problem, request = built.problem, built.kinds[kind]
    room, count = int(problem.room[kind].sum()), int(problem.counts[kind])
    name = f" of {request.service}" if request.service else ""
    why = f"nodes have room for {room} of {counted(count, 'container')}{name}"
    near = ""
    if Rejection.DISTANCE in built.refused[kind]:
        near = f" within {milliseconds(problem.bound)} of its running members"
    needed = f"a node{near} that accepts it"
    wanted, missing = reservation_of(request), count - room
    if wanted.any():
        each = " each" if missing > 1 else ""
        needed = f"room for {counted(missing, 'more container')} with {_amounts(wanted)}{each}{near}"
    return ApplicationPlacement(why_not=why + describe_refusals(built.refused[kind]), needed=(needed,))


def _amounts(reserved: Floats) -> str:
    """Describe CPU and memory, as far as any is wanted."""
    cores, memory = reserved.tolist()
    return describe_amounts(Quantities(cpu_cores=cores or None, memory_bytes=round(memory) or None))


def _together(
    snapshot: Snapshot, requests: Sequence[Request], built: BuiltProblem, stale_seconds: float
) -> ApplicationPlacement:
    """Describe an application whose containers fit one by one, but not together."""
    problem = built.problem
    best = greedy.solve_partly(problem)
    left = problem.counts - best.sum(axis=1)
    pods, missing = counted(int(problem.counts.sum()), "container"), int(left.sum())
    near = f" within {milliseconds(problem.bound)} of each other" if problem.is_bounded else ""
    amount = _amounts(
        np.sum([reservation_of(each) * n for each, n in zip(built.kinds, left, strict=True)], axis=0)
    )
    names = [snapshot.nodes.names[row] for row in problem.nodes[best.any(axis=0)][:_NAMED]]
    close = f" within {milliseconds(problem.bound)} of {', '.join(names)}" if near and names else ""
    needed = [f"{amount} more free on nodes{close}"]
    enough = _sufficient_bound(snapshot, requests, built, stale_seconds)
    if enough is not None:
        needed.append(f"or a bound of at least {milliseconds(enough)}")
    return ApplicationPlacement(
        why_not=f"found no nodes{near} with room for all {pods}: {missing} would not fit",
        needed=tuple(needed),
    )


def _sufficient_bound(
    snapshot: Snapshot, requests: Sequence[Request], built: BuiltProblem, stale_seconds: float
) -> float | None:
    """Return the smallest bound with which all pods are placed; None if no bound is enough."""
    problem = built.problem
    if problem.delays is None or not problem.is_bounded:
        return None
    rows = problem.nodes[(built.refused == Rejection.NOT).any(axis=0)]
    some = rows[:: max(len(rows) // _MOST_BOUNDS, 1)].tolist()
    times = np.concatenate([problem.delays.from_node(row)[problem.nodes] for row in some])
    bounds = np.unique(times[times > problem.bound]).tolist()

    def solves(bound: float) -> bool:
        wider = build(snapshot, requests, stale_seconds=stale_seconds, bound=bound)
        return greedy.solve(wider.problem) is not None

    if not bounds or not solves(bounds[-1]):
        return None
    return float(bounds[bisect_left(bounds, x=True, hi=len(bounds) - 1, key=solves)])

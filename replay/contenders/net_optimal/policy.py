"""`net-optimal`: the same problem as `net-aware`, solved exactly within a time limit.

ge-kube's integer linear program, solved by HiGHS.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from collector.common.arrays import Flags, Rows
from collector.decide.policies.interface import ApplicationPlacement, Plan, Policy, Request, Stability
from collector.features.network.applications import greedy
from collector.features.network.applications.answer import placed_answer, refused_answer
from collector.features.network.applications.problem import Counts, Problem, build
from collector.features.network.applications.together import bring_together
from collector.features.network.policies import place
from collector.snapshot.tables import Snapshot

_ROUNDING = 1e-9
_SOLVED, _INFEASIBLE = 0, 2
"""The status of `milp`."""
_LEAST_SECONDS = 0.01
_MOST_PAIRS = 20_000
"""Pairs of groups of nodes that are too far apart, up to which all nodes are part of the search."""
_FEW_NODES = 32
"""Nodes up to which it is not worth the time to find those that are not needed."""
_AROUND = 128
"""Nodes that are part of the search otherwise."""
_SEARCH_RATIO = 0.8
"""Share of the time that is left which the solver gets: it looks at the clock only now and then."""


@dataclass(frozen=True, eq=False, slots=True)
class Solution:
    """A placement, and how good it could be."""

    placed: Counts | None
    """How many pods of each kind go to each node; None if no placement is found."""
    lower_bound: float
    """No placement has a lower F."""
    is_proven: bool
    """Whether there is none better, or none at all."""


def solve(problem: Problem, *, seconds: float) -> Solution:
    """Find the placement with the lowest F within a time limit.

    The greedy solver runs first. If its placement is as good as any can be, there is nothing to search;
    otherwise it is the answer if the time ends before a better one is found.
    """
    ends_at = monotonic() + seconds
    least = lower_bound(problem)
    if least is None:
        return Solution(None, np.inf, is_proven=True)
    best = greedy.solve(problem)
    if best is not None and problem.objective(best).value <= least + _ROUNDING:
        return Solution(best, least, is_proven=True)
    places, is_whole = _places(problem, best)
    found, dual, status = _search(problem.among(places), ends_at)
    if status == _INFEASIBLE and is_whole:
        return Solution(None, np.inf, is_proven=True)
    if is_whole:
        # The nodes that are in use already are not part of the program's costs.
        least = max(least, dual + problem.node_weight * (int(problem.used.sum()) - 1))
    if found is not None:
        placed = np.zeros(problem.allowed.shape, dtype=np.int64)
        placed[:, places] = found
        if is_feasible(problem, placed) and (
            best is None or problem.objective(placed).value < problem.objective(best).value
        ):
            best = placed
    if best is None:
        return Solution(None, least, is_proven=False)
    value = problem.objective(best).value
    if (is_whole and status == _SOLVED) or value <= least + _ROUNDING:
        return Solution(best, value, is_proven=True)
    return Solution(best, least, is_proven=False)


def _places(problem: Problem, best: Counts | None) -> tuple[Rows, bool]:
    """Return the nodes that are part of the search, and whether the lowest F is among their placements.

    With very many pairs of nodes that are too far apart, the program would be too large for the solver.
    """
    places = np.flatnonzero(problem.room.any(axis=0))
    if places.size > _FEW_NODES:
        places = places[needed_nodes(problem.among(places), None if best is None else best[:, places])]
    if problem.is_bounded and groups(problem.among(places))[1].sum() > 2 * _MOST_PAIRS:
        return _around(problem, places, best), False
    return places, True


def _around(problem: Problem, places: Rows, best: Counts | None) -> Rows:
    """Return the best nodes near one that the greedy uses most."""
    placed = greedy.solve_partly(problem) if best is None else best
    centre = int(placed.sum(axis=0).argmax())
    near = places[problem.near_to(centre)[places]]
    return np.sort(near[np.argsort(-greedy.attraction(problem.among(near)), kind="stable")[:_AROUND]])


def _search(problem: Problem, ends_at: float) -> tuple[Counts | None, float, int]:
    """Return the best placement found, a bound on its costs from below, and the status of the solver."""
    # scipy's solvers take time and memory to load, and only this policy needs them.
    from scipy.optimize import Bounds, milp  # type: ignore[import-untyped]  # noqa: PLC0415 - see above

    from replay.contenders.net_optimal.program import Program  # noqa: PLC0415 - see above

    program = Program(problem, *groups(problem))
    constraints = program.constraints()
    result = milp(
        program.costs,
        integrality=np.ones(len(program.costs)),
        bounds=Bounds(0.0, program.upper),
        constraints=constraints,
        options={"time_limit": max(_SEARCH_RATIO * (ends_at - monotonic()), _LEAST_SECONDS)},
    )
    dual = result.mip_dual_bound
    found = None if result.x is None else program.placed(result.x)
    return found, -np.inf if dual is None or np.isnan(dual) else float(dual), int(result.status)


def lower_bound(problem: Problem) -> float | None:
    """Return a bound on F from below that needs no search; None if it shows that there is no placement.

    If all pods talk, all are near each node in use: so the bound is the lowest of all nodes and their
    neighbours. The fewest nodes are those with the most of the resource that is scarcest.
    """
    room = problem.room
    could = np.flatnonzero(room.any(axis=0))
    if not could.size:
        return None
    part = problem.among(could)
    room, near = part.room, np.ones((1, could.size))
    if part.is_bounded and part.all_talk:
        near = part.near.astype(np.float64)
    is_enough = (near @ room.T >= part.counts).all(axis=1)
    absent = np.maximum(part.counts - near @ np.where(part.absent, 0, room).T, 0).sum(axis=1)
    fewest = np.full(len(near), 0 if problem.used.any() else 1)
    for size, free in zip(part.counts @ part.sizes, part.free.T, strict=True):
        amounts = np.maximum(free, 0.0)
        short = size * (1 - _ROUNDING) - near @ np.where(part.used, amounts, 0.0)
        order = np.argsort(-np.where(part.used, 0.0, amounts), kind="stable")
        most = (near[:, order] * np.where(part.used, 0.0, amounts)[order]).cumsum(axis=1)
        is_enough &= most[:, -1] >= short
        needed = ((most < short[:, np.newaxis]) & (near[:, order] > 0)).sum(axis=1) + (short > 0)
        fewest = np.maximum(fewest, needed)
    if not is_enough.any():
        return None
    in_use = int(problem.used.sum()) + fewest[is_enough]
    values = absent[is_enough] * problem.absent_weight + np.maximum(in_use - 1, 0) * problem.node_weight
    return float(values.min())


def is_feasible(problem: Problem, placed: Counts) -> bool:
    """Whether all pods are placed where they may be, with room, and near those they talk to."""
    if (placed.sum(axis=1) != problem.counts).any() or placed[~problem.allowed].any():
        return False
    if (placed > problem.most[:, np.newaxis]).any():
        return False
    if (placed.T @ problem.sizes > problem.free + _ROUNDING * np.maximum(np.abs(problem.free), 1.0))[
        placed.any(axis=0)
    ].any():
        return False
    if not problem.is_bounded:
        return True
    open_places = np.flatnonzero(placed.any(axis=0))
    near, on = problem.among(open_places).near, placed[:, open_places] > 0
    meets = on.T.astype(np.int64) @ problem.talks.astype(np.int64) @ on.astype(np.int64) > 0
    return not bool((meets & ~near).any())


def needed_nodes(problem: Problem, best: Counts | None) -> Rows:
    """Return the nodes that suffice for a placement with the lowest F, given a good one if there is any.

    A node is better than another one if it has the same neighbours, no less of anything, and no image less.
    If there are as many better ones as a placement can use, one of them is free, and takes all its pods.
    """
    better = _is_better(problem)
    better[problem.used] = False
    is_needed = better.sum(axis=0) < _most_nodes(problem, best)
    return np.flatnonzero(is_needed | problem.used)


def _is_better(problem: Problem) -> Flags:
    """Return which nodes (rows) are better than which (columns); of equal ones, the first."""
    group, _ = groups(problem)
    better = group[:, np.newaxis] == group
    worse = better.copy()
    for column in (*problem.free.T, *problem.allowed.astype(np.float64), *-problem.absent.astype(np.float64)):
        better &= column[:, np.newaxis] >= column
        worse &= column[:, np.newaxis] <= column
    is_equal = better & worse
    first = np.arange(len(group))[:, np.newaxis] < np.arange(len(group))
    return np.asarray(better & (~is_equal | first))


def _most_nodes(problem: Problem, best: Counts | None) -> int:
    """Return how many nodes a placement can add to those in use that is no worse than the best one known."""
    most = int(problem.counts.sum())
    if best is None:
        return most
    with_image = np.where(problem.absent, 0, problem.room).sum(axis=1)
    absent = int(np.maximum(problem.counts - with_image, 0).sum())
    left = problem.objective(best).value - absent * problem.absent_weight
    in_use = int(np.floor(left / problem.node_weight + 1 + _ROUNDING))
    return min(max(in_use - int(problem.used.sum()), 1), most)


def groups(problem: Problem) -> tuple[Rows, Flags]:
    """Return the group of each node, and which groups are too far from each other."""
    rows = np.packbits(problem.near, axis=1)
    _, first, group = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    conflict: Flags = ~problem.near[np.ix_(first, first)]
    return group.reshape(-1), conflict


class NetOptimalSettings(Stability, frozen=True):
    """Settings of `net-optimal`."""

    limit_seconds: Annotated[float, Meta(gt=0, le=60)] = 2.0
    """Maximum time of a search. The best placement found until then is used, and the answer states how much
    better the best one could be."""


class OptimalPlacement(ApplicationPlacement, frozen=True, kw_only=True):
    """A placement, and how far it is from the best one."""

    gap_ratio: float
    """How much lower F could be at most, as a share of F: 0 if this is the optimum."""


def place_optimally(
    snapshot: Snapshot, requests: Sequence[Request], settings: NetOptimalSettings
) -> ApplicationPlacement:
    """Place an application by the exact solver, within its time limit; spread as by the greedy."""
    spreads = any(each.spread for each in requests)
    built = build(snapshot, requests, stale_seconds=settings.stale_seconds, spreads=spreads)
    found = solve(built.problem, seconds=settings.limit_seconds)
    if found.placed is None and spreads:
        built = build(snapshot, requests, stale_seconds=settings.stale_seconds)
        found = solve(built.problem, seconds=settings.limit_seconds)
    if found.placed is None:
        return refused_answer(snapshot, requests, built, stale_seconds=settings.stale_seconds)
    answer = placed_answer(snapshot, built, found.placed)
    assert answer.objective is not None
    value = answer.objective.value
    gap_ratio = max(value - found.lower_bound, 0.0) / value if value > 0 else 0.0
    return OptimalPlacement(**msgspec.structs.asdict(answer), gap_ratio=gap_ratio)


def rebalance_optimally(snapshot: Snapshot, settings: NetOptimalSettings) -> Plan:
    """Bring applications together that are apart, with the fewest moves."""
    return bring_together(
        snapshot, settings, lambda problem: solve(problem, seconds=settings.limit_seconds).placed
    )


NET_OPTIMAL = Policy(
    name="net-optimal",
    summary="ge-kube's integer linear program: as net-aware, but solved exactly within a time limit",
    settings=NetOptimalSettings,
    place=place,
    rebalance=rebalance_optimally,
    place_all=place_optimally,
)

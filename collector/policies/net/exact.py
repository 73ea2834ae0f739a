"""`net-optimal`: ge-kube's integer linear program, solved by HiGHS within a time limit."""

from dataclasses import dataclass
from time import monotonic

import numpy as np

from collector.policies.net import greedy
from collector.policies.net.problem import Counts, Problem

_ROUNDING = 1e-9
_SOLVED, _INFEASIBLE = 0, 2
"""The status of `milp`."""
_LEAST_SECONDS = 0.01
_SEARCH_RATIO = 0.85
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

    The greedy comes first: if its placement is as good as any can be, there is nothing to search. Otherwise
    it is the answer if the time ends before a better one is found.
    """
    ends_at = monotonic() + seconds
    least = lower_bound(problem)
    if least is None:
        return Solution(None, np.inf, is_proven=True)
    best = greedy.solve(problem)
    if best is not None and problem.objective(best).value <= least + _ROUNDING:
        return Solution(best, least, is_proven=True)
    places = np.flatnonzero(problem.room.any(axis=0))
    found, dual, status = _search(problem.among(places), ends_at)
    if status == _INFEASIBLE:
        return Solution(None, np.inf, is_proven=True)
    # The nodes that are in use already are not part of the program's costs.
    least = max(least, dual + problem.node_weight * (int(problem.used.sum()) - 1))
    if found is not None:
        placed = np.zeros(problem.allowed.shape, dtype=np.int64)
        placed[:, places] = found
        if problem.is_feasible(placed) and (
            best is None or problem.objective(placed).value < problem.objective(best).value
        ):
            best = placed
    if best is None:
        return Solution(None, least, is_proven=False)
    value = problem.objective(best).value
    if status == _SOLVED or value <= least + _ROUNDING:
        return Solution(best, value, is_proven=True)
    return Solution(best, least, is_proven=False)


def _search(problem: Problem, ends_at: float) -> tuple[Counts | None, float, int]:
    """Return the best placement found, a bound on its costs from below, and the status of the solver."""
    # scipy's solvers take time and memory to load, and only this policy needs them.
    from scipy.optimize import Bounds, milp  # type: ignore[import-untyped]  # noqa: PLC0415 - see above

    from collector.policies.net.program import Program  # noqa: PLC0415 - see above

    program = Program(problem)
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
    """Return a bound on F from below that needs no search; None if some pods have no room at all."""
    room = problem.room
    if (room.sum(axis=1) < problem.counts).any():
        return None
    has_image = np.where(problem.absent, 0, room).sum(axis=1)
    absent = int(np.maximum(problem.counts - has_image, 0).sum())
    is_used = problem.used
    fewest = 0 if is_used.any() else 1
    for size, free in zip((problem.counts @ problem.sizes).tolist(), problem.free.T, strict=True):
        fits = np.where(room.any(axis=0), np.maximum(free, 0.0), 0.0)
        short = size * (1 - _ROUNDING) - fits[is_used].sum()
        largest = np.sort(fits[~is_used])[::-1].cumsum()
        if short > 0:
            needed = int(np.searchsorted(largest, short - _ROUNDING)) + 1
            if needed > largest.size:
                return None
            fewest = max(fewest, needed)
    in_use = int(is_used.sum()) + fewest
    return absent * problem.absent_weight + max(in_use - 1, 0) * problem.node_weight

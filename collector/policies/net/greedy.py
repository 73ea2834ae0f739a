"""`net-aware`: ge-kube's greedy from many starts at once.

The paper places one pod after the other on the node that adds the least to F, of those with room that are
near all nodes in use. Here, the nearest of equal nodes is taken. Each start prefers some nodes to begin with
and has an order of the pods, and all starts advance together, as rows of the same arrays: the best result
counts, and of equal ones that with the shortest way across. So it takes little longer than one start, and
seldom ends where no node is left.
"""

import numpy as np

from collector.common.arrays import Flags, Floats, Rows
from collector.policies.net.problem import Counts, Problem

_ROUNDING = 1e-9
_ALL_PAIRS = 16
"""Up to this number of nodes, each is a start, and pairs of them are."""
_PAIRS = 40
"""Starts in a cluster of this size: each node, and the best pairs."""
_STARTS = 16
"""Starts in a larger cluster."""
_CANDIDATES = 192
"""Nodes that are examined in a larger cluster; all, if no placement is found among these."""
_EXAMINED = 48
"""Nodes of a larger cluster whose neighbours are examined, to choose the starts."""
_REGIONS = 4
"""Half of the number of nodes near which candidates are chosen."""
_DIGITS = 9
"""Digits of F that count: sums of the same terms differ in their last ones."""
_TIE = 1e-4
"""Weight of what decides between nodes that add the same to F: far below the smallest difference of F."""


def solve(problem: Problem) -> Counts | None:
    """Return how many pods of each kind go to each node; None if no placement is found."""
    places = np.flatnonzero(problem.room.any(axis=0))
    if (problem.room.sum(axis=1) < problem.counts).any():
        return None
    if places.size > _CANDIDATES:
        some = places[_candidates(problem.among(places))]
        found = _best(problem, some)
        if (found.sum(axis=1) == problem.counts).all():
            return found
    found = _best(problem, places)
    return found if (found.sum(axis=1) == problem.counts).all() else None


def solve_partly(problem: Problem) -> Counts:
    """Return a placement of as many pods as possible."""
    places = np.flatnonzero(problem.room.any(axis=0))
    if places.size > _CANDIDATES:
        places = places[_candidates(problem.among(places))]
    return _best(problem, places)


def _best(problem: Problem, places: Rows) -> Counts:
    placed = np.zeros(problem.allowed.shape, dtype=np.int64)
    if places.size:
        placed[:, places] = _Starts(problem.among(places)).run()
    return placed


class _Starts:
    """All starts of the greedy, a row each: preferred nodes, and an order of the pods."""

    def __init__(self, problem: Problem) -> None:
        self._problem, self._near = problem, problem.near
        self._is_capped = bool((problem.most < problem.counts).any())
        value = attraction(problem)
        orders = _orders(problem)
        one, other = self._preferred(value)
        is_preferred = _with_none(np.eye(len(problem.nodes), dtype=np.bool_), value=False)
        count = len(one) * len(orders)
        preferred = np.tile(is_preferred[one] | is_preferred[other], (len(orders), 1))
        self._order = np.repeat(orders, len(one), axis=0)
        self._rows = np.arange(count)
        self._base = _base_costs(problem, value)
        self._left_over = np.zeros(count, dtype=np.int64)
        self._new_weight = np.where(preferred | problem.used, 0.0, problem.node_weight)
        self._free = [np.tile(each, (count, 1)) for each in problem.free.T]
        self._placed = np.zeros((count, *problem.allowed.shape), dtype=np.int64)
        self._distance = None if problem.distance is None else _TIE**3 * problem.distance
        self._longest = np.zeros((count, len(problem.nodes)))
        """The cost of how far each node is from the farthest that is in use."""
        if self._distance is not None and problem.used.any():
            self._longest += self._distance[problem.used].max(axis=0)
        if problem.all_talk:
            near = _with_none(self._near, value=True)
            self._open_to = np.tile((near[one] & near[other])[:, np.newaxis], (len(orders), 1, 1))
        else:
            self._open_to = np.ones((count, *problem.allowed.shape), dtype=np.bool_)

    def _preferred(self, value: Floats) -> tuple[Rows, Rows]:
        """Return the two nodes that each start prefers; the number of nodes stands for none."""
        count = len(self._problem.nodes)
        if count > _ALL_PAIRS:
            one = np.array([count, *_starts(self._problem, value, _STARTS)])
            return one, np.full_like(one, count)
        # A node and itself: it is preferred alone.
        one, other = np.nonzero(np.triu(self._near))
        best = np.lexsort((-(value[one] + value[other]), one != other))[:_PAIRS]
        one, other = one[best], other[best]
        return np.append(one, count), np.append(other, count)

    def run(self) -> Counts:
        """Place the pods from every start; return the placement with the most pods, of these the best."""
        problem = self._problem
        for kinds in self._order.T:
            self._place(kinds)
        absent = (self._placed * problem.absent).sum(axis=(1, 2))
        is_open = self._placed.any(axis=1) | problem.used
        value = absent * problem.absent_weight + is_open.sum(axis=1) * problem.node_weight
        across = np.where(is_open, self._longest, 0.0).max(axis=1)
        order = np.lexsort((across, np.round(value, _DIGITS), self._left_over))
        best: Counts = self._placed[order[0]]
        return best

    def _place(self, kinds: Rows) -> None:
        """Place one pod in every row."""
        problem, rows = self._problem, self._rows
        sizes = problem.sizes[kinds].T
        fits = self._open_to[:, 0] if problem.all_talk else self._open_to[rows, kinds]
        for size, free in zip(sizes, self._free, strict=True):
            fits = fits & (free >= size[:, np.newaxis] * (1 - _ROUNDING))
        if self._is_capped:
            fits = fits & (self._placed[rows, kinds] < problem.most[kinds][:, np.newaxis])
        cost = self._base[kinds]
        cost += self._new_weight
        cost += self._longest
        cost[~fits] = np.inf
        node = cost.argmin(axis=1)
        found = cost[rows, node] < np.inf
        if not found.all():
            self._left_over += ~found
            rows, kinds, node, sizes = rows[found], kinds[found], node[found], sizes[:, found]
        for size, free in zip(sizes, self._free, strict=True):
            free[rows, node] -= size
        self._new_weight[rows, node] = 0.0
        self._placed[rows, kinds, node] += 1
        if self._distance is not None:
            longest = self._longest if len(rows) == len(self._rows) else self._longest[rows]
            self._longest[rows] = np.maximum(longest, self._distance[node])
        if not problem.is_bounded:
            return
        near = self._near[node]
        if problem.all_talk:
            self._open_to[rows, 0] &= near
        else:
            self._open_to[rows] &= near[:, np.newaxis] | ~problem.talks[kinds][:, :, np.newaxis]


def _with_none(flags: Flags, *, value: bool) -> Flags:
    """Return a table of flags with one more row for none, which has the same value everywhere."""
    return np.vstack((flags, np.full(flags.shape[1], value)))


def _base_costs(problem: Problem, value: Floats) -> Floats:
    """Return what a pod of each kind adds to F on each node in use; infinite where it may not be.

    Of nodes that add the same, a pod without its image leaves alone those that have the images of others.
    """
    present = problem.allowed & ~problem.absent
    wanted = problem.counts @ present / max(int(problem.counts.sum()), 1)
    costs = problem.absent_weight * problem.absent + _TIE * (problem.absent * wanted) - _TIE**2 * value
    costs[~problem.allowed] = np.inf
    return np.asarray(costs, dtype=np.float64)


def _orders(problem: Problem) -> Rows:
    """Return orders of the pods, by kind: the largest, the rarest image, or the largest in sum first."""
    shares = problem.sizes / np.maximum(problem.free.mean(axis=0), _ROUNDING)
    largest = shares.max(axis=1, initial=0.0)
    present = (problem.allowed & ~problem.absent).sum(axis=1)
    orders = [np.lexsort((present, -largest)), np.lexsort((-largest, present))]
    if shares.shape[1] > 1:
        orders.append(np.lexsort((present, -shares.sum(axis=1))))
    distinct = {tuple(each.tolist()): each for each in orders}.values()
    return np.array([np.repeat(each, problem.counts[each]) for each in distinct])


def attraction(problem: Problem) -> Floats:
    """Return how attractive each node is: by the pods that fit there, and those with their image."""
    fits = problem.room / max(int(problem.counts.sum()), 1)
    largest = np.maximum(problem.free.max(axis=0, initial=0.0), _ROUNDING)
    free = (problem.free / largest).min(axis=1, initial=1.0)
    sums: Floats = fits.sum(axis=0) + (fits * ~problem.absent).sum(axis=0) + free
    return sums


def _starts(problem: Problem, value: Floats, count: int) -> list[int]:
    """Return nodes to start at: of some that are attractive, those with the most room for pods near them.

    Half of them are far from each other, as long as there are such nodes.
    """
    some = _diverse(problem, value, _EXAMINED)
    near = np.array([problem.near_to(each) for each in some], dtype=np.float64)
    room = np.minimum(near @ problem.room.T, problem.counts).sum(axis=1)
    with_image = np.minimum(near @ (problem.room * ~problem.absent).T, problem.counts).sum(axis=1)
    order = np.lexsort((-value[some], -with_image, -room))
    best = [some[each] for each in order[: count // 2].tolist()]
    return [*best, *(each for each in some if each not in best)][:count]


def _diverse(problem: Problem, value: Floats, count: int) -> list[int]:
    """Return attractive nodes: first those far from each other, then the best of the others."""
    order = np.argsort(-value, kind="stable")
    chosen: list[int] = []
    is_left = np.ones(len(value), dtype=np.bool_)
    while len(chosen) < count // 2 and is_left.any():
        best = int(order[is_left[order].argmax()])
        chosen.append(best)
        is_left &= ~problem.near_to(best)
        is_left[best] = False
    taken = set(chosen)
    more = [each for each in order[: 2 * count].tolist() if each not in taken]
    return chosen + more[: count - len(chosen)]


def _candidates(problem: Problem) -> Rows:
    """Return the nodes of a large cluster that are examined.

    Near each of a few starts: for each kind the best with its image, until they have room for twice its pods;
    then the best of all.
    """
    value = attraction(problem)
    starts = _starts(problem, value, 2 * _REGIONS)
    chosen = [np.flatnonzero(problem.used)]
    for start in starts:
        near = np.flatnonzero(problem.near_to(start))
        near = near[np.argsort(-value[near], kind="stable")]
        chosen.append(near[: _CANDIDATES // len(starts)])
        rooms = np.where(problem.absent[:, near], 0, problem.room[:, near])
        for room, count in zip(rooms, problem.counts.tolist(), strict=True):
            before = room.cumsum() - room
            chosen.append(near[(room > 0) & (before < 2 * count)])
    return np.unique(np.concatenate(chosen))

"""Energy4Cloud's three searches: where a request fits as it is, after cuts, or after kills."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np

from collector.common.arrays import Codes, Flags, Floats, Rows
from collector.common.text import counted
from collector.decide.policies.actions import Action, Cut, Kill
from collector.decide.policies.filters import OpenNodes, eligible
from collector.decide.policies.interface import LAXEST_CLASS, Rejection, Request
from collector.decide.policies.overbooking import (
    ROUNDING,
    ReservationBook,
    lenders,
    reservation_of,
    reserved_quantities,
)
from collector.decide.policies.scoring import stable_argsort
from collector.decide.policies.stability import keeps_awake
from collector.snapshot.overbooking import RESERVED, TOLERANCES, allocations, originals
from collector.snapshot.tables import NOWHERE, OVERBOOKING_LIMITS, Region, Snapshot, TaskKind, Tasks

_KILL_ORDER = {1: (1, 2, 3, 4), 2: (2, 3, 4, 1), 3: (3, 4, 2, 1), 4: (4, 3, 2, 1)}
_NO_STEP = np.int8(100)
_USAGES = {Region.LEE: "underused", Region.DEE: "efficient", Region.EED: "overloaded"}
_KILL_TRIES = 16
"""Nodes tried for kills: if the victims of these fit nowhere else, others hardly do."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node where a request fits after some actions."""

    row: int
    first: tuple[Action, ...] = ()
    gets: Floats | None = None
    """The reservation of the request, if it is cut itself."""


def task_request(tasks: Tasks, task: int) -> Request:
    """Return the request that a task began with."""
    return Request(
        reserve=reserved_quantities(originals(tasks, np.array([task]))[0]),
        task_class=int(tasks.task_class[task]),
        kind=TaskKind(tasks.kind[task]),
    )


class Search:
    """A search for one request."""

    def __init__(
        self,
        snapshot: Snapshot,
        request: Request,
        books: ReservationBook,
        candidates: Flags,
        *,
        borrowed_counts: bool,
    ) -> None:
        self._snapshot = snapshot
        self._request = request
        self._books = books
        self._candidates = candidates
        self._borrowed_counts = borrowed_counts
        self._more = reservation_of(request)
        self._limit = OVERBOOKING_LIMITS[request.task_class]
        self._open_nodes = OpenNodes(snapshot)

    # --- The three algorithms -----------------------------------------------------------------

    def simple(self) -> Rows:
        """Return nodes of its own or a stricter class where it fits, low efficiency first."""
        fits = self._books.fits(self._more, self._limit)
        return self._open(fits & (self._snapshot.nodes.strictest_class <= self._request.task_class))

    def reserve(self) -> int | None:
        """Reserve the first node where it fits without cuts and kills, and return it."""
        simple = self.simple()
        if not simple.size:
            simple = self._open(self._books.fits(self._more, self._limit) & self._same_or_laxer())
        if not simple.size:
            return None
        self._books.add(int(simple[0]), self._more, self._limit)
        return int(simple[0])

    def cut(self) -> Rows:
        """Return nodes where it fits after cuts of running tasks, or of itself on stricter nodes."""
        same_or_laxer = self._same_or_laxer()
        # Tasks that were cut earlier tolerate less overbooking than their class.
        limit = np.minimum(self._books.limit, self._limit)
        fits = self._books.fits(self._more, self._limit) | self._fits_with(self._freed_by(self._laxer), limit)
        itself_cut = self._fits_itself_cut(np.zeros(RESERVED))
        with_peers = self._fits_itself_cut(self._freed_by(self._peers)) & ~itself_cut
        return self._open(same_or_laxer & fits, ~same_or_laxer & itself_cut, ~same_or_laxer & with_peers)

    def cut_on(self, row: int) -> Candidate:
        """Return the cuts on one of those nodes."""
        strictest = int(self._snapshot.nodes.strictest_class[row])
        if 0 < strictest < self._request.task_class:
            gets = self._more * self._own_share(strictest)
            limit = OVERBOOKING_LIMITS[strictest]
            if self._books.fits_on(row, gets, limit):
                return Candidate(row, gets=gets)
            return Candidate(row, self._cuts(row, self._peers(), gets, limit), gets)
        if self._books.fits_on(row, self._more, self._limit):
            return Candidate(row)
        return Candidate(row, self._cuts(row, self._laxer(), self._more, self._limit))

    def _own_share(self, strictest: int | Codes) -> Floats:
        """Return the share that the largest cut leaves of the request on nodes of a class."""
        share: Floats = 1 - (TOLERANCES[self._request.task_class] - TOLERANCES[strictest])
        return share

    def _fits_itself_cut(self, freed: Floats) -> Flags:
        """Return the nodes where the cut request fits once others have freed this much."""
        strictest = self._snapshot.nodes.strictest_class
        limits = np.array(OVERBOOKING_LIMITS)[strictest]
        return self._books.fits(self._more * self._own_share(strictest)[:, None] - freed, limits)

    def kill(self, *, may_wait: bool) -> Candidate | None:
        """Return the first node where killed tasks make room, and fit elsewhere or may wait."""
        classes = _KILL_ORDER[self._request.task_class]
        order = self._order((Region.EED, Region.DEE), np.ones_like(self._candidates), classes)
        possible = self._fits_with(self._killable, self._limit)[order]
        for row in order[possible][:_KILL_TRIES]:
            if (actions := self._kills(int(row), may_wait=may_wait)) is not None:
                return Candidate(int(row), actions)
        return None

    # --- Candidates ---------------------------------------------------------------------------

    def _same_or_laxer(self) -> Flags:
        """Return the nodes of its own or a laxer class; a node without tasks, of class 0, accepts any."""
        strictest = self._snapshot.nodes.strictest_class
        found: Flags = (strictest >= self._request.task_class) | (strictest == 0)
        return found

    def _open(self, *groups: Flags) -> Rows:
        """Return candidates that are not degraded, group after group.

        If there are none, those that are degraded only by borrowed CPU.
        """
        found = np.concatenate([self._order((Region.LEE, Region.DEE), each) for each in groups])
        if found.size or self._borrowed_counts:
            return found
        lending = lenders(self._snapshot)
        return np.concatenate([self._order((Region.EED, Region.EED), each & lending) for each in groups])

    def _order(
        self, regions: tuple[Region, Region], allowed: Flags, classes: tuple[int, ...] = (1, 2, 3, 4)
    ) -> Rows:
        """Return candidates by region, then class, then use: the fullest first, the emptiest if degraded."""
        nodes = self._snapshot.nodes
        steps = np.full((len(Region), LAXEST_CLASS + 1), _NO_STEP)
        for number, (region, of_class) in enumerate(product(regions, classes)):
            steps[region, of_class] = min(number, steps[region, of_class])
        steps[:, 0] = steps[:, LAXEST_CLASS]  # Nodes without tasks come with the laxest class.
        step = steps[nodes.region, nodes.strictest_class]
        rows = np.flatnonzero(self._candidates & allowed & (step != _NO_STEP))
        used = nodes.utilisation[rows]
        rows = rows[stable_argsort(np.where(nodes.region[rows] == Region.EED, used, -used))]
        return rows[np.argsort(step[rows], kind="stable")]

    # --- Cutting --------------------------------------------------------------------------------

    def _laxer(self) -> Rows:
        """Return the tasks of laxer classes, which can be cut for it."""
        tasks = self._snapshot.tasks
        return np.flatnonzero((tasks.task_class > self._request.task_class) & (tasks.node != NOWHERE))

    def _peers(self) -> Rows:
        """Return the tasks of its own or laxer classes on stricter nodes, where either can be cut."""
        tasks, strictest = self._snapshot.tasks, self._snapshot.nodes.strictest_class
        rows = np.flatnonzero((tasks.task_class >= self._request.task_class) & (tasks.node != NOWHERE))
        return rows[strictest[tasks.node[rows]] < self._request.task_class]

    def _freed_by(self, tasks: Callable[[], Rows]) -> Floats:
        """Return what cuts of all of these tasks free, per node."""

        def add_up() -> Floats:
            rows = tasks()
            return self._sum(rows, self._gives(rows))

        return self._snapshot.cached((tasks.__name__, self._request.task_class), add_up)

    def _gives(self, rows: Rows) -> Floats:
        """Return what the largest cut of each task frees, as the orchestrator counts it.

        A node is as strict as its strictest task, the request included.
        """
        tasks = self._snapshot.tasks
        strictest = np.minimum(
            self._snapshot.nodes.strictest_class[tasks.node[rows]], self._request.task_class
        )
        share = 1 - (TOLERANCES[tasks.task_class[rows]] - TOLERANCES[strictest])
        least = originals(tasks, rows) * share[:, None]
        gives: Floats = np.clip(allocations(tasks, rows) - least, 0.0, None)
        return gives * tasks.cuttable[rows, None]

    def _sum(self, rows: Rows, amounts: Floats) -> Floats:
        on, count = self._snapshot.tasks.node[rows], len(self._snapshot.nodes.names)
        columns = [np.bincount(on, weights=amounts[:, place], minlength=count) for place in range(RESERVED)]
        return np.array(columns, dtype=np.float64).T

    def _fits_with(self, freed: Floats, limit: float | Floats) -> Flags:
        books = self._books
        enough = (self._more <= books.capacity).all(axis=1)
        factor = ((books.reserved - freed + self._more) / books.capacity).max(axis=1)
        fits: Flags = enough & (factor <= limit + ROUNDING) & freed.any(axis=1)
        return fits

    def _victims_first(self, rows: Rows) -> Rows:
        """Return indices of the laxest classes first, in each the least used first."""
        tasks = self._snapshot.tasks
        allocated = allocations(tasks, rows)
        used = np.nan_to_num(tasks.used[rows, :RESERVED], nan=0.0)
        use = np.divide(used, allocated, out=np.zeros_like(used), where=allocated > 0).max(
            axis=1, initial=0.0
        )
        return np.lexsort((rows, use, -tasks.task_class[rows]))

    def _cuts(self, row: int, among: Rows, wanted: Floats, limit: float) -> tuple[Action, ...]:
        """Cut one task of a node after the other until the request fits."""
        tasks, nodes = self._snapshot.tasks, self._snapshot.nodes
        limit = min(limit, float(self._books.limit[row]))
        rows = among[tasks.node[among] == row]
        gives = self._gives(rows)
        freed = np.zeros(RESERVED)
        cuts: list[Action] = []
        for place in self._victims_first(rows):
            factor = ((self._books.reserved[row] - freed + wanted) / self._books.capacity[row]).max()
            if factor <= limit + ROUNDING:
                break
            if not gives[place].any():
                continue
            freed += gives[place]
            task = int(rows[place])
            left = allocations(tasks, rows)[place] - gives[place]
            of_class = int(tasks.task_class[task])
            tolerates = f"class {of_class} tolerates {TOLERANCES[of_class]:.0%} less"
            reason = f"makes room for class {self._request.task_class}; {tolerates}"
            cuts.append(
                Cut(
                    task=tasks.ids[task],
                    name=tasks.names[task],
                    node=nodes.names[row],
                    allocated=reserved_quantities(left),
                    reasons=(reason,),
                )
            )
        return tuple(cuts)

    # --- Killing --------------------------------------------------------------------------------

    def _may_be_killed(self, rows: Rows) -> Rows:
        tasks, request = self._snapshot.tasks, self._request
        rows = rows[keeps_awake(self._snapshot)[rows]]
        if request.task_class != LAXEST_CLASS:
            return rows[(tasks.task_class[rows] > request.task_class) & tasks.movable[rows]]
        # No class is laxer; but services of this class use little of their reservation, jobs all of it.
        if request.kind is not TaskKind.JOB:
            return rows[:0]
        services: Flags = (tasks.task_class[rows] == LAXEST_CLASS) & (tasks.kind[rows] == TaskKind.SERVICE)
        return rows[services & tasks.movable[rows]]

    @property
    def _killable(self) -> Floats:
        """What kills free, per node."""

        def add_up() -> Floats:
            rows = self._may_be_killed(np.flatnonzero(self._snapshot.tasks.node != NOWHERE))
            return self._sum(rows, allocations(self._snapshot.tasks, rows))

        return self._snapshot.cached(("killable", self._request.task_class, self._request.kind), add_up)

    def _kills(self, row: int, *, may_wait: bool) -> tuple[Action, ...] | None:
        tasks, nodes = self._snapshot.tasks, self._snapshot.nodes
        rows = self._may_be_killed(self._snapshot.tasks_on(row))
        victims: list[int] = []
        for place in self._victims_first(rows):
            victims.append(int(rows[place]))
            books = self._books.without(self._snapshot, row, victims)
            if books.fits_on(row, self._more, self._limit):
                break
        else:
            return None
        books.add(row, self._more, self._limit)
        actions: list[Action] = []
        home = tasks.node.copy()
        for victim in victims:
            target = self._place_for(victim, books, row, home)
            if target is None and not may_wait:
                return None
            reason = (
                f"makes room for class {self._request.task_class}; this is class {tasks.task_class[victim]}"
            )
            actions.append(
                Kill(
                    task=tasks.ids[victim],
                    name=tasks.names[victim],
                    node=nodes.names[row],
                    target=None if target is None else nodes.names[target],
                    reasons=(reason, "it restarts with its full reservation"),
                )
            )
        return tuple(actions)

    def _place_for(self, victim: int, books: ReservationBook, not_on: int, home: Rows) -> int | None:
        """Find another node for a task to be killed, and reserve it."""
        tasks = self._snapshot.tasks
        wanted = task_request(tasks, victim)
        # What the request excludes, or its constraints, do not concern the victim.
        elsewhere = eligible(self._snapshot, wanted) == Rejection.NOT
        elsewhere[not_on] = False
        near = self._open_nodes.open_to(victim, home)
        if near is not None:
            elsewhere &= near
        search = Search(self._snapshot, wanted, books, elsewhere, borrowed_counts=self._borrowed_counts)
        if (found := search.reserve()) is not None:
            home[victim] = found
        return found

    # --- Reasons --------------------------------------------------------------------------------

    def explain(self, found: Candidate) -> tuple[str, ...]:
        row, first, own = found.row, found.first, found.gets
        nodes = self._snapshot.nodes
        of_class = int(nodes.strictest_class[row])
        region, use = Region(nodes.region[row]), nodes.utilisation[row]
        host = f"a class-{of_class} node" if of_class else "a node without tasks"
        reasons = [f"{host} that is {_USAGES[region]}: {use:.0%} use of its fullest resource"]
        if own is not None:
            reasons.append(
                f"the request itself is cut by {1 - (own / self._more).max():.0%}, within its class"
            )
        if first:
            verb = "stops" if isinstance(first[0], Kill) else "cuts"
            whose = "of its class or laxer" if own is not None else "of laxer classes"
            reasons.append(f"{verb} {counted(len(first), 'task')} {whose}")
        else:
            factor = self._books.factor(self._more if own is None else own, np.array([row]))[0]
            allowed = min(self._limit, float(self._books.limit[row]))
            reasons.append(f"reserved with this request: {factor:.2f} of its capacity, limit {allowed:.2f}")
        return tuple(reasons)

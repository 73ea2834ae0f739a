"""Energy4Cloud's three searches for one request: where it fits, where after cuts, where after kills."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np

from collector.policies.actions import Action, Cut, Kill
from collector.policies.interface import LAXEST_CLASS, STRICTEST_CLASS, Request
from collector.policies.overbooking import (
    LIMITS,
    PROMISED,
    ROUNDING,
    TOLERANCES,
    Books,
    allocations,
    asked,
    lenders,
    originals,
    quantities,
)
from collector.policies.sorting import rising
from collector.snapshot.power_curves import Floats, Rows
from collector.snapshot.tables import NOWHERE, Codes, Flags, Region, Snapshot, TaskKind

_KILL_ORDER = {1: (1, 2, 3, 4), 2: (2, 3, 4, 1), 3: (3, 4, 2, 1), 4: (4, 3, 2, 1)}
_NOT_LOOKED_AT = np.int8(100)
_KILL_TRIES = 16
"""Nodes on which places for victims are looked for: where the first ones find none, the next hardly do."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node on which a request would fit, once something is done there."""

    row: int
    first: Callable[[], tuple[Action, ...]] = tuple
    gets: Floats | None = None
    """What the request is promised, where it is cut itself."""


class Search:
    """One request, looked at against the books."""

    def __init__(
        self,
        snapshot: Snapshot,
        request: Request,
        books: Books,
        candidates: Flags,
        *,
        borrowed_counts: bool,
    ) -> None:
        self._snapshot = snapshot
        self._request = request
        self._books = books
        self._candidates = candidates
        self._borrowed_counts = borrowed_counts
        self._more = asked(request)
        self._limit = LIMITS[request.task_class]

    # --- The three algorithms -----------------------------------------------------------------

    def simple(self) -> Rows:
        """Where it fits as it is: nodes of its own or a stricter class, those of low efficiency first."""
        fits = self._books.fits(self._more, self._limit)
        return self._open(fits & (self._classes() <= self._request.task_class))

    def as_it_is(self) -> int | None:
        """The first node where it fits and nothing has to be taken from anybody."""
        simple = self.simple()
        if not simple.size:
            simple = self._open(self._books.fits(self._more, self._limit) & self._same_or_laxer())
        return int(simple[0]) if simple.size else None

    def cut(self) -> Rows:
        """Where it fits if something is cut: running tasks, on stricter nodes the request itself first."""
        same_or_laxer = self._same_or_laxer()
        fits = self._books.fits(self._more, self._limit) | self._fits_with(self._cuttable)
        itself_cut = self._fits_itself_cut(np.zeros(PROMISED))
        with_peers = self._fits_itself_cut(self._peers_give) & ~itself_cut
        return self._open(same_or_laxer & fits, ~same_or_laxer & itself_cut, ~same_or_laxer & with_peers)

    def cut_on(self, row: int) -> Candidate:
        """What is to be cut on one of those nodes."""
        strictest = int(self._snapshot.nodes.strictest_class[row])
        if 0 < strictest < self._request.task_class:
            gets = self._more * self._own_share(strictest)
            limit = LIMITS[strictest]
            if self._books.fits_on(row, gets, limit):
                return Candidate(row, gets=gets)
            return Candidate(row, partial(self._cuts, row, self._peers(), gets, limit), gets)
        if self._books.fits_on(row, self._more, self._limit):
            return Candidate(row)
        return Candidate(row, partial(self._cuts, row, self._laxer(), self._more, self._limit))

    def _own_share(self, strictest: int | Codes) -> Floats:
        """What is left of the request on nodes of a class, if it loses all that it may be cut by there."""
        share: Floats = 1 - (TOLERANCES[self._request.task_class] - TOLERANCES[strictest])
        return share

    def _fits_itself_cut(self, freed: Floats) -> Flags:
        """Where what is left of the request fits once so much is given by others."""
        strictest = self._snapshot.nodes.strictest_class
        limits = np.array(LIMITS)[strictest]
        return self._books.fits(self._more * self._own_share(strictest)[:, None] - freed, limits)

    def kill(self, *, may_wait: bool) -> Candidate | None:
        """The first node on which tasks can be ended for it that have another place, or may wait for one."""
        classes = _KILL_ORDER[self._request.task_class]
        order = self._order((Region.EED, Region.DEE), np.ones_like(self._candidates), classes)
        possible = self._fits_with(self._killable)[order]
        for row in order[possible][:_KILL_TRIES]:
            if (actions := self._kills(int(row), may_wait=may_wait)) is not None:
                return Candidate(int(row), lambda: actions)
        return None

    # --- Candidates ---------------------------------------------------------------------------

    def _empty(self) -> Flags:
        empty: Flags = self._snapshot.nodes.strictest_class == 0
        return empty

    def _same_or_laxer(self) -> Flags:
        return (self._snapshot.nodes.strictest_class >= self._request.task_class) | self._empty()

    def _classes(self) -> Codes:
        """Each node's class; a node without tasks takes any."""
        strictest = self._snapshot.nodes.strictest_class
        return np.where(self._empty(), np.int8(STRICTEST_CLASS), strictest)

    def _open(self, *groups: Flags) -> Rows:
        """Candidates where work does not suffer, group after group.

        Where there are none, those where it suffers only for what is borrowed.
        """
        found = np.concatenate([self._order((Region.LEE, Region.DEE), each) for each in groups])
        if found.size or self._borrowed_counts:
            return found
        lending = lenders(self._snapshot)
        return np.concatenate([self._order((Region.EED, Region.EED), each & lending) for each in groups])

    def _order(
        self, regions: tuple[Region, Region], allowed: Flags, classes: tuple[int, ...] = (1, 2, 3, 4)
    ) -> Rows:
        """Candidates by region, then class, then use: the fullest first, where work suffers the emptiest."""
        nodes = self._snapshot.nodes
        steps = np.full((len(Region), LAXEST_CLASS + 1), _NOT_LOOKED_AT)
        for number, (region, of_class) in enumerate(product(regions, classes)):
            steps[region, of_class] = min(number, steps[region, of_class])
        steps[:, 0] = steps[:, LAXEST_CLASS]  # A node without tasks comes with the laxest of its region.
        step = steps[nodes.region, nodes.strictest_class]
        rows = np.flatnonzero(self._candidates & allowed & (step != _NOT_LOOKED_AT))
        used = nodes.utilisation[rows]
        rows = rows[rising(np.where(nodes.region[rows] == Region.EED, used, -used))]
        return rows[np.argsort(step[rows], kind="stable")]

    # --- Cutting --------------------------------------------------------------------------------

    @property
    def _cuttable(self) -> Floats:
        """What all tasks of laxer classes together can give, per node."""
        rows = self._laxer()
        wanted_class = self._request.task_class
        return self._snapshot.cached(("cuttable", wanted_class), lambda: self._sum(rows, self._gives(rows)))

    def _laxer(self) -> Rows:
        tasks, wanted_class = self._snapshot.tasks, self._request.task_class
        return self._snapshot.cached(
            ("laxer", wanted_class),
            lambda: np.flatnonzero((tasks.task_class > wanted_class) & (tasks.node != NOWHERE)),
        )

    @property
    def _peers_give(self) -> Floats:
        """The same of its own class too: on a node that is stricter than both, either can be cut."""
        rows = self._peers()
        wanted_class = self._request.task_class
        return self._snapshot.cached(("peers", wanted_class), lambda: self._sum(rows, self._gives(rows)))

    def _peers(self) -> Rows:
        tasks, strictest = self._snapshot.tasks, self._snapshot.nodes.strictest_class
        rows = np.flatnonzero((tasks.task_class >= self._request.task_class) & (tasks.node != NOWHERE))
        return rows[strictest[tasks.node[rows]] < self._request.task_class]

    def _gives(self, rows: Rows) -> Floats:
        """What each task can give, until only what its class tolerates on its node is left.

        Its node is as strict as its strictest task, which may be the request.
        """
        tasks = self._snapshot.tasks
        strictest = np.minimum(
            self._snapshot.nodes.strictest_class[tasks.node[rows]], self._request.task_class
        )
        share = 1 - (TOLERANCES[tasks.task_class[rows]] - TOLERANCES[strictest])
        least = originals(tasks, rows) * share[:, None]
        gives: Floats = np.clip(allocations(tasks, rows) - least, 0.0, None)
        return gives

    def _sum(self, rows: Rows, amounts: Floats) -> Floats:
        on, count = self._snapshot.tasks.node[rows], len(self._snapshot.nodes.names)
        columns = [np.bincount(on, weights=amounts[:, place], minlength=count) for place in range(PROMISED)]
        return np.array(columns, dtype=np.float64).T

    def _fits_with(self, freed: Floats) -> Flags:
        books = self._books
        enough = (self._more <= books.capacity).all(axis=1)
        factor = ((books.promised - freed + self._more) / books.capacity).max(axis=1)
        fits: Flags = enough & (factor <= self._limit + ROUNDING) & freed.any(axis=1)
        return fits

    def _victims_first(self, rows: Rows) -> Rows:
        """The laxest classes first, in each the least used first."""
        tasks = self._snapshot.tasks
        allocated = allocations(tasks, rows)
        used = np.nan_to_num(tasks.used[rows, :PROMISED], nan=0.0)
        use = np.divide(used, allocated, out=np.zeros_like(used), where=allocated > 0).max(
            axis=1, initial=0.0
        )
        return np.lexsort((rows, use, -tasks.task_class[rows]))

    def _cuts(self, row: int, among: Rows, wanted: Floats, limit: float) -> tuple[Action, ...]:
        """What to cut on a node on which that is enough: one task after the other, until the request fits."""
        tasks, nodes = self._snapshot.tasks, self._snapshot.nodes
        rows = among[tasks.node[among] == row]
        gives = self._gives(rows)
        freed = np.zeros(PROMISED)
        cuts: list[Action] = []
        for place in self._victims_first(rows):
            factor = ((self._books.promised[row] - freed + wanted) / self._books.capacity[row]).max()
            if factor <= limit + ROUNDING:
                break
            if not gives[place].any():
                continue
            freed += gives[place]
            task = int(rows[place])
            left = allocations(tasks, rows)[place] - gives[place]
            of_class = int(tasks.task_class[task])
            reason = f"class {of_class} tolerates {TOLERANCES[of_class]:.0%} less in favour of others"
            cuts.append(
                Cut(
                    task=tasks.ids[task],
                    name=tasks.names[task],
                    node=nodes.names[row],
                    allocated=quantities(left),
                    reasons=(reason,),
                )
            )
        return tuple(cuts)

    # --- Killing --------------------------------------------------------------------------------

    def _may_be_killed(self, rows: Rows) -> Rows:
        """Those of some tasks that give way to the request."""
        tasks, request = self._snapshot.tasks, self._request
        if request.task_class != LAXEST_CLASS:
            return rows[(tasks.task_class[rows] > request.task_class) & tasks.movable[rows]]
        # Nothing is laxer; but services of this class use little of what they hold, and jobs use all of it.
        if request.kind is not TaskKind.JOB:
            return rows[:0]
        services: Flags = (tasks.task_class[rows] == LAXEST_CLASS) & (tasks.kind[rows] == TaskKind.SERVICE)
        return rows[services & tasks.movable[rows]]

    @property
    def _killable(self) -> Floats:
        """What they hold together, per node."""

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
            books = self._books.without(row, victims)
            if books.fits_on(row, self._more, self._limit):
                break
        else:
            return None
        books.add(row, self._more, self._request.task_class, self._limit)
        actions: list[Action] = []
        for victim in victims:
            target = self._place_for(victim, books, row)
            if target is None and not may_wait:
                return None
            reason = f"class {tasks.task_class[victim]} gives way to class {self._request.task_class}"
            actions.append(
                Kill(
                    task=tasks.ids[victim],
                    name=tasks.names[victim],
                    node=nodes.names[row],
                    target=None if target is None else nodes.names[target],
                    reasons=(reason, "it starts anew with all that it asked for at first"),
                )
            )
        return tuple(actions)

    def _place_for(self, victim: int, books: Books, not_on: int) -> int | None:
        """Where a task that is to be ended fits as it first was; its place is taken in the books."""
        tasks = self._snapshot.tasks
        elsewhere = self._candidates.copy()
        elsewhere[not_on] = False
        task_class = int(tasks.task_class[victim])
        wanted = Request(reserve=quantities(originals(tasks, np.array([victim]))[0]), task_class=task_class)
        found = Search(
            self._snapshot, wanted, books, elsewhere, borrowed_counts=self._borrowed_counts
        ).as_it_is()
        if found is not None:
            books.add(found, asked(wanted), task_class, LIMITS[task_class])
        return found

    # --- Reasons --------------------------------------------------------------------------------

    def explain(self, found: Candidate) -> tuple[str, ...]:
        """Why this node."""
        row, first, own = found.row, found.first(), found.gets
        nodes = self._snapshot.nodes
        of_class = int(nodes.strictest_class[row])
        region, use = Region(nodes.region[row]).name, nodes.utilisation[row]
        host = f"a class-{of_class} node" if of_class else "a node without tasks"
        reasons = [f"{host} in the region {region}: its most used resource is at {use:.0%}"]
        if own is not None:
            reasons.append(
                f"the request itself is cut by {1 - (own / self._more).max():.0%}, as its class tolerates"
            )
        if first:
            verb = "ended" if isinstance(first[0], Kill) else "cut"
            whose = "of its class or laxer" if own is not None else "of laxer classes"
            reasons.append(f"{len(first)} tasks {whose} are {verb} for it")
        else:
            factor = self._books.factor(self._more if own is None else own, np.array([row]))[0]
            allowed = min(self._limit, float(self._books.limit[row]))
            reasons.append(f"with it {factor:.2f} times its capacity is promised, of {allowed:.2f} allowed")
        return tuple(reasons)

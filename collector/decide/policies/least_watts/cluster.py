"""The nodes while `least-watts` makes a plan: where each task is, which nodes have room, what moves cost."""

from dataclasses import dataclass

import numpy as np

from collector.common.arrays import Flags, Floats, Rows
from collector.common.text import counted
from collector.decide.policies.least_watts.cost import Costs, with_margin
from collector.decide.policies.least_watts.margins import WINDOWS_PER_SHORTAGE, Margins, learn
from collector.decide.policies.least_watts.settings import LeastWattsSettings
from collector.decide.policies.least_watts.usage import Usage, node_sums, usable
from collector.decide.policies.planned import PlannedCluster
from collector.decide.policies.scoring import share_or_zero
from collector.decide.policies.stability import SYSTEM_LOAD_RATIO, keeps_awake, may_wake
from collector.snapshot.columns import MEMORY, coalesce, sum_by_node
from collector.snapshot.tables import NOWHERE, Snapshot
from wire.resources import RESOURCES

FULL_RATIO = 0.99
"""Share of its capacity above which a node counts as short now. Use never exceeds the capacity, and agents
round to the ticks of the kernel: two of 100 a second."""
_RELIEVED_RATIO = 0.9
"""Share of the cases in which a container takes all of the excess along: a second move costs more than a
larger container."""
_MOST_TRIED = 8
"""Containers that are tried for a relief, those that take most of the risk along first."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A node for a task."""

    node: int
    added_watts: float
    of: int
    """Number of nodes that had room."""
    is_safest: bool
    """Whether it has the lowest risk of them; otherwise the task adds the fewest watts there."""

    def why(self) -> str:
        """Describe the added power, and why this node is chosen."""
        room = f"{counted(self.of, 'node')} with room"
        added = "" if np.isnan(self.added_watts) else f"adds {self.added_watts:.1f} W there, "
        if self.is_safest:
            return f"{added}the lowest risk of {room}"
        return f"{added}the fewest of {room}" if added else f"first of {room}; none has a power curve"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliefMove:
    """A move off a short node, to a node in use."""

    task: int
    choice: Choice
    has_room: bool
    """Whether the risk of the other node stays within the accepted one."""
    helps: bool
    """Whether both nodes together are short less often then."""


class LeastWattsCluster:
    """The nodes while a plan is made: their load, their risk, and what a task costs there."""

    def __init__(self, snapshot: Snapshot, settings: LeastWattsSettings) -> None:
        self.snapshot, self.settings = snapshot, settings
        self.planned = PlannedCluster(snapshot, settings)
        nodes, tasks = snapshot.nodes, snapshot.tasks
        self.count = len(nodes.names)
        usage, margins = learn(snapshot, settings)
        self.usage: Usage = usage
        self.margins: Margins = margins
        self.used = coalesce(tasks.used, tasks.mean)
        of_tasks = sum_by_node(tasks.node, self.used, self.count)
        self.load = np.fmax(of_tasks, nodes.used)
        other = self.load - of_tasks
        expected, variance = node_sums(snapshot, usage)
        self.variance = variance.copy()
        self.expected = expected + np.where(other > nodes.capacity * SYSTEM_LOAD_RATIO, other, 0.0)
        self.tasks = np.bincount(tasks.node[keeps_awake(snapshot)], minlength=self.count)
        self.limit: Floats = usable(snapshot, usage)
        self.bounds: Floats = settings.short_ratios * WINDOWS_PER_SHORTAGE
        """The risk up to which a node receives containers, per resource."""
        self.costs = Costs(snapshot, margins.deviations)
        self.asleep: Flags = may_wake(snapshot)
        calm = self.planned.may_receive & ~nodes.has_bottleneck
        self.awake: Flags = calm & (self.tasks > 0)
        """Nodes in use without an open alert."""
        self.spare: Flags = self.asleep | (calm & (self.tasks == 0))
        """Nodes that are off, or empty and could be: used only if no other node has room."""
        self.planned.follow(self.used, self.load)
        self.planned.follow(usage.expected, self.expected)
        self.planned.follow(usage.variance, self.variance)
        self.planned.follow(np.ones(len(tasks.ids), dtype=self.tasks.dtype), self.tasks)

    # --- Risk -------------------------------------------------------------------------------

    def risk(self, rows: Rows, task: int | None = None) -> Floats:
        """The share of the windows in which nodes will be short, with a task or without, per resource."""
        expected, variance = self.expected[rows], self.variance[rows]
        if task is not None:
            expected = expected + self.usage.expected[task]
            variance = variance + self.usage.variance[task]
        return self._risk(expected, variance, self.limit[rows])

    def risk_without(self, node: int, tasks: Rows) -> Floats:
        """The same for one node: a row for each of some of its tasks, without that task."""
        return self._risk(
            self.expected[node] - self.usage.expected[tasks],
            self.variance[node] - self.usage.variance[tasks],
            np.broadcast_to(self.limit[node], (tasks.size, len(RESOURCES))),
        )

    def _risk(self, expected: Floats, variance: Floats, limit: Floats) -> Floats:
        """What the margins predict. Memory does not come and go: envelopes fit, or they do not."""
        risk = np.zeros((len(expected), len(RESOURCES)))
        for place in range(len(RESOURCES)):
            if not self.usage.constrains[place]:
                continue
            room = limit[:, place] - expected[:, place]
            if place == MEMORY:
                predicted = np.less(room, 0.0).astype(np.float64)
            else:
                predicted = self.margins.share_short(place, room, variance[:, place])
            risk[:, place] = np.where(np.isnan(room), 0.0, predicted)
        return risk

    def is_short(self, rows: Rows) -> Flags:
        """The nodes that use all of a resource now, or nearly all."""
        short: Flags = np.any(self.load[rows] > self.limit[rows] * FULL_RATIO, axis=1)
        return short

    def stays_short(self, rows: Rows) -> Flags:
        """The nodes that are short in this window and were in the last one, whatever the margins predict."""
        short = np.all(self.snapshot.nodes.history[rows, -2:] > FULL_RATIO, axis=1)
        again: Flags = np.any(short & self.usage.constrains, axis=1)
        return again

    def excess(self, node: int) -> Floats:
        """What a short node wants now above its capacity, per resource, in nine of ten cases.

        A full node hides how much more it wants: the margins state how far such an excess goes.
        """
        excess = np.zeros(len(RESOURCES))
        for place in np.flatnonzero(self.load[node] > self.limit[node] * FULL_RATIO):
            excess[place] = self.load[node, place] - self.limit[node, place] * FULL_RATIO
            deviation = float(np.sqrt(self.variance[node, place] * self.margins.together[place]))
            if place == MEMORY or not deviation:
                continue
            tail = self.margins.tails[place]
            room = (self.limit[node, place] - self.expected[node, place]) / deviation
            reach = tail.deviations(float(tail.share_above(np.array(room))) * (1.0 - _RELIEVED_RATIO))
            excess[place] += (reach - room) * deviation
        return excess

    # --- Choice -----------------------------------------------------------------------------

    def open_to(self, task: int, source: int, among: Flags) -> Rows:
        """Those of some nodes that a task may go to, whatever room they have."""
        allowed = among & self._apart(task, source) & self.planned.open_to(task)
        allowed[source] = False
        return np.flatnonzero(allowed)

    def _apart(self, task: int, source: int) -> Flags:
        """Where a task shares a failure domain with no more of its service than now."""
        tasks, domain = self.snapshot.tasks, self.snapshot.nodes.domain
        service = tasks.service[task]
        if service == NOWHERE:
            return np.ones(self.count, dtype=np.bool_)
        siblings = self.snapshot.tasks_of(int(service))
        siblings = siblings[(siblings != task) & (self.planned.home[siblings] != NOWHERE)]
        if not siblings.size:
            return np.ones(self.count, dtype=np.bool_)
        fails_with = np.where(domain != NOWHERE, domain, np.arange(self.count) + domain.max() + 1)
        crowd = np.bincount(fails_with[self.planned.home[siblings]], minlength=int(fails_with.max()) + 1)[
            fails_with
        ]
        fewer: Flags = crowd <= crowd[source]
        return fewer

    def _fits_now(self, task: int, rows: Rows) -> Flags:
        """Where a task fits by what is expected and by what is used now."""
        limit = self.limit[rows]
        expected = share_or_zero(self.expected[rows] + self.usage.expected[task], limit)
        now = share_or_zero(self.load[rows] + self.used[task], limit)
        fits: Flags = np.all((expected <= 1.0) & (now <= FULL_RATIO), axis=1)
        return fits

    def surplus(self) -> int:
        """How many nodes in use could be empty, if the room of all of them were in one piece."""
        rows = np.flatnonzero(self.awake)
        variance = self.variance[rows] * self.margins.together
        need = share_or_zero(
            with_margin(self.expected[rows], variance, self.margins.deviations), self.limit[rows]
        )
        return max(int(np.floor((1.0 - need.max(axis=1)).sum())), 0)

    def safest(self, task: int, source: int, among: Flags) -> "Choice | None":
        """Where a task leaves the lowest risk, of those of some nodes that have room for it.

        All of them are on, whichever takes it: what differs is how soon it has to move again.
        """
        rows = self.open_to(task, source, among)
        rows = rows[self._fits_now(task, rows)]
        risk = self.risk(rows, task)
        accepted = self._is_accepted(risk)
        rows, risk = rows[accepted], risk[accepted].max(axis=1)
        return self._cheapest(task, rows[risk == risk.min(initial=np.inf)], of=rows.size)

    def why_nowhere(self, task: int, source: int, among: Flags) -> str:
        """Return why `safest` finds no node for a task: what those of some nodes lack."""
        name, some = self.snapshot.tasks.names[task], among.copy()
        some[source] = False
        open_to = self.open_to(task, source, among)
        fits = open_to[self._fits_now(task, open_to)]
        count = int(some.sum())
        lacks = (
            (
                count - open_to.size,
                "closed to it by reservations, constraints, its last move or its replicas",
            ),
            (open_to.size - fits.size, "without room for what it uses"),
            (fits.size, "short too often with it"),
        )
        found = ", ".join(f"{number} {why}" for number, why in lacks if number)
        others = f"{counted(count, 'other node')} in use that need not be emptied"
        return f"{name} finds no place on {others}" + (f": {found}" if found else "")

    def _is_accepted(self, risk: Floats) -> Flags:
        accepted: Flags = np.all(risk <= self.bounds, axis=1)
        return accepted

    def relief(self, node: int, tasks: Rows) -> "ReliefMove | None":
        """The task and the node in use that leave both nodes safest.

        The task takes the excess of the node along, if any single one does.
        """
        excess = self.excess(node)
        enough = tasks[np.all(self.used[tasks] >= excess, axis=1)]
        if not enough.size:
            share_of_excess = share_or_zero(self.used[tasks], np.where(excess > 0, excess, np.nan)).sum(
                axis=1
            )
            enough = tasks[[int(np.argmax(share_of_excess))]]
        without = self.risk_without(node, enough).max(axis=1)
        here = float(self.risk(np.array([node])).max())
        best: tuple[float, ReliefMove] | None = None
        for at in np.argsort(without, kind="stable")[:_MOST_TRIED]:
            task = int(enough[at])
            rows = self.open_to(task, node, self.awake)
            rows = rows[self._fits_now(task, rows)]
            if not rows.size:
                continue
            risk = self.risk(rows, task)
            place = int(risk.max(axis=1).argmin())
            both = float(risk[place].max() + without[at])
            if best is None or both < best[0]:
                target = rows[[place]]
                choice = self._cheapest(task, target, of=rows.size)
                assert choice is not None
                best = (
                    both,
                    ReliefMove(
                        task=task,
                        choice=choice,
                        has_room=bool(self._is_accepted(risk[[place]])[0]),
                        helps=both < here + float(self.risk(target).max()),
                    ),
                )
        return None if best is None else best[1]

    def woken(self, task: int, source: int) -> "Choice | None":
        """The node to switch on for a task."""
        rows = self.open_to(task, source, self.spare)
        fits = np.all(~(self.snapshot.nodes.capacity[rows] < self.used[task]), axis=1)
        return self._cheapest(task, rows[fits])

    def _cheapest(self, task: int, rows: Rows, of: int | None = None) -> "Choice | None":
        """Where a task costs the fewest watts; `rows` are the safest of so many nodes, if that is given."""
        if not rows.size:
            return None
        expected, variance = self.expected[rows], self.variance[rows] * self.margins.together
        carried = self.costs.carried(expected, variance, rows)
        expected = expected + self.usage.expected[task]
        variance = variance + self.usage.variance[task] * self.margins.together
        need = with_margin(expected, variance, self.margins.deviations)
        cost, added = self.costs.of(rows, carried, expected, need, self.spare[rows])
        first = int(np.argmin(cost))
        return Choice(
            int(rows[first]),
            float(added[first]),
            of=rows.size if of is None else of,
            is_safest=of is not None,
        )

    def watts(self) -> Floats:
        """The power of each node by its expected use; 0 where nothing runs."""
        nodes = self.snapshot.nodes
        drawn = np.nan_to_num(nodes.power.watts(share_or_zero(self.expected, nodes.capacity)), nan=0.0)
        return np.where(self.tasks > 0, drawn, 0.0)

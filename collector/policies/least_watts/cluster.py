"""The nodes while `least-watts` makes a plan: who is where, who has room, where a task does least harm."""

from dataclasses import dataclass

import numpy as np

from collector.policies.least_watts.cost import Costs, LeastWattsSettings, promise_room, share
from collector.policies.least_watts.risk import Bounds, bounds, overload_risk
from collector.policies.outlook import CPU, Forecast, forecast, needed, sway
from collector.policies.stability import Moves, keeps_awake
from collector.snapshot.columns import best_guess, sum_by_node
from collector.snapshot.power_curves import Floats, Rows
from collector.snapshot.tables import NOWHERE, Flags, Snapshot

_RECEIVES_RATIO = 0.95
"""Of what is overload: a node that is fuller by what it uses now is given nothing."""
_NOT_CPU = np.array([0.0, 1.0, 1.0, 1.0])
"""How sure the CPU must be is asked by its risk of overload, which knows more than variances do."""
_DEVIATIONS_IN_NEED = 0.5
"""Of those that the confidence asks for: relief must not wake a node without need."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A node for a task."""

    node: int
    added_watts: float
    of: int
    """So many nodes had room."""

    def why(self) -> str:
        """What it costs there."""
        if np.isnan(self.added_watts):
            return f"the first of {self.of} nodes with room; none of them has told what it draws"
        return f"adds {self.added_watts:.1f} W there; {self.of} nodes have room"


class PlannedCluster:
    """The nodes while a plan is made: tasks leave and come, nothing is carried out yet."""

    def __init__(self, snapshot: Snapshot, settings: LeastWattsSettings) -> None:
        self.snapshot, self.settings = snapshot, settings
        self.moves = Moves(snapshot, settings)
        nodes, tasks = snapshot.nodes, snapshot.tasks
        self.count = len(nodes.names)
        self.forecast: Forecast = forecast(snapshot)
        self.used = best_guess(tasks.used, tasks.mean)
        self.where = tasks.node.copy()
        self.load = sum_by_node(self.where, self.used, self.count)
        self.expected = sum_by_node(self.where, self.forecast.expected, self.count)
        self.variance = sum_by_node(self.where, self.forecast.variance, self.count)
        self.promised = np.nan_to_num(tasks.allocated, nan=0.0)
        self.allocated = sum_by_node(self.where, self.promised, self.count)
        self.history = sum_by_node(self.where, self.forecast.history, self.count)
        self.tasks = np.bincount(self.where[keeps_awake(snapshot)], minlength=self.count)
        self.spread = settings.deviations * _NOT_CPU
        self.bounds: Bounds = bounds(snapshot, settings)
        self.limit: Floats = nodes.capacity[:, CPU] * settings.relieve_ratio
        """More CPU than this is overload."""
        self.costs = Costs(snapshot, settings.deviations)
        self.asleep: Flags = ~nodes.on & nodes.accepts & ~np.isnan(nodes.capacity[:, CPU])
        self.awake: Flags = self.moves.may_receive & (self.tasks > 0)
        self.spare: Flags = self.asleep | (self.moves.may_receive & (self.tasks == 0))
        """Draw nothing, or could: to be used only when no other will do."""

    def put(self, task: int, node: int) -> None:
        """Think of a task as being elsewhere."""
        for row, sign in ((int(self.where[task]), -1), (node, 1)):
            self.load[row] += sign * self.used[task]
            self.allocated[row] += sign * self.promised[task]
            self.expected[row] += sign * self.forecast.expected[task]
            self.variance[row] += sign * self.forecast.variance[task]
            self.history[row] += sign * self.forecast.history[task]
            self.tasks[row] += sign
        self.where[task] = node

    def open_to(self, task: int, source: int, among: Flags) -> Rows:
        """Those of some nodes that a task may go to, room apart."""
        allowed = among & self._apart(task, source)
        allowed[source] = False
        if self.moves.barred[task] != NOWHERE:
            allowed[self.moves.barred[task]] = False
        return np.flatnonzero(allowed)

    def _apart(self, task: int, source: int) -> Flags:
        """Where a task shares a failure domain with no more of its service than now."""
        tasks, domain = self.snapshot.tasks, self.snapshot.nodes.domain
        service = tasks.service[task]
        if service == NOWHERE:
            return np.ones(self.count, dtype=np.bool_)
        siblings = self.snapshot.tasks_of(int(service))
        siblings = siblings[(siblings != task) & (self.where[siblings] != NOWHERE)]
        if not siblings.size:
            return np.ones(self.count, dtype=np.bool_)
        fails_with = np.where(domain != NOWHERE, domain, np.arange(self.count) + domain.max() + 1)
        crowd = np.bincount(fails_with[self.where[siblings]], minlength=int(fails_with.max()) + 1)[fails_with]
        fewer: Flags = crowd <= crowd[source]
        return fewer

    def cheapest(self, task: int, source: int) -> "Choice | None":
        """Where a task costs the fewest watts among the nodes in use that can bear it for good."""
        rows = self._with_room(task, source, deviations=1.0)
        return self._cheapest(task, rows[self._risk_with(task, rows) <= self.bounds.for_good])

    def safest(self, task: int, source: int) -> "Choice | None":
        """Where a task makes overload least likely among the nodes in use, if that can be borne there."""
        rows = self._with_room(task, source, deviations=_DEVIATIONS_IN_NEED)
        risk = self._risk_with(task, rows)
        if not rows.size or risk.min() > self.bounds.in_need:
            return None
        return self._cheapest(task, rows[[risk.argmin()]], of=rows.size)

    def woken(self, task: int, source: int) -> "Choice | None":
        """The node to be woken for a task."""
        rows = self._may_promise(task, self.open_to(task, source, self.spare))
        fits = np.all(~(self.snapshot.nodes.capacity[rows] < self.used[task]), axis=1)
        return self._cheapest(task, rows[fits])

    def _may_promise(self, task: int, rows: Rows) -> Rows:
        """Those nodes that what the task was promised may be promised of."""
        if self.settings.overbooks:
            return rows
        nodes, task_class = self.snapshot.nodes, int(self.snapshot.tasks.task_class[task])
        room = promise_room(
            nodes.capacity[rows], self.allocated[rows], nodes.strictest_class[rows], task_class
        )
        wanted = self.promised[task]
        kept: Rows = rows[~((room < wanted) & (wanted > 0)).any(axis=1)]
        return kept

    def _with_room(self, task: int, source: int, *, deviations: float) -> Rows:
        """The nodes in use where a task fits by what is expected, and by what is used now."""
        rows = self._may_promise(task, self.open_to(task, source, self.awake))
        capacity = self.snapshot.nodes.capacity[rows]
        need = needed(
            self.expected[rows] + self.forecast.expected[task],
            (self.variance[rows] + self.forecast.variance[task])
            * sway(self.tasks[rows] + 1, self.settings.correlation),
            self.spread * deviations,
        )
        now = share(self.load[rows] + self.used[task], capacity)
        fits = (share(need, capacity) <= self.settings.fill_ratio).all(axis=1)
        fits &= (now <= _RECEIVES_RATIO * self.settings.relieve_ratio).all(axis=1)
        kept: Rows = rows[fits]
        return kept

    def _risk_with(self, task: int, rows: Rows) -> Floats:
        """How often each of these would be overloaded with a task."""
        together = self.variance[rows, CPU] + self.forecast.variance[task, CPU]
        return overload_risk(
            self.expected[rows, CPU] + self.forecast.expected[task, CPU],
            together * sway(self.tasks[rows] + 1, self.settings.correlation)[:, 0],
            self.limit[rows],
            self.history[rows] + self.forecast.history[task],
        )

    def risk_again(self) -> Floats:
        """How often each node will be overloaded, what is now apart."""
        return overload_risk(
            self.expected[:, CPU],
            self.variance[:, CPU] * sway(self.tasks, self.settings.correlation)[:, 0],
            self.limit,
            self.history,
            without_newest=True,
        )

    def windows_without(self, tasks: Rows, node: int) -> Rows:
        """In how many windows of late a node would have been overloaded without each of some tasks."""
        without = self.history[node] - self.forecast.history[tasks]
        windows: Rows = np.count_nonzero(without > self.limit[node], axis=1)
        return windows

    def _cheapest(self, task: int, rows: Rows, of: int | None = None) -> "Choice | None":
        if not rows.size:
            return None
        cost, added, _ = self.costs.of(
            rows,
            self.expected[rows],
            self.variance[rows],
            self.forecast.expected[task],
            self.forecast.variance[task],
            self.spare[rows],
        )
        first = int(np.argmin(cost))
        return Choice(int(rows[first]), float(added[first]), rows.size if of is None else of)

    def watts(self) -> Floats:
        """What each node would draw by what is expected; nothing where nothing runs."""
        nodes = self.snapshot.nodes
        drawn = np.nan_to_num(nodes.power.watts(share(self.expected, nodes.capacity)), nan=0.0)
        return np.where(self.tasks > 0, drawn, 0.0)

    def leavers(self, node: int) -> Rows:
        """The tasks on a node that may leave it."""
        return np.flatnonzero((self.where == node) & self.moves.may_leave)

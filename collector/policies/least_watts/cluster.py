"""The nodes while `least-watts` makes a plan: where each task is, which nodes have room, what moves cost."""

from dataclasses import dataclass

import numpy as np

from collector.common.text import counted
from collector.policies.least_watts.cost import Costs, promise_room, share
from collector.policies.least_watts.margins import Margins
from collector.policies.least_watts.outlook import learned
from collector.policies.least_watts.settings import LeastWattsSettings
from collector.policies.least_watts.usage import Usage, node_sums, node_windows
from collector.policies.outlook import MEMORY
from collector.policies.stability import Moves, keeps_awake, may_wake
from collector.snapshot.columns import best_guess, sum_by_node
from collector.snapshot.power_curves import Floats, Rows
from collector.snapshot.tables import NOWHERE, Flags, Snapshot
from wire.resources import RESOURCES

SHORT_RATIO = 0.95
"""A node is short in a window whose mean use is above this share of its capacity: use cannot exceed the
capacity, so a mean this near to it includes time at the ceiling."""
_BOUND_FACTOR = 2.0
"""The estimate of one node may be this many times the accepted share: nodes fill up in whole containers and
most stay below their bound, about half of it on average, and the accepted share is meant of all."""
_TAIL_WINDOWS = 15.0
"""Weight of the cluster's common distribution beside the windows of the node itself."""
_RATES = np.array([place for place in range(len(RESOURCES)) if place != MEMORY])
"""The resources that vary from window to window. Memory does not come and go: envelopes add up."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A node for a task."""

    node: int
    added_watts: float
    of: int
    """Number of nodes that had room."""

    def why(self) -> str:
        """What it costs there."""
        room = f"{counted(self.of, 'node')} with room"
        if np.isnan(self.added_watts):
            return f"first of {room}; none has a power curve"
        return f"adds {self.added_watts:.1f} W there, the fewest of {room}"


class PlannedCluster:
    """The nodes while a plan is made: tasks leave and come, nothing is carried out yet."""

    def __init__(self, snapshot: Snapshot, settings: LeastWattsSettings) -> None:
        self.snapshot, self.settings = snapshot, settings
        self.moves = Moves(snapshot, settings)
        nodes, tasks = snapshot.nodes, snapshot.tasks
        self.count = len(nodes.names)
        usage, margins = learned(snapshot, settings)
        self.usage: Usage = usage
        self.margins: Margins = margins
        self.where = tasks.node.copy()
        self.used = best_guess(tasks.used, tasks.mean)
        self.load = sum_by_node(self.where, self.used, self.count)
        self.expected, self.variance = node_sums(snapshot, usage)
        self.windows = node_windows(snapshot, usage)
        self.promised = np.nan_to_num(tasks.allocated, nan=0.0)
        self.allocated = sum_by_node(self.where, self.promised, self.count)
        self.tasks = np.bincount(self.where[keeps_awake(snapshot)], minlength=self.count)
        self.limit: Floats = np.where(nodes.capacity > 0, nodes.capacity * SHORT_RATIO, np.nan)
        self.limit[:, ~usage.constrains] = np.nan
        self.bounds: Floats = settings.short_ratios * _BOUND_FACTOR
        self.costs = Costs(snapshot, margins.deviations)
        self.asleep: Flags = may_wake(snapshot)
        calm = self.moves.may_receive & ~nodes.has_bottleneck
        self.awake: Flags = calm & (self.tasks > 0)
        """In use, and without an open alert."""
        self.spare: Flags = self.asleep | (calm & (self.tasks == 0))
        """Draw nothing, or could: used only when no other node has room."""

    def put(self, task: int, node: int) -> None:
        """Plan a task on another node."""
        usage = self.usage
        for row, sign in ((int(self.where[task]), -1), (node, 1)):
            self.load[row] += sign * self.used[task]
            self.allocated[row] += sign * self.promised[task]
            self.expected[row] += sign * usage.expected[task]
            self.variance[row] += sign * usage.variance[task]
            self.windows[row] += sign * usage.windows[task]
            self.tasks[row] += sign
        self.where[task] = node

    # --- Risk -------------------------------------------------------------------------------

    def risk(self, rows: Rows, task: int | None = None) -> Floats:
        """The share of the time that nodes will be short, with a task or without, per varying resource."""
        expected, variance, windows = self.expected[rows], self.variance[rows], self.windows[rows]
        if task is not None:
            expected = expected + self.usage.expected[task]
            variance = variance + self.usage.variance[task]
            windows = windows + self.usage.windows[task]
        return self._risk(expected, variance, windows, self.limit[rows])

    def risk_without(self, node: int, tasks: Rows) -> Floats:
        """The same of one node without each of some of its tasks."""
        usage = self.usage
        return self._risk(
            self.expected[node] - usage.expected[tasks],
            self.variance[node] - usage.variance[tasks],
            self.windows[node] - usage.windows[tasks],
            np.broadcast_to(self.limit[node], (tasks.size, len(RESOURCES))),
        )

    def _risk(self, expected: Floats, variance: Floats, windows: Floats, limit: Floats) -> Floats:
        """The windows above the limit, and the share of the time that the cluster's margins predict."""
        risk = np.zeros((len(expected), _RATES.size))
        for column, place in enumerate(_RATES):
            if not self.usage.constrains[place]:
                continue
            room = limit[:, place] - expected[:, place]
            deviation = np.sqrt(np.maximum(variance[:, place], 0.0) * self.margins.together[place])
            with np.errstate(divide="ignore", invalid="ignore"):
                predicted = self.margins.tails[place].share_above(np.nan_to_num(room / deviation, nan=0.0))
            above = np.count_nonzero(windows[:, :, place] > limit[:, place, None], axis=1)
            share_short = (above + _TAIL_WINDOWS * predicted) / (self.usage.length + _TAIL_WINDOWS)
            risk[:, column] = np.where(np.isnan(limit[:, place]), 0.0, share_short)
        return risk

    def observed_short(self, rows: Rows) -> Flags:
        """The nodes whose present tasks exceeded the limit in any window."""
        limit = self.limit[rows][:, None, _RATES]
        short: Flags = np.any(self.windows[rows][:, :, _RATES] > limit, axis=(1, 2))
        return short

    # --- Choice -----------------------------------------------------------------------------

    def open_to(self, task: int, source: int, among: Flags) -> Rows:
        """Those of some nodes that a task may go to, whatever room they have."""
        allowed = among & self._apart(task, source)
        allowed[source] = False
        if self.moves.barred[task] != NOWHERE:
            allowed[self.moves.barred[task]] = False
        return self._may_promise(task, np.flatnonzero(allowed))

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

    def _may_promise(self, task: int, rows: Rows) -> Rows:
        """Those nodes that can still promise what the task was promised."""
        if self.settings.overbooks:
            return rows
        nodes, task_class = self.snapshot.nodes, int(self.snapshot.tasks.task_class[task])
        room = promise_room(
            nodes.capacity[rows], self.allocated[rows], nodes.strictest_class[rows], task_class
        )
        wanted = self.promised[task]
        kept: Rows = rows[~((room < wanted) & (wanted > 0)).any(axis=1)]
        return kept

    def _fits_now(self, task: int, rows: Rows) -> Flags:
        """Where a task fits by what is expected and by what is used now."""
        limit = self.limit[rows]
        expected = share(self.expected[rows] + self.usage.expected[task], limit)
        now = share(self.load[rows] + self.used[task], limit)
        fits: Flags = np.all(np.fmax(expected, now) <= 1.0, axis=1)
        return fits

    def cheapest(self, task: int, source: int) -> "Choice | None":
        """Where a task costs the fewest watts among the nodes in use that have room for it."""
        rows = self.open_to(task, source, self.awake)
        rows = rows[self._fits_now(task, rows)]
        return self._cheapest(task, rows[(self.risk(rows, task) <= self.bounds[_RATES]).all(axis=1)])

    def relief(self, node: int, tasks: Rows) -> "tuple[int, Choice, float] | None":
        """The task and the node in use that reduce the risk of both nodes most, and by how much."""
        here = float(self.risk(np.array([node])).max())
        without = self.risk_without(node, tasks).max(axis=1)
        best: tuple[int, int, float, int] | None = None
        for at in np.argsort(without, kind="stable"):
            task, gain = int(tasks[at]), here - float(without[at])
            if best is not None and gain <= best[2]:
                break
            rows = self.open_to(task, node, self.awake)
            rows = rows[self._fits_now(task, rows)]
            if not rows.size:
                continue
            more = self.risk(rows, task).max(axis=1) - self.risk(rows).max(axis=1)
            place = int(more.argmin())
            if best is None or gain - more[place] > best[2]:
                best = task, int(rows[place]), gain - float(more[place]), rows.size
        if best is None:
            return None
        task, target, gain, of = best
        choice = self._cheapest(task, np.array([target]), of=of)
        assert choice is not None
        return task, choice, gain

    def woken(self, task: int, source: int) -> "Choice | None":
        """The node to switch on for a task."""
        rows = self.open_to(task, source, self.spare)
        fits = np.all(~(self.snapshot.nodes.capacity[rows] < self.used[task]), axis=1)
        return self._cheapest(task, rows[fits])

    def _cheapest(self, task: int, rows: Rows, of: int | None = None) -> "Choice | None":
        if not rows.size:
            return None
        cost, added, _ = self.costs.of(
            rows,
            self.expected[rows],
            self.variance[rows] * self.margins.together,
            self.usage.expected[task],
            self.usage.variance[task] * self.margins.together,
            self.spare[rows],
        )
        first = int(np.argmin(cost))
        return Choice(int(rows[first]), float(added[first]), rows.size if of is None else of)

    def watts(self) -> Floats:
        """The power of each node by its expected use; 0 where nothing runs."""
        nodes = self.snapshot.nodes
        drawn = np.nan_to_num(nodes.power.watts(share(self.expected, nodes.capacity)), nan=0.0)
        return np.where(self.tasks > 0, drawn, 0.0)

    def leavers(self, node: int) -> Rows:
        """The tasks on a node that may leave it."""
        return np.flatnonzero((self.where == node) & self.moves.may_leave)

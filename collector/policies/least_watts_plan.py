"""What `least-watts` moves: relieve what will not pass by itself, and empty one node at a time, for good.

Few moves are the aim: each disturbs somebody. So a node is relieved when more is wanted of it than it has and
that is expected to last; by one task, the smallest that suffices. And a node is emptied when that saves more
than the moves cost, the fewest tasks first, and only where the others would have borne it all along.
"""

from dataclasses import dataclass

import numpy as np

from collector.policies.interface import Plan, Power
from collector.policies.least_watts_cost import Costs, Settings, promise_room, share
from collector.policies.outlook import CPU, Forecast, forecast, needed, sway
from collector.policies.stability import Moves, keeps_awake, may_sleep, move_joules
from collector.snapshot.assembling import best_guess, sum_by_node
from collector.snapshot.power import Floats, Rows
from collector.snapshot.tables import NOWHERE, Flags, Snapshot

_LASTS = 0.71
"""How much of what exceeds the expected now is still there a while later."""
_RELIEVED_RATIO = 0.9
_MOST_RELIEVED = 5
_FULL_WINDOWS = 2
"""A node that was full for as many windows is not expected to get better by itself."""
_RECEIVES_RATIO = 0.85
"""A node that is fuller than this by what it uses now is given nothing."""
_BORNE_RATIO = 0.95
"""More than this was too much in a window of late."""
_TRIED = 12
"""So many nodes are tried for emptying in one plan, those with the fewest tasks first."""
_DAY_SECONDS = 86_400.0
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class _Bar:
    """How sure a fit must be."""

    deviations: float
    """Of those that the confidence asks for."""
    windows: float
    """The part of the windows of late in which the tasks may have wanted more together."""


_FOR_GOOD = _Bar(deviations=1.0, windows=0.0)
_IN_NEED = _Bar(deviations=0.5, windows=0.2)
"""Relief must not wake a node without need."""


class _Cluster:
    """The nodes while a plan is made: tasks leave and come, nothing is carried out yet."""

    def __init__(self, snapshot: Snapshot, settings: Settings) -> None:
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
        self.spread = settings.deviations
        self.costs = Costs(snapshot, self.spread)
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

    def best(self, task: int, source: int, bar: _Bar) -> "_Choice | None":
        """Where a task costs the fewest watts among the nodes in use that have room for it."""
        rows = self._with_room(task, self._may_promise(task, self.open_to(task, source, self.awake)), bar)
        return self._cheapest(task, rows)

    def woken(self, task: int, source: int) -> "_Choice | None":
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

    def _with_room(self, task: int, rows: Rows, bar: _Bar) -> Rows:
        capacity = self.snapshot.nodes.capacity[rows]
        fill = self.settings.fill_ratio
        need = needed(
            self.expected[rows] + self.forecast.expected[task],
            (self.variance[rows] + self.forecast.variance[task])
            * sway(self.tasks[rows] + 1, self.settings.correlation),
            self.spread * bar.deviations,
        )
        now = share(self.load[rows] + self.used[task], capacity)
        ok = (share(need, capacity) <= fill).all(axis=1) & (now <= _RECEIVES_RATIO).all(axis=1)
        rows, capacity = rows[ok], capacity[ok]
        windows = self.history.shape[1]
        if windows and rows.size:
            together = self.history[rows] + self.forecast.history[task]
            above = np.count_nonzero(together > _BORNE_RATIO * capacity[:, CPU, None], axis=1)
            rows = rows[above <= bar.windows * windows]
        return rows

    def _cheapest(self, task: int, rows: Rows) -> "_Choice | None":
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
        return _Choice(int(rows[first]), float(added[first]), rows.size)

    def watts(self) -> Floats:
        """What each node would draw by what is expected; nothing where nothing runs."""
        nodes = self.snapshot.nodes
        drawn = np.nan_to_num(nodes.power.watts(share(self.expected, nodes.capacity)), nan=0.0)
        return np.where(self.tasks > 0, drawn, 0.0)

    def leavers(self, node: int) -> Rows:
        """The tasks on a node that may leave it."""
        return np.flatnonzero((self.where == node) & self.moves.may_leave)


@dataclass(frozen=True, slots=True)
class _Choice:
    node: int
    added_watts: float
    of: int

    def why(self) -> str:
        """What it costs there."""
        if np.isnan(self.added_watts):
            return f"the first of {self.of} nodes with room; none of them has told what it draws"
        return f"adds {self.added_watts:.1f} W there; {self.of} nodes have room"


def rebalance(snapshot: Snapshot, settings: Settings) -> Plan:
    """Relieve the overloaded, then empty one node if that pays."""
    cluster = _Cluster(snapshot, settings)
    before = cluster.watts()
    _relieve(cluster)
    emptied = _empty_one(cluster)
    after, names = cluster.watts(), snapshot.nodes.names
    idle = np.flatnonzero((cluster.tasks == 0) & cluster.moves.may_receive & may_sleep(snapshot))
    wake = [
        Power(node=names[row], on=True, reasons=("no node that is on has room for what must be moved",))
        for row in np.flatnonzero((cluster.tasks > 0) & ~snapshot.nodes.on)
    ]
    wake += [
        Power(node=names[row], on=True, reasons=("a spare node is kept for what comes",))
        for row in np.flatnonzero(cluster.asleep & (cluster.tasks == 0))[
            : max(settings.spare_nodes - idle.size, 0)
        ]
    ]
    sleep = [
        Power(
            node=names[row],
            on=False,
            reasons=("it is emptied" if row == emptied else "nothing runs there",),
            gain_watts=float(before[row]),
        )
        for row in idle[settings.spare_nodes :]
    ]
    return Plan(
        actions=(*wake, *cluster.moves.actions, *sleep),
        left=tuple(cluster.moves.left),
        watts_before=float(before.sum()),
        watts_after=float(after.sum()),
    )


def _relieve(cluster: _Cluster) -> None:
    """Take from each node of which too much is wanted, now and to come."""
    limit, capacity = cluster.settings.relieve_ratio, cluster.snapshot.nodes.capacity
    lasting = _LASTS * cluster.load + (1 - _LASTS) * cluster.expected
    now = share(cluster.load, capacity)
    over = (now > limit) & ((share(lasting, capacity) > limit) | _stays_full(cluster.snapshot, now, limit))
    for node in np.flatnonzero(over.any(axis=1) & cluster.awake):
        resource = int(np.argmax(share(cluster.load[node], capacity[node])))
        for _ in range(_MOST_RELIEVED):
            taken = cluster.load[node, resource] / capacity[node, resource]
            if taken <= limit or cluster.moves.room <= 0:
                break
            if not _relieve_of_one(cluster, int(node), resource, taken):
                break


def _stays_full(snapshot: Snapshot, now: Floats, limit: float) -> Flags:
    """Where a node was full in the newest windows, and no more was seen of it than it has.

    A node cannot give more than it has: what was seen then says little of what is wanted.
    """
    windows = snapshot.nodes.history
    if windows.shape[1] < _FULL_WINDOWS:
        return np.zeros(now.shape, dtype=np.bool_)
    full: Flags = np.all(windows[:, -_FULL_WINDOWS:] > limit, axis=1) & (now <= 1 + _ROUNDING)
    return full


def _relieve_of_one(cluster: _Cluster, node: int, resource: int, taken: float) -> bool:
    tasks = cluster.leavers(node)
    if not tasks.size:
        return False
    snapshot = cluster.snapshot
    excess = cluster.load[node, resource] - _RELIEVED_RATIO * snapshot.nodes.capacity[node, resource]
    amounts = cluster.used[tasks, resource]
    enough = tasks[amounts >= excess]
    if enough.size:
        task = int(enough[np.argmin(cluster.forecast.expected[enough, resource])])
    else:
        task = int(tasks[np.argmax(amounts)])
    choice = cluster.best(task, node, _IN_NEED) or cluster.woken(task, node)
    if choice is None:
        cluster.moves.left.append(f"{snapshot.nodes.names[node]} is at {taken:.0%}, and no node has room")
        return False
    cluster.put(task, choice.node)
    cluster.awake[choice.node], cluster.spare[choice.node] = True, False
    cluster.moves.add(
        task,
        choice.node,
        (f"{snapshot.nodes.names[node]} is at {taken:.0%} and expected to stay above", choice.why()),
        cost_joules=float(move_joules(snapshot, np.array([task]))[0]),
    )
    return True


def _empty_one(cluster: _Cluster) -> int | None:
    """Empty the first node, by the number of its tasks, whose tasks all find a place and that pays."""
    settings, tasks = cluster.settings, cluster.snapshot.tasks
    lately = np.count_nonzero((tasks.came_from != NOWHERE) & (tasks.settled_seconds < _DAY_SECONDS))
    allowed = min(cluster.moves.room, settings.moves_per_day * len(tasks.ids) - lately)
    candidates = np.flatnonzero(cluster.awake & may_sleep(cluster.snapshot) & (cluster.tasks <= allowed))
    order = np.lexsort((cluster.expected[candidates, CPU], cluster.tasks[candidates]))
    for node in candidates[order][:_TRIED]:
        rows = cluster.leavers(int(node))
        if rows.size == cluster.tasks[node] and _emptied(cluster, int(node), rows):
            return int(node)
    return None


def _emptied(cluster: _Cluster, node: int, rows: Rows) -> bool:
    costs = move_joules(cluster.snapshot, rows) + cluster.settings.disturbance_joules
    before = cluster.watts()
    if not cluster.moves.pays(float(before[node]), float(costs.sum())):
        return False
    found: list[tuple[int, _Choice]] = []
    for task in rows[np.argsort(-cluster.forecast.expected[rows, CPU], kind="stable")]:
        choice = cluster.best(int(task), node, _FOR_GOOD)
        if choice is None:
            break
        cluster.put(int(task), choice.node)
        found.append((int(task), choice))
    gain = float(before.sum() - cluster.watts().sum())
    if len(found) < rows.size or not cluster.moves.pays(gain, float(costs.sum())):
        for task, _ in found:
            cluster.put(task, node)
        return False
    name = cluster.snapshot.nodes.names[node]
    for task, choice in found:
        cluster.moves.add(
            task,
            choice.node,
            (f"{name} is emptied: {gain:.0f} W less for {rows.size} moves", choice.why()),
            gain_watts=gain / rows.size,
            cost_joules=float(costs.mean()),
        )
    cluster.awake[node], cluster.spare[node] = False, True
    return True

"""What `least-watts` moves: relieve what will be overloaded again, and empty one node at a time, for good.

Few moves are the aim: each disturbs somebody. So a node is relieved when more is wanted of it than it has and
that is expected to come again; by one task, which takes most of that with it. And a node is emptied when
that saves more than the moves cost, the fewest tasks first, and only where the others can bear it for good.
"""

import numpy as np

from collector.policies.actions import PowerOff, PowerOn
from collector.policies.interface import Plan
from collector.policies.least_watts.cluster import Choice, PlannedCluster
from collector.policies.least_watts.cost import LeastWattsSettings, share
from collector.policies.least_watts.risk import DAY_SECONDS
from collector.policies.outlook import CPU
from collector.policies.stability import may_sleep, move_joules
from collector.snapshot.power_curves import Floats, Rows
from collector.snapshot.tables import NOWHERE, Flags, Snapshot

_RELIEVED_RATIO = 0.9
_MOST_RELIEVED = 5
_FULL_WINDOWS = 2
"""A node that was full for as many windows is not expected to get better by itself."""
_TRIED = 12
"""So many nodes are tried for emptying in one plan, those with the fewest tasks first."""
_ROUNDING = 1e-6


def rebalance(snapshot: Snapshot, settings: LeastWattsSettings) -> Plan:
    """Relieve the overloaded, then empty one node if that pays."""
    cluster = PlannedCluster(snapshot, settings)
    before = cluster.watts()
    _relieve(cluster)
    emptied = _empty_one(cluster)
    after, names = cluster.watts(), snapshot.nodes.names
    idle = np.flatnonzero((cluster.tasks == 0) & cluster.moves.may_receive & may_sleep(snapshot))
    wake = [
        PowerOn(node=names[row], reasons=("no node that is on has room for what must be moved",))
        for row in np.flatnonzero((cluster.tasks > 0) & ~snapshot.nodes.on)
    ]
    wake += [
        PowerOn(node=names[row], reasons=("a spare node is kept for what comes",))
        for row in np.flatnonzero(cluster.asleep & (cluster.tasks == 0))[
            : max(settings.spare_nodes - idle.size, 0)
        ]
    ]
    sleep = [
        PowerOff(
            node=names[row],
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


def _relieve(cluster: PlannedCluster) -> None:
    """Take from each node of which too much is wanted, now and again."""
    limit, capacity = cluster.settings.relieve_ratio, cluster.snapshot.nodes.capacity
    now = share(cluster.load, capacity)
    again = share(cluster.expected, capacity) > limit
    again[:, CPU] = cluster.risk_again() > cluster.bounds.relieved_above
    over = (now > limit) & (again | _stays_full(cluster.snapshot, now, limit))
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


def _relieve_of_one(cluster: PlannedCluster, node: int, resource: int, taken: float) -> bool:
    tasks = cluster.leavers(node)
    if not tasks.size:
        return False
    snapshot = cluster.snapshot
    excess = cluster.load[node, resource] - _RELIEVED_RATIO * snapshot.nodes.capacity[node, resource]
    amounts = cluster.used[tasks, resource]
    enough = tasks[amounts >= excess]
    if enough.size:
        # Whoever leaves should take along what overloaded the node before, and be small where it goes.
        order = np.lexsort(
            (cluster.forecast.expected[enough, resource], cluster.windows_without(enough, node))
        )
        task = int(enough[order[0]])
    else:
        task = int(tasks[np.argmax(amounts)])
    choice = cluster.safest(task, node) or cluster.woken(task, node)
    if choice is None:
        cluster.moves.left.append(f"{snapshot.nodes.names[node]} is at {taken:.0%}, and no node has room")
        return False
    cluster.put(task, choice.node)
    cluster.awake[choice.node], cluster.spare[choice.node] = True, False
    cluster.moves.add(
        task,
        choice.node,
        (f"{snapshot.nodes.names[node]} is at {taken:.0%} and expected to be again", choice.why()),
        cost_joules=float(move_joules(snapshot, np.array([task]))[0]),
    )
    return True


def _empty_one(cluster: PlannedCluster) -> int | None:
    """Empty the first node, by the number of its tasks, whose tasks all find a place and that pays."""
    settings, tasks = cluster.settings, cluster.snapshot.tasks
    if not cluster.bounds.may_empty:
        return None
    lately = np.count_nonzero((tasks.came_from != NOWHERE) & (tasks.settled_seconds < DAY_SECONDS))
    allowed = min(cluster.moves.room, settings.moves_per_day * len(tasks.ids) - lately)
    candidates = np.flatnonzero(cluster.awake & may_sleep(cluster.snapshot) & (cluster.tasks <= allowed))
    order = np.lexsort((cluster.expected[candidates, CPU], cluster.tasks[candidates]))
    for node in candidates[order][:_TRIED]:
        rows = cluster.leavers(int(node))
        if rows.size == cluster.tasks[node] and _emptied(cluster, int(node), rows):
            return int(node)
    return None


def _emptied(cluster: PlannedCluster, node: int, rows: Rows) -> bool:
    costs = move_joules(cluster.snapshot, rows) + cluster.settings.disturbance_joules
    before = cluster.watts()
    if not cluster.moves.pays(float(before[node]), float(costs.sum())):
        return False
    found: list[tuple[int, Choice]] = []
    for task in rows[np.argsort(-cluster.forecast.expected[rows, CPU], kind="stable")]:
        choice = cluster.cheapest(int(task), node)
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

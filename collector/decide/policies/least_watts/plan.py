"""The plans of `least-watts`: relieve nodes that are short and will be again, then empty nodes if that pays.

Few moves are the aim: each disturbs a container. So a node is relieved only while it is short, if it is
expected to be short again for more than the accepted share of the time, and by the containers that take the
excess along. A node is emptied only if all its containers find a place within the accepted risk, the fewest
containers first, and within the budget of moves.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

import numpy as np

from collector.common.arrays import Flags, Floats, Rows
from collector.common.text import counted
from collector.decide.policies.actions import PowerOn
from collector.decide.policies.filters import node_filters
from collector.decide.policies.interface import Plan
from collector.decide.policies.least_watts.cluster import Choice, LeastWattsCluster
from collector.decide.policies.least_watts.settings import LeastWattsSettings
from collector.decide.policies.least_watts.usage import WINDOW_SECONDS
from collector.decide.policies.stability import keep_one_on, may_sleep, with_watts
from collector.decide.policies.worth import Worth, gained_time, move_joules, saved_power
from collector.snapshot.columns import CPU
from collector.snapshot.tables import NOWHERE, Snapshot

_DAY_SECONDS = 86_400.0
_TRIED = 12
"""Nodes that are tried for emptying, those with the fewest tasks first, before a plan ends."""
_LEAST_WATTS = 0.05
"""A smaller difference is not worth a mention."""
_MOST_RELIEVED = 5
"""Containers that leave a short node in one plan: the next plan knows how much the first ones helped."""


def rebalance(snapshot: Snapshot, settings: LeastWattsSettings) -> Plan:
    """Relieve nodes, then empty nodes while that pays; state what the filters of features cost."""
    plan = _plan(snapshot, settings)
    restricting = [each.subject for each in node_filters(snapshot) if each.services(snapshot) is not None]
    if not restricting:
        return plan
    unbounded = _plan(snapshot.without_filters(), settings)
    if plan.watts_after is None or unbounded.watts_after is None:
        return plan
    watts = plan.watts_after - unbounded.watts_after
    if watts < _LEAST_WATTS:
        return plan
    subjects = " and ".join(restricting)
    cost = f"{subjects} cost {watts:.1f} W: without them, the plan would save as much more"
    return replace(plan, reasons=(*plan.reasons, cost))


def _plan(snapshot: Snapshot, settings: LeastWattsSettings) -> Plan:
    cluster = LeastWattsCluster(snapshot, settings)
    strain = _strain(cluster)
    _relieve(cluster, strained=strain is not None)
    emptied = _empty(cluster) if strain is None else set()
    names = snapshot.nodes.names
    idle = np.flatnonzero((cluster.tasks == 0) & cluster.planned.may_receive & may_sleep(snapshot))
    wake = [
        PowerOn(node=names[row], reasons=("no node that is on has room for a container that must move",))
        for row in np.flatnonzero((cluster.tasks > 0) & ~snapshot.nodes.on)
    ]
    wake += [
        PowerOn(node=names[row], reasons=("spare node for new containers",))
        for row in np.flatnonzero(cluster.asleep & (cluster.tasks == 0))[
            : max(settings.spare_nodes - idle.size, 0)
        ]
    ]
    planned = cluster.planned
    sleep = [
        planned.switch_off(
            row, "it is emptied" if row in emptied else "nothing runs there", is_weighed=row in emptied
        )
        for row in keep_one_on(snapshot, settings, idle[settings.spare_nodes :]).tolist()
    ]
    plan = Plan(
        actions=(*wake, *planned.actions, *(each for each in sleep if each is not None)),
        reasons=(
            cluster.margins.reason(settings.short_ratio),
            cluster.usage.shares.reason(),
            *(() if strain is None else (strain,)),
        ),
        left=tuple(planned.left),
        kept={names[row]: why for row, why in planned.kept.items()},
    )
    return with_watts(snapshot, plan)


def _spent_ratio(cluster: LeastWattsCluster) -> float:
    """The moves of the last day, as a share of the budget.

    Only the last move of a container is known. If moves hit containers at random, -ln(1 - share moved) moves
    per container leave this share unmoved.
    """
    tasks, budget = cluster.snapshot.tasks, cluster.settings.moves_per_day
    moved = (tasks.came_from != NOWHERE) & (tasks.settled_seconds < _DAY_SECONDS)
    if not moved.any() or budget <= 0:
        return 0.0
    share_moved = min(float(moved.mean()), 1.0 - 1.0 / (2.0 * moved.size))
    return -float(np.log1p(-share_moved)) / budget


def _relieve(cluster: LeastWattsCluster, *, strained: bool) -> None:
    """Take containers from each node that is short now and is expected to be again, the worst first."""
    rows = np.flatnonzero(
        cluster.awake | (cluster.planned.may_receive & cluster.snapshot.nodes.has_bottleneck)
    )
    rows = rows[(cluster.tasks[rows] > 0) & cluster.is_short(rows)]
    if not rows.size:
        return
    risk = cluster.risk(rows)
    again: Flags = np.any(risk > cluster.settings.short_ratios, axis=1) | cluster.stays_short(rows)
    for at in np.argsort(-risk.max(axis=1), kind="stable"):
        if again[at]:
            _relieve_node(cluster, int(rows[at]), float(risk[at].max()), strained=strained)


def _relieve_node(cluster: LeastWattsCluster, node: int, risk: float, *, strained: bool) -> None:
    for _ in range(_MOST_RELIEVED):
        tasks = cluster.planned.leavers(node)
        if not tasks.size or cluster.planned.room <= 0 or not cluster.is_short(np.array([node]))[0]:
            return
        relief = cluster.relief(node, tasks)
        if relief is not None and (relief.has_room or not strained):
            task, choice = relief.task, relief.choice
        else:
            task = int(tasks[np.argmin(cluster.risk_without(node, tasks).max(axis=1))])
            woken = cluster.woken(task, node)
            if woken is not None:
                choice = woken
            elif relief is not None and relief.helps:
                task, choice = relief.task, relief.choice
            else:
                name = cluster.snapshot.nodes.names[node]
                cluster.planned.left.append(f"{name} is short {risk:.1%} of the time, and no node has room")
                return
        if not _move_off(cluster, task, choice, node, risk):
            return


def _strain(cluster: LeastWattsCluster) -> str | None:
    """Why the nodes in use are too few, if relief needs more moves than the budget; None if they are enough.

    It needs one for each window in which a node is short. Beyond the budget, another node is worth its power.
    """
    rows = np.flatnonzero(cluster.tasks > 0)
    moves_per_day = float(cluster.risk(rows).max(axis=1).sum()) * _DAY_SECONDS / WINDOW_SECONDS
    budget = cluster.settings.moves_per_day * len(cluster.snapshot.tasks.ids)
    if not moves_per_day > budget:
        return None
    return (
        f"no node is emptied: those in use are expected to be short in {moves_per_day:.3g} windows of five"
        f" minutes a day, and the budget is {budget:.3g} moves a day"
    )


def _move_off(cluster: LeastWattsCluster, task: int, choice: Choice, node: int, risk: float) -> bool:
    """Move a container off a short node, if the containers there gain more time than the move takes."""
    snapshot, planned = cluster.snapshot, cluster.planned
    stays_short = bool(cluster.stays_short(np.array([node]))[0])
    gain = (1.0 if stays_short else risk) * float(cluster.tasks[node])
    worth = gained_time(snapshot, cluster.settings, gain, [task])
    name = snapshot.nodes.names[node]
    short = f"{name} is short and is expected to be short {risk:.1%} of the time"
    if not worth.pays:
        planned.left.append(f"{short}: to move {snapshot.tasks.names[task]} {worth.sentence()}")
        return False
    planned.put(task, choice.node)
    cluster.awake[choice.node], cluster.spare[choice.node] = True, False
    cost = float(move_joules(snapshot, np.array([task]))[0])
    planned.add(task, choice.node, (short, choice.why(), worth.sentence()), cost_joules=cost)
    return True


def _empty(cluster: LeastWattsCluster) -> set[int]:
    """Empty nodes, the one with the fewest tasks first, while the moves pay and are within the budget."""
    emptied: set[int] = set()
    budget = cluster.settings.moves_per_day * len(cluster.snapshot.tasks.ids)
    budget *= 1.0 - _spent_ratio(cluster)
    failed = 0
    sleeps = may_sleep(cluster.snapshot)
    stays = _stays(cluster, sleeps)
    tried: set[int] = set()
    while failed < _TRIED:
        allowed = min(float(cluster.planned.room), budget - len(cluster.planned.actions))
        candidates = np.flatnonzero(cluster.awake & sleeps & (cluster.tasks <= allowed))
        candidates = candidates[[row not in tried for row in candidates.tolist()]]
        if not candidates.size or cluster.awake.sum() <= 1:
            break
        node = int(_first_to_empty(cluster, candidates)[0])
        tried.add(node)
        rows = cluster.planned.leavers(node)
        if rows.size != cluster.tasks[node]:
            stay = counted(int(cluster.tasks[node]) - rows.size, "container")
            cluster.planned.kept[node] = f"{stay} there may not leave, or came in this plan"
        elif _empty_one(cluster, node, rows, stays):
            emptied.add(node)
            continue
        failed += 1
    _keep_untried(cluster, np.flatnonzero(cluster.awake & sleeps), tried, budget)
    return emptied


def _keep_untried(cluster: LeastWattsCluster, rows: Rows, tried: AbstractSet[int], budget: float) -> None:
    """Note why nodes were not even tried."""
    planned = cluster.planned
    allowed = max(min(planned.room, int(budget - len(planned.actions))), 0)
    for row in rows.tolist():
        if row in tried:
            continue
        moves = int(cluster.tasks[row])
        planned.kept[row] = (
            f"emptying it takes {counted(moves, 'move')}, and the budget allows {allowed} more"
            if moves > allowed
            else "it is the last node in use"
            if cluster.awake.sum() <= 1
            else f"{_TRIED} nodes with fewer containers could not be emptied either"
        )


def _first_to_empty(cluster: LeastWattsCluster, rows: Rows) -> Rows:
    """Nodes in the order in which they are emptied: the fewest tasks first, of equals the least use."""
    return rows[np.lexsort((cluster.expected[rows, CPU], cluster.tasks[rows]))]


def _stays(cluster: LeastWattsCluster, sleeps: Flags) -> Flags:
    """The nodes in use that need not be emptied: a container that goes to another one soon moves again."""
    stays = cluster.awake.copy()
    stays[_first_to_empty(cluster, np.flatnonzero(stays & sleeps))[: cluster.surplus()]] = False
    return stays


def _empty_one(cluster: LeastWattsCluster, node: int, rows: Rows, stays: Flags) -> bool:
    """Empty a node if all its containers find a place, and the saved power is worth it."""
    snapshot, planned = cluster.snapshot, cluster.planned
    before = cluster.watts()
    most = saved_power(snapshot, cluster.settings, float(before[node]), moved=rows, off=[node])
    if not most.pays:
        planned.kept[node] = f"emptying it {most.sentence()}"
        return False
    found: list[tuple[int, Choice]] = []
    risks: dict[int, float] = {}
    for task in rows[np.argsort(-cluster.usage.expected[rows, CPU], kind="stable")].tolist():
        choice = cluster.safest(task, node, stays & cluster.awake)
        if choice is None:
            planned.kept[node] = cluster.why_nowhere(task, node, stays & cluster.awake)
            break
        risks.setdefault(choice.node, _risk_of(cluster, choice.node))
        planned.put(task, choice.node)
        found.append((task, choice))
    else:
        worth = _worth_of_emptying(cluster, node, rows, before, risks)
        if worth.pays:
            _add_moves(cluster, node, found, worth)
            return True
        planned.kept[node] = f"emptying it {worth.sentence()}"
    for task, _ in found:
        planned.put(task, node)
    return False


def _risk_of(cluster: LeastWattsCluster, node: int) -> float:
    return float(cluster.risk(np.array([node])).max())


def _worth_of_emptying(
    cluster: LeastWattsCluster, node: int, rows: Rows, before: Floats, risks: Mapping[int, float]
) -> Worth:
    """Weigh the moves that the planned cluster has made, which began with these watts and risks of nodes.

    The power curves have errors of their own; each window in which a node will be short costs another move.
    """
    snapshot, settings = cluster.snapshot, cluster.settings
    change = before - cluster.watts()
    errors = change * np.nan_to_num(snapshot.nodes.power.error_ratio, nan=0.0)
    more = sum(max(_risk_of(cluster, each) - risk, 0.0) for each, risk in risks.items())
    again = more * settings.payback_seconds / WINDOW_SECONDS
    return saved_power(
        snapshot,
        settings,
        float(change.sum()),
        moved=rows,
        off=[node],
        error_watts=float(np.sqrt(np.square(errors).sum())),
        risk_joules=again * float(move_joules(snapshot, rows).mean()),
    )


def _add_moves(
    cluster: LeastWattsCluster, node: int, found: Sequence[tuple[int, Choice]], worth: Worth
) -> None:
    name, moves = cluster.snapshot.nodes.names[node], counted(len(found), "move")
    costs = move_joules(cluster.snapshot, np.array([task for task, _ in found]))
    why = f"empty {name}: saves {worth.gain:.0f} W for {moves}"
    for (task, choice), cost in zip(found, costs.tolist(), strict=True):
        gain = worth.gain / len(found)
        reasons = (why, choice.why(), worth.sentence())
        cluster.planned.add(task, choice.node, reasons, gain_watts=gain, cost_joules=cost)
    cluster.awake[node], cluster.spare[node] = False, True

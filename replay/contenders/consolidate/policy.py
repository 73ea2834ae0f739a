"""Beloglazov's consolidation: relieve overloaded hosts, empty underused ones, switch empty ones off.

The container that moves fastest leaves an overloaded host (minimum migration time); it goes where power rises
least (power-aware best fit decreasing). Like CloudSim 3.0.3, which the published figures come from, it
ignores the idle power of a host when it places a container, so that it readily switches hosts on to relieve
others; and a host that it has tried to empty receives nothing more in that round.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final

import numpy as np
from msgspec import Meta

from collector.common.arrays import Flags, Floats, Rows
from collector.common.text import counted
from collector.decide.policies.actions import Action, Move, PowerOff, PowerOn
from collector.decide.policies.filters import eligible, free_of_load, without_room
from collector.decide.policies.interface import (
    Plan,
    Policy,
    Ranking,
    Rejection,
    Request,
    Stability,
    rank_by_score,
)
from collector.decide.policies.least_watts.cost import UNKNOWN_WATTS
from collector.decide.policies.overbooking import reject_overbooked
from collector.decide.policies.planned import PlannedCluster
from collector.decide.policies.stability import (
    keep_one_on,
    keeps_awake,
    may_sleep,
    may_wake,
    with_watts,
)
from collector.decide.policies.worth import Measure, move_joules, weigh
from collector.snapshot.columns import CPU, MEMORY, coalesce, first_known, sum_by_node
from collector.snapshot.tables import NOWHERE, Snapshot
from replay.contenders.consolidate.overload import LOADS_READ, LOOK_BACK, PUBLISHED, Overload, overloaded

_ROUNDING = 1e-9
"""A smaller share of a host counts as none."""
_YEAR_SECONDS = 365 * 86_400.0


class ConsolidateSettings(Stability, frozen=True):
    """Settings of consolidation."""

    overload: Overload = Overload.REGRESSION
    """Detection of overload: thr (fixed share), mad or iqr (variation), lr (trend)."""
    safety: float | None = None
    """Parameter of the detection. Default as published: thr 0.8, mad 2.5, iqr 1.5, lr 1.2."""
    fallback_ratio: Annotated[float, Meta(gt=0, le=1)] = 0.7
    """CPU share that is overload while a host's history is too short."""
    sends_on: bool = False
    """Allow two moves of a container in a plan, as in CloudSim: off an overloaded host, and off its new host
    when that is emptied."""

    @property
    def parameter(self) -> float:
        """The parameter of the detection, set or published."""
        return PUBLISHED[self.overload] if self.safety is None else self.safety


REFERENCE: Final = ConsolidateSettings(
    moves=1_000_000,
    cool_down_seconds=0.0,
    no_return_seconds=0.0,
    payback_seconds=_YEAR_SECONDS,
    sends_on=True,
    overbooks=True,
)
"""No limits on moves, as in CloudSim."""


@dataclass(frozen=True, slots=True)
class _Choice:
    node: int
    added_watts: float
    of: int

    def reason(self) -> str:
        if self.added_watts >= UNKNOWN_WATTS:
            return f"first of {counted(self.of, 'node')} with room, none with a power curve"
        return f"adds {self.added_watts:.1f} W, the least of {counted(self.of, 'node')} with room"


class _Cluster:
    """The hosts with the moves of a plan that is being made."""

    def __init__(self, snapshot: Snapshot, settings: ConsolidateSettings) -> None:
        self.snapshot, self.settings = snapshot, settings
        self.planned = PlannedCluster(snapshot, settings)
        nodes, tasks = snapshot.nodes, snapshot.tasks
        self.need = coalesce(tasks.used, tasks.mean)
        self.copy_bytes = np.where(
            tasks.used[:, MEMORY] > 0, tasks.used[:, MEMORY], np.nan_to_num(tasks.requested[:, MEMORY])
        )
        self.counts = keeps_awake(snapshot)
        self.capacity = np.where(nodes.capacity > 0, nodes.capacity, np.inf)
        self.load = sum_by_node(tasks.node, self.need, len(nodes.names))
        self.began = self.load.copy()
        self.awake: Flags = self.load[:, CPU] > 0
        self.receives: Flags = self.planned.may_receive | may_wake(snapshot)
        self.watts = nodes.power.watts(self.load / self.capacity)
        self.task_history, self.history = _histories(snapshot, self.need)
        self.planned.follow(self.need, self.load)
        self.planned.follow(self.task_history, self.history)

    def over(self, rows: Rows, more: Floats | None = None, history: Floats | None = None) -> Flags:
        """Return the overloaded hosts, as they are or with one more container on each."""
        settings, whole, load = self.settings, self.capacity[rows, CPU], self.load[rows, CPU]
        if more is not None:
            load = load + more[CPU]
        return overloaded(
            load / whole,
            self._recent(rows, whole, history, LOADS_READ[settings.overload]),
            rule=settings.overload,
            safety=settings.parameter,
            fallback=settings.fallback_ratio,
        )

    def _recent(self, rows: Rows, whole: Floats, history: Floats | None, most: int) -> Floats:
        """Return the last loads of hosts as shares of their CPU, with those of one more container on each.

        NaN is a load before the first container.
        """
        if not most:
            return np.empty((rows.size, 0))
        past = self.history[rows]
        if history is not None:
            past += history
        earlier = past.shape[1] - min(most, past.shape[1])
        used = past > _ROUNDING * whole[:, None]
        since = used[:, earlier:] | used[:, :earlier].any(axis=1, keepdims=True)
        return np.where(np.logical_or.accumulate(since, axis=1), past[:, earlier:] / whole[:, None], np.nan)

    def best(self, task: int, excluded: Flags) -> "_Choice | None":
        """Return where a task adds the least power without overload; of equals the first by name."""
        open_to = self.receives & ~excluded & self.planned.open_to(task)
        need = self.need[task]
        # Column by column: many times as fast as row by row.
        for amount, capacity, load in zip(need, self.capacity.T, self.load.T, strict=True):
            open_to &= capacity - load >= amount
        rows = np.flatnonzero(open_to)
        over = self.awake[rows]
        over[over] = self.over(rows[over], need, self.task_history[task])
        rows = rows[~over]
        if not rows.size:
            return None
        after = self.snapshot.nodes.power.watts((self.load[rows] + need) / self.capacity[rows], rows)
        added = after - self.watts[rows]
        added[np.isnan(added)] = UNKNOWN_WATTS
        least = int(np.argmin(added))
        return _Choice(int(rows[least]), float(added[least]), rows.size)


def rebalance(snapshot: Snapshot, settings: ConsolidateSettings) -> Plan:
    """Relieve the overloaded hosts, then empty the least used ones, one after the other."""
    cluster = _Cluster(snapshot, settings)
    over = cluster.awake.copy()
    over[over] = cluster.over(np.flatnonzero(over))
    legs = [*_relieve(cluster, over), *_empty(cluster, over)]
    return _plan(cluster, legs if settings.sends_on else _last_legs(legs))


@dataclass(frozen=True, slots=True)
class _Leg:
    task: int
    node: int
    reasons: tuple[str, ...]


def _last_legs(legs: Sequence[_Leg]) -> list[_Leg]:
    """Return the last move of each task, with the reasons of all its moves."""
    last: dict[int, _Leg] = {}
    for leg in legs:
        before = last.get(leg.task)
        last[leg.task] = leg if before is None else replace(leg, reasons=(*before.reasons, *leg.reasons))
    return list(last.values())


def _relieve(cluster: _Cluster, over: Flags) -> list[_Leg]:
    """Move the containers that move fastest off each host until it is not overloaded."""
    why: dict[int, tuple[str, ...]] = {}
    for node in np.flatnonzero(over):
        overload = _overload(cluster, int(node))
        while (tasks := cluster.planned.leavers(int(node))).size:
            task = int(tasks[np.argmin(cluster.copy_bytes[tasks])])
            cluster.planned.put(task, NOWHERE)
            size = cluster.copy_bytes[task] / 1e6
            why[task] = overload, f"this container moves fastest: {size:.0f} MB"
            if not cluster.over(np.array([node]))[0]:
                break
    legs: list[_Leg] = []
    for task in sorted(why, key=lambda each: (-cluster.need[each, CPU], each)):
        choice = cluster.best(task, over) if len(legs) < cluster.settings.moves else None
        cluster.planned.put(task, int(cluster.snapshot.tasks.node[task]) if choice is None else choice.node)
        if choice is not None:
            legs.append(_Leg(task, choice.node, (*why[task], choice.reason())))
    return legs


def _overload(cluster: _Cluster, node: int) -> str:
    share = cluster.load[node, CPU] / cluster.capacity[node, CPU]
    settings, name = cluster.settings, cluster.snapshot.nodes.names[node]
    rule = f"{settings.overload} {settings.parameter:g}"
    return f"{name} is overloaded: {share:.0%} CPU (detection {rule})"


def _empty(cluster: _Cluster, over: Flags) -> list[_Leg]:
    """Empty whole hosts, the least used first."""
    legs: list[_Leg] = []
    tasks, settings = cluster.snapshot.tasks, cluster.settings
    used = cluster.began[:, CPU] / cluster.capacity[:, CPU]
    source = cluster.awake & ~over & (used < 1) & may_sleep(cluster.snapshot)
    closed = over | ~cluster.awake
    while source.any():
        node = int(np.flatnonzero(source)[np.argmin(used[source])])
        source[node], closed[node] = False, True
        rows = cluster.planned.leavers(node)
        moved = np.count_nonzero(cluster.planned.home != tasks.node)
        if not rows.size or np.count_nonzero((cluster.planned.home == node) & cluster.counts) != rows.size:
            continue
        if moved + np.count_nonzero(tasks.node[rows] == node) > settings.moves:
            continue
        freed = float(np.nan_to_num(cluster.watts[node]))
        name = cluster.snapshot.nodes.names[node]
        underused = f"{name} is underused ({used[node]:.0%} CPU) and can be emptied"
        found = _elsewhere(cluster, rows, closed)
        added = sum(choice.added_watts for choice in found.values())
        # The published rule does not count earlier moves, or switching.
        stays = np.full(rows.size, np.inf)
        worth = weigh(Measure.POWER, freed - added, move_joules(cluster.snapshot, rows), stays, settings)
        if len(found) < rows.size or not (added >= UNKNOWN_WATTS or worth.pays):
            for task in found:
                cluster.planned.put(task, node)
            continue
        for task, choice in found.items():
            legs.append(_Leg(task, choice.node, (underused, choice.reason())))
            source[choice.node] = False
    return legs


def _elsewhere(cluster: _Cluster, rows: Rows, closed: Flags) -> dict[int, _Choice]:
    """Find a node for each of these tasks, the largest first; stop at the first that has none."""
    found: dict[int, _Choice] = {}
    for task in rows[np.argsort(-cluster.need[rows, CPU], kind="stable")]:
        choice = cluster.best(int(task), closed)
        if choice is None:
            break
        cluster.planned.put(int(task), choice.node)
        found[int(task)] = choice
    return found


def _plan(cluster: _Cluster, legs: Sequence[_Leg]) -> Plan:
    snapshot = cluster.snapshot
    nodes, tasks = snapshot.nodes, snapshot.tasks
    count = len(nodes.names)
    had = np.bincount(tasks.node[cluster.counts], minlength=count) > 0
    has = (
        np.bincount(cluster.planned.home[cluster.counts & (cluster.planned.home != NOWHERE)], minlength=count)
        > 0
    )
    joules = move_joules(snapshot, np.array([leg.task for leg in legs], dtype=np.intp))
    at, moves = tasks.node.copy(), []
    for leg, cost in zip(legs, joules, strict=True):
        moves.append(
            Move(
                task=tasks.ids[leg.task],
                name=tasks.names[leg.task],
                node=nodes.names[at[leg.task]],
                target=nodes.names[leg.node],
                reasons=leg.reasons,
                cost_joules=float(cost),
            )
        )
        at[leg.task] = leg.node
    drawn = np.nan_to_num(nodes.watts, nan=0.0)
    wake = [
        PowerOn(node=nodes.names[row], reasons=("takes containers of overloaded nodes",))
        for row in np.flatnonzero(has & ~nodes.on)
    ]
    idle = np.flatnonzero(~has & nodes.on & cluster.receives & may_sleep(snapshot))
    sleep = [
        PowerOff(
            node=nodes.names[row],
            reasons=("the plan empties it" if had[row] else "no container runs on it",),
            gain_watts=float(drawn[row]),
        )
        for row in keep_one_on(snapshot, cluster.settings, idle)
    ]
    return with_watts(snapshot, Plan(actions=(*wake, *moves, *sleep)))


def place(snapshot: Snapshot, request: Request, settings: ConsolidateSettings) -> Ranking:
    """Rank nodes by the power that the request adds."""
    nodes = snapshot.nodes
    need = np.array(first_known(request.reserve, request.demand))
    refused = eligible(snapshot, request, stale_seconds=settings.stale_seconds, wake=True)
    refused = without_room(refused, free_of_load(snapshot), need)
    if not settings.overbooks:
        refused = reject_overbooked(snapshot, request, refused)
    load = np.fmax(nodes.used, nodes.mean)
    added = nodes.power.watts((load + need) / nodes.known_capacity) - nodes.estimated_watts
    scores = np.nan_to_num(-added, nan=-UNKNOWN_WATTS)

    fitting = int(np.count_nonzero(refused == Rejection.NOT))

    def explain(row: int) -> tuple[str, ...]:
        return (_Choice(row, -float(scores[row]), fitting).reason(),)

    def needs(row: int) -> tuple[Action, ...]:
        if nodes.on[row]:
            return ()
        return (PowerOn(node=nodes.names[row], reasons=("the node is off",)),)

    return rank_by_score(
        scores,
        refused,
        score_is="minus the added watts",
        explain=explain,
        needs=needs,
    )


def _histories(snapshot: Snapshot, need: Floats) -> tuple[Floats, Floats]:
    """Return the recent CPU use of each task and node.

    The past use of a node's present tasks predicts better than the past use of the node.
    """
    nodes, tasks = snapshot.nodes, snapshot.tasks
    if len(tasks.windows):
        of_tasks = np.nan_to_num(tasks.windows.amounts[:, -LOOK_BACK:, CPU], nan=0.0).astype(np.float64)
        return of_tasks, sum_by_node(tasks.node, of_tasks, len(nodes.names))
    of_nodes = np.nan_to_num(nodes.history[:, -LOOK_BACK:, CPU] * nodes.capacity[:, CPU, None], nan=0.0)
    return np.repeat(need[:, CPU, None], of_nodes.shape[1], axis=1), of_nodes


CONSOLIDATE = Policy(
    name="consolidate",
    summary="Beloglazov: relieve overloaded nodes, empty underused ones, place where power rises least",
    settings=ConsolidateSettings,
    place=place,
    rebalance=rebalance,
)

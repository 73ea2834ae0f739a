"""The generations of nodes, and one phase of GenPack: which containers move, and which nodes become empty."""

from collections.abc import Iterable
from typing import Annotated

import numpy as np
from msgspec import Meta

from collector.common.arrays import Codes, Flags, Floats, Rows
from collector.common.text import counted
from collector.decide.policies.actions import Action, PowerOn
from collector.decide.policies.interface import FillLimits
from collector.decide.policies.planned import PlannedCluster
from collector.decide.policies.scoring import each_percent
from collector.decide.policies.stability import (
    any_above,
    keep_one_on,
    keeps_awake,
    may_receive,
    may_sleep,
    may_wake,
    reporting,
)
from collector.decide.policies.worth import gained_time, move_joules, saved_power
from collector.features.genpack.packing import FreeCapacity, blend, dominant, empty, scores
from collector.features.genpack.snapshot import SettledEfficiency, watts_per_core
from collector.snapshot.columns import sum_by_node
from collector.snapshot.tables import NOWHERE, Generation, Snapshot, share
from wire.resources import RESOURCES

_PACKED = (Generation.OLD, Generation.YOUNG)
"""Generations in the order of packing: what moves to old nodes leaves its room on the young ones."""
_NURSERY_ROOM = 2.0
"""The nursery has room for this times what containers without a profile need: others arrive at any time."""


class GenPackSettings(FillLimits, frozen=True):
    """Settings of GenPack. As in the paper, envelopes may fill a node completely."""

    fill_ratio: Annotated[
        float, Meta(gt=0, le=1, description="Maximum share of any resource of a node that envelopes fill.")
    ] = 1.0
    relieve_ratio: Annotated[
        float,
        Meta(gt=0, le=2, description="Share of any resource above which envelopes are moved off a node."),
    ] = 1.1
    nursery_seconds: Annotated[
        float,
        Meta(ge=0, description="Time that a container is profiled in the nursery before it moves on."),
    ] = 600.0
    young_seconds: Annotated[
        float,
        Meta(ge=0, description="Time that a container then spends on young nodes before it counts as old."),
    ] = 1200.0
    young_share: Annotated[
        float,
        Meta(ge=0, le=1, description="Least share of young nodes, if no node has a configured generation."),
    ] = 4 / 12
    old_share: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="Share of old nodes, if no node has a configured generation. Of nodes that are"
            " neither young nor old, as many are the nursery as new containers need; the others are young.",
        ),
    ] = 3 / 12


def generations(snapshot: Snapshot, settings: GenPackSettings) -> Codes:
    """Return the generation of each node.

    If some nodes are assigned, the others are young. If none is, the most efficient nodes are old, and the
    least efficient one that can be is the nursery; further ones join it while new containers need them.
    """
    assigned = snapshot.nodes.generation
    if (assigned != Generation.ANY).any():
        return np.where(assigned == Generation.ANY, Generation.YOUNG, assigned).astype(np.int8)
    return snapshot.cached(("generations", settings), lambda: _by_efficiency(snapshot, settings))


def settled_watts(snapshot: Snapshot) -> Floats:
    """Return the power per core of each node at full load, without small changes where these are known."""
    part = snapshot.part(SettledEfficiency)
    return watts_per_core(snapshot) if part is None else part.watts_per_core


def _by_efficiency(snapshot: Snapshot, settings: GenPackSettings) -> Codes:
    count = len(snapshot.nodes.names)
    old = max(round(count * settings.old_share), 1)
    young = max(round(count * settings.young_share), 1)
    old = min(old, max(count - 1 - young, 0))
    young = min(young, max(count - 1 - old, 0))
    best_first = np.argsort(settled_watts(snapshot), kind="stable")
    unfit = _unfitness(snapshot, settings)[best_first[::-1]]
    nursery_first = best_first[::-1][np.argsort(unfit, kind="stable")]
    packed = best_first[best_first != nursery_first[:1]][: old + young]
    generation = np.full(count, Generation.YOUNG, dtype=np.int8)
    generation[packed[:old]] = Generation.OLD
    rest = nursery_first[~np.isin(nursery_first, packed)]
    generation[_nursery(snapshot, settings, rest)] = Generation.NURSERY
    return generation


def _unfitness(snapshot: Snapshot, settings: GenPackSettings) -> Rows:
    """Return how unfit nodes are for the nursery: closed, half full of profiled containers, unknown watts."""
    nodes, tasks = snapshot.nodes, snapshot.tasks
    settled = keeps_awake(snapshot) & ~(tasks.age_seconds < settings.nursery_seconds)
    taken = sum_by_node(np.where(settled, tasks.node, NOWHERE), tasks.envelope, len(nodes.names))
    is_full = any_above(share(taken, nodes.capacity), 1.0 / _NURSERY_ROOM)
    is_closed, is_unknown = ~may_receive(snapshot, settings), np.isinf(settled_watts(snapshot))
    return 4 * is_closed + 2 * is_full + is_unknown


def _nursery(snapshot: Snapshot, settings: GenPackSettings, rows: Rows) -> Rows:
    """Return the first of these nodes, and as many more as keep the nursery at most half full.

    A node with containers that were profiled does not join: they would have to move away.
    """
    tasks, count = snapshot.tasks, len(snapshot.nodes.names)
    is_new = tasks.age_seconds < settings.nursery_seconds
    stays = keeps_awake(snapshot) & ~is_new
    is_free = np.bincount(tasks.node[stays], minlength=count) == 0
    is_free &= may_receive(snapshot, settings) | may_wake(snapshot)
    rows = np.concatenate((rows[:1], rows[1:][is_free[rows[1:]]]))
    known = np.zeros(is_new.size, dtype=np.bool_)
    named = tasks.service != NOWHERE
    known[named] = snapshot.services.profiled[tasks.service[named]]
    need = np.nan_to_num(tasks.envelope[is_new & ~known]).sum(axis=0) * _NURSERY_ROOM
    room = np.nan_to_num(snapshot.nodes.capacity[rows], nan=np.inf).cumsum(axis=0)
    return rows[: 1 + int((room < need).any(axis=1).sum())]


class Phase:
    """A plan that is being made, with its changes to the snapshot."""

    def __init__(self, snapshot: Snapshot, settings: GenPackSettings) -> None:
        self._snapshot, self._settings = snapshot, settings
        self.planned = PlannedCluster(snapshot, settings)
        self.woken: list[Action] = []
        self.reasons: list[str] = []
        self._generation = generations(snapshot, settings)
        self._preference = settled_watts(snapshot)
        self._rooms = {generation: self._room(generation) for generation in _PACKED}
        self._reserved = snapshot.nodes.envelope_sum.copy()
        on = snapshot.tasks.node[keeps_awake(snapshot)]
        self._tasks = np.bincount(on, minlength=len(snapshot.nodes.names))
        self.planned.follow(snapshot.tasks.envelope, self._reserved)
        self.planned.follow(np.ones(len(snapshot.tasks.ids), dtype=self._tasks.dtype), self._tasks)
        self._may_sleep = may_sleep(snapshot)
        self._emptied: set[int] = set()
        self._received = np.zeros(len(snapshot.nodes.names), dtype=np.bool_)

    def promote(self) -> None:
        """Move containers that are old enough to the next generation."""
        settings, tasks = self._settings, self._snapshot.tasks
        every_task = np.ones(tasks.age_seconds.size, dtype=np.bool_)
        both = settings.nursery_seconds + settings.young_seconds
        self._advance(every_task, both, Generation.YOUNG, Generation.OLD)
        self._advance(
            tasks.observed_seconds > 0, settings.nursery_seconds, Generation.NURSERY, Generation.YOUNG
        )

    def relieve(self) -> None:
        """Move the largest containers off nodes whose envelopes exceed the limit, until the rest fits."""
        settings, nodes = self._settings, self._snapshot.nodes
        ratio = share(self._reserved, nodes.capacity)
        for row in np.flatnonzero(any_above(ratio, settings.relieve_ratio)):
            generation = Generation(self._generation[row])
            if generation not in self._rooms:
                continue
            leaving, short = self._excess(int(row))
            too_full = f"{nodes.names[row]} has envelopes of {each_percent(ratio[row])}"
            limit = f"limit {settings.relieve_ratio:.0%}"
            self._rooms[generation].hide(int(row))
            over = float(np.nanmax(ratio[row])) - settings.fill_ratio
            # All containers there gain the share that they lack.
            self._schedule(
                leaving, generation, over * self._tasks[row], f"{too_full}, {limit}: move the largest {short}"
            )
            self._rooms[generation].hide(int(row), hidden=False)

    def consolidate(self) -> None:
        """Empty nodes whose containers fit elsewhere in their generation, the most available first."""
        for row in np.flatnonzero((self._generation == Generation.NURSERY) & (self._tasks > 0)).tolist():
            self.planned.kept[row] = "it is a node of the nursery, which stays on for new containers"
        for generation, room in self._rooms.items():
            # A node that stays on anyway is as good a target as one that runs containers.
            stays_on = self._snapshot.nodes.on & ((self._tasks > 0) | ~self._may_sleep)
            used = room.rows[stays_on[room.rows]]
            for row in np.setdiff1d(room.rows, used):
                room.hide(int(row))
            used = used[(self._tasks > 0)[used] & self._may_sleep[used]]
            for row in sorted(used.tolist(), key=lambda each: (-room.availability_of(each), each)):
                self._try_to_empty(row, generation, room)

    def switch_off(self) -> Iterable[Action]:
        """Switch off empty young and old nodes; the nursery stays on."""
        nodes = self._snapshot.nodes
        packed = np.isin(self._generation, _PACKED) & self._may_sleep
        empty_now = packed & reporting(self._snapshot, self._settings) & nodes.accepts & (self._tasks == 0)
        for row in keep_one_on(self._snapshot, self._settings, np.flatnonzero(empty_now)):
            generation = Generation(self._generation[row]).name.lower()
            why = f"no container runs on this {generation} node"
            step = self.planned.switch_off(int(row), why, is_weighed=row in self._emptied)
            if step is not None:
                yield step

    def _room(self, generation: Generation) -> FreeCapacity:
        nodes = self._snapshot.nodes
        # Envelopes are percentiles: a node can have room by them, and still have a bottleneck.
        is_open = self.planned.may_receive & ~nodes.has_bottleneck
        rows = np.flatnonzero((self._generation == generation) & (is_open | may_wake(self._snapshot)))
        return FreeCapacity(
            rows,
            nodes.capacity[rows],
            nodes.envelope_sum[rows],
            fill=self._settings.fill_ratio,
            is_open=is_open[rows],
        )

    def _advance(self, ready: Flags, seconds: float, source: Generation, target: Generation) -> None:
        tasks, name = self._snapshot.tasks, target.name.lower()
        # A waiting task has row -1, the last node; it may not leave, so the wrong generation does no harm.
        there = self._generation[tasks.node] == source if self._generation.size else np.zeros_like(ready)
        due = ready & there & (tasks.age_seconds >= seconds)
        leaving = np.flatnonzero(due & self.planned.may_leave)
        if leaving.size and not self._rooms[target].rows.size:
            self.planned.left.append(
                f"{counted(leaving.size, 'container')} cannot move: there is no {name} node"
            )
        elif leaving.size:
            age = f"age at least {seconds:g} s"
            # A container gains all of its time in the generation that it belongs to.
            moved = self._schedule(
                leaving, target, 1.0, f"the container is old enough for {name} nodes: {age}"
            )
            some = f"{moved} of {counted(leaving.size, 'container')}"
            self.reasons.append(f"move {some} from {source.name.lower()} to {name} nodes: {age}")

    def _schedule(self, leaving: Rows, generation: Generation, gain: float, why: str) -> int:
        """Run the paper's algorithm 1, with its escape; return how many containers move.

        `gain` is the time that containers gain per second by each move.
        """
        worths = {
            task: gained_time(self._snapshot, self._settings, gain, [task]) for task in leaving.tolist()
        }
        leaving = leaving[[worths[task].pays for task in leaving.tolist()]]
        tasks, room, name = self._snapshot.tasks, self._rooms[generation], generation.name.lower()
        envelopes = tasks.envelope[leaving]
        known = tasks.group[leaving]
        groups = np.where(known == NOWHERE, dominant(envelopes), known).astype(np.int8)
        costs = move_joules(self._snapshot, leaving)
        moved = without_place = 0
        for place in blend(groups, scores(envelopes)):
            if self.planned.room == 0:
                break
            task, envelope = int(leaving[place]), envelopes[place]
            target = self._find(room, task, envelope, name)
            if target == NOWHERE:
                without_place += 1
                continue
            reason = f"{self._snapshot.nodes.names[target]} is the fullest {name} node with room"
            reasons = (why, reason, worths[task].sentence())
            self._move(task, target, reasons, cost=float(costs[place]))
            for each in self._rooms.values():
                each.give_back(int(tasks.node[task]), envelope)
            moved += 1
        if without_place:
            self.planned.left.append(f"no {name} node has room for {counted(without_place, 'container')}")
        if waiting := leaving.size - moved - without_place:
            self.planned.left.append(
                f"{counted(waiting, 'more move')} not planned: a plan has at most {self._settings.moves}"
            )
        return moved

    def _find(self, room: FreeCapacity, task: int, envelope: Floats, name: str) -> int:
        allowed = self.planned.open_to(task)
        target = room.first_fit(envelope, allowed)
        if target == NOWHERE:
            target = room.closed_fit(envelope, self._preference[room.rows], allowed)
            if target != NOWHERE:
                node, reason = self._snapshot.nodes.names[target], f"no {name} node that is on has room"
                self.woken.append(PowerOn(node=node, reasons=(reason,)))
        if target != NOWHERE:
            room.take(target, envelope)
        return target

    def _move(
        self, task: int, target: int, reasons: tuple[str, ...], *, cost: float, gain: float = 0.0
    ) -> None:
        self.planned.add(task, target, reasons, gain_watts=gain, cost_joules=cost)
        self._received[target] = True

    def _excess(self, row: int) -> tuple[Rows, str]:
        """Return the containers to move off a node, and the resource that is most short."""
        tasks, nodes = self._snapshot.tasks, self._snapshot.nodes
        capacity = np.where(np.isnan(nodes.capacity[row]), np.inf, nodes.capacity[row])
        short = int(np.argmax(np.nan_to_num(share(self._reserved[row], capacity), nan=0.0)))
        there = self._snapshot.tasks_on(row)
        there = there[self.planned.may_leave[there]]
        biggest_first = there[np.argsort(-tasks.envelope[there, short], kind="stable")]
        over = self._reserved[row] - capacity * self._settings.fill_ratio
        freed = np.cumsum(tasks.envelope[biggest_first], axis=0) - tasks.envelope[biggest_first]
        still_over = ((over - freed) > 0).any(axis=1)
        return biggest_first[still_over], RESOURCES[short].value

    def _try_to_empty(self, row: int, generation: Generation, room: FreeCapacity) -> None:
        snapshot, planned = self._snapshot, self.planned
        there = snapshot.tasks_on(row)
        # What left in this plan may not leave again; what came in this plan is not in `there`. Daemons stay.
        staying = int(self._tasks[row])
        leaving = there[planned.may_leave[there]]
        if self._received[row] or leaving.size != staying or staying > planned.room:
            return
        costs = move_joules(snapshot, leaving)
        idle_watts = float(snapshot.nodes.power.idle_watts[row])
        # The load draws about the same elsewhere; the idle power is saved. Unknown, it is more than none.
        worth = saved_power(snapshot, self._settings, idle_watts, moved=leaving, off=[row])
        if not (np.isnan(idle_watts) or worth.pays):
            planned.kept[row] = f"emptying it {worth.sentence()}"
            return
        targets = empty(room, row, leaving, snapshot.tasks.envelope[leaving], planned)
        kind = generation.name.lower()
        if targets is None:
            planned.kept[row] = f"not all of its containers fit on other {kind} nodes in use"
            return
        gain = 0.0 if np.isnan(idle_watts) else idle_watts / staying
        name = snapshot.nodes.names[row]
        why = f"{counted(staying, 'container')} of {name} fit on other {kind} nodes"
        switched_off = f"{name} can then be switched off"
        stated = () if np.isnan(idle_watts) else (worth.sentence(),)
        self._emptied.add(row)
        for task, target, cost in zip(leaving.tolist(), targets.tolist(), costs.tolist(), strict=True):
            self._move(task, target, (why, switched_off, *stated), cost=cost, gain=gain)
        self.reasons.append(f"{kind} node {name} is emptied")

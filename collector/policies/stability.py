"""What keeps plans calm, in one place: who may leave, who may be given more, and what a plan has room for."""

from collections.abc import Sequence

import numpy as np

from collector.common.labels import NEVER, POWER_LABEL
from collector.common.liveness import Liveness
from collector.policies.actions import Action, Move
from collector.policies.interface import Stability
from collector.snapshot.power_curves import Floats, Rows
from collector.snapshot.tables import NOWHERE, Flags, Snapshot, TaskKind
from wire.resources import RESOURCES, Resource

COPY_BYTES_PER_SECOND = 125e6
"""How fast a container's memory is filled again on another node: a link of one gigabit."""
_MEMORY = RESOURCES.index(Resource.MEMORY)


def heard(snapshot: Snapshot, stability: Stability) -> Flags:
    """The nodes that are on and of which enough is known to decide: the others are left alone."""
    nodes = snapshot.nodes
    fresh = np.less_equal(nodes.report_age_seconds, stability.stale_seconds)
    return nodes.on & fresh & np.equal(nodes.liveness, Liveness.UP)


def may_receive(snapshot: Snapshot, stability: Stability) -> Flags:
    """The nodes that a move may go to, room apart."""
    return heard(snapshot, stability) & snapshot.nodes.accepts & ~np.isnan(snapshot.nodes.capacity[:, 0])


def may_wake(snapshot: Snapshot) -> Flags:
    """The nodes that are off and could be given something once they are switched on."""
    nodes = snapshot.nodes
    return ~nodes.on & nodes.accepts & ~np.isnan(nodes.capacity[:, 0])


def may_sleep(snapshot: Snapshot) -> Flags:
    """The nodes that may be switched off once nothing is left there."""
    return ~snapshot.nodes.labelled(POWER_LABEL, NEVER)


def keeps_awake(snapshot: Snapshot) -> Flags:
    """The tasks for whose sake a node stays on: all but those that every node runs."""
    awake: Flags = (snapshot.tasks.node != NOWHERE) & (snapshot.tasks.kind != TaskKind.DAEMON)
    return awake


def may_leave(snapshot: Snapshot, stability: Stability) -> Flags:
    """The tasks that may be moved at all: movable, settled for long enough, on a node that is heard of."""
    tasks = snapshot.tasks
    placed = tasks.node != NOWHERE
    seen = np.zeros(placed.size, dtype=np.bool_)
    seen[placed] = heard(snapshot, stability)[tasks.node[placed]]
    return tasks.movable & seen & (tasks.settled_seconds >= stability.cool_down_seconds)


def barred(snapshot: Snapshot, stability: Stability) -> Rows:
    """The node that each task must not be sent back to yet; `NOWHERE` where there is none."""
    tasks = snapshot.tasks
    return np.where(tasks.settled_seconds < stability.no_return_seconds, tasks.came_from, NOWHERE)


def above(taken_ratio: Floats, ratio: float) -> Flags:
    """The nodes with more than this share taken of any resource."""
    over: Flags = np.any(np.nan_to_num(taken_ratio, nan=0.0) > ratio, axis=1)
    return over


def move_seconds(snapshot: Snapshot, tasks: Rows) -> Floats:
    """How long moves take, while which a container runs twice."""
    seconds: Floats = np.nan_to_num(snapshot.tasks.envelope[tasks, _MEMORY]) / COPY_BYTES_PER_SECOND
    return seconds


def move_joules(snapshot: Snapshot, tasks: Rows) -> Floats:
    """What moves cost: each container runs twice meanwhile, and draws twice what it adds to its node.

    Nothing where the node has told no power curve: no cost is made up.
    """
    nodes, means = snapshot.nodes, np.nan_to_num(snapshot.tasks.mean[tasks], nan=0.0)
    on = snapshot.tasks.node[tasks]
    capacity = nodes.capacity[on]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(capacity > 0, np.fmax(nodes.used[on], means) / capacity, 0.0)
        without = np.where(capacity > 0, ratios - means / capacity, 0.0)
    watts = nodes.power.watts(ratios, on) - nodes.power.watts(without, on)
    joules: Floats = np.nan_to_num(np.maximum(watts, 0.0), nan=0.0) * move_seconds(snapshot, tasks)
    return joules


class Moves:
    """The moves of one plan, while it is made.

    Holds who may leave, who may be given more, and which way back is barred; counts what the plan has room
    for. A policy asks before it moves.
    """

    def __init__(self, snapshot: Snapshot, stability: Stability) -> None:
        self._snapshot, self._stability = snapshot, stability
        self.may_leave = may_leave(snapshot, stability)
        self.may_receive = may_receive(snapshot, stability)
        self.barred = barred(snapshot, stability)
        self.room = stability.moves
        self.actions: list[Action] = []
        self.left: list[str] = []

    def pays(self, gain_watts: float, cost_joules: float) -> bool:
        """Whether watts saved make good for what the moves cost, in the time that is given."""
        return gain_watts * self._stability.payback_seconds > cost_joules

    def add(
        self,
        task: int,
        target: int,
        reasons: Sequence[str],
        *,
        gain_watts: float = 0.0,
        cost_joules: float = 0.0,
    ) -> Move:
        """Take a move into the plan. A task moves once in a plan, and a plan has so many moves."""
        assert self.room > 0
        assert self.may_leave[task]
        assert target not in (self._snapshot.tasks.node[task], self.barred[task])
        snapshot = self._snapshot
        move = Move(
            task=snapshot.tasks.ids[task],
            name=snapshot.tasks.names[task],
            node=snapshot.nodes.names[snapshot.tasks.node[task]],
            target=snapshot.nodes.names[target],
            reasons=tuple(reasons),
            gain_watts=gain_watts,
            cost_joules=cost_joules,
        )
        self.actions.append(move)
        self.may_leave[task] = False
        self.room -= 1
        return move

"""What a plan may move and what it costs: limits of moves, their energy, the watts of a plan."""

from collections.abc import Iterable, Sequence

import numpy as np

from collector.common.labels import NEVER, POWER_LABEL
from collector.common.liveness import Liveness
from collector.policies.actions import Action, Kill, Move, PowerOff, PowerOn, Start
from collector.policies.interface import Stability
from collector.policies.scoring import share
from collector.snapshot.power_curves import Floats, Rows
from collector.snapshot.tables import NOWHERE, Flags, Snapshot, TaskKind
from wire.resources import RESOURCES, Resource

COPY_BYTES_PER_SECOND = 125e6
"""Rate at which a container fills its memory again on another node: a link of one gigabit."""
_MEMORY = RESOURCES.index(Resource.MEMORY)


def reporting(snapshot: Snapshot, stability: Stability) -> Flags:
    """Return the nodes that are on, up and reported recently; the others are left alone."""
    nodes = snapshot.nodes
    fresh = np.less_equal(nodes.report_age_seconds, stability.stale_seconds)
    return nodes.on & fresh & np.equal(nodes.liveness, Liveness.UP)


def may_receive(snapshot: Snapshot, stability: Stability) -> Flags:
    """Return the nodes that a move may go to, free capacity apart."""
    return reporting(snapshot, stability) & snapshot.nodes.accepts & ~np.isnan(snapshot.nodes.capacity[:, 0])


def may_wake(snapshot: Snapshot) -> Flags:
    """Return the nodes that are off and accept containers once they are switched on."""
    nodes = snapshot.nodes
    return ~nodes.on & nodes.accepts & ~np.isnan(nodes.capacity[:, 0])


def may_sleep(snapshot: Snapshot) -> Flags:
    """Return the nodes that may be switched off when they are empty."""
    return ~snapshot.nodes.labelled(POWER_LABEL, NEVER)


def keeps_awake(snapshot: Snapshot) -> Flags:
    """Return the tasks that keep a node on: all but those that every node runs."""
    awake: Flags = (snapshot.tasks.node != NOWHERE) & (snapshot.tasks.kind != TaskKind.DAEMON)
    return awake


def may_leave(snapshot: Snapshot, stability: Stability) -> Flags:
    """Return the tasks that may move: movable, past their cool-down, on a node that reports."""
    tasks = snapshot.tasks
    placed = tasks.node != NOWHERE
    reports = np.zeros(placed.size, dtype=np.bool_)
    reports[placed] = reporting(snapshot, stability)[tasks.node[placed]]
    return tasks.movable & reports & (tasks.settled_seconds >= stability.cool_down_seconds)


def barred(snapshot: Snapshot, stability: Stability) -> Rows:
    """Return the node that each task must not return to yet; `NOWHERE` if there is none."""
    tasks = snapshot.tasks
    return np.where(tasks.settled_seconds < stability.no_return_seconds, tasks.came_from, NOWHERE)


def above(taken_ratio: Floats, ratio: float) -> Flags:
    """Return the nodes with any resource above this ratio."""
    over: Flags = np.any(np.nan_to_num(taken_ratio, nan=0.0) > ratio, axis=1)
    return over


def move_seconds(snapshot: Snapshot, tasks: Rows) -> Floats:
    """Return how long each move takes; the container runs twice meanwhile."""
    seconds: Floats = np.nan_to_num(snapshot.tasks.envelope[tasks, _MEMORY]) / COPY_BYTES_PER_SECOND
    return seconds


def move_joules(snapshot: Snapshot, tasks: Rows) -> Floats:
    """Return the energy of each move: while it lasts, the container draws what it adds to its node twice.

    0 where the node has no power curve.
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
    """The moves of a plan that is being made, within the limits of `Stability`."""

    def __init__(self, snapshot: Snapshot, stability: Stability) -> None:
        self._snapshot, self._stability = snapshot, stability
        self.may_leave = may_leave(snapshot, stability)
        self.may_receive = may_receive(snapshot, stability)
        self.barred = barred(snapshot, stability)
        self.room = stability.moves
        """How many more moves the plan may have."""
        self.actions: list[Action] = []
        self.left: list[str] = []

    def pays(self, gain_watts: float, cost_joules: float) -> bool:
        """Whether the saved power pays for the energy of the moves within the payback time."""
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
        """Add a move to the plan. A task moves at most once in a plan."""
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


def estimate_watts(snapshot: Snapshot, actions: Iterable[Action]) -> tuple[float | None, float | None]:
    """Return the cluster's power before and after some actions; None if a node that is on has no power curve.

    Containers take their mean use with them. Cuts change nothing: a reservation draws no power.
    """
    nodes, tasks = snapshot.nodes, snapshot.tasks
    load, on = np.nan_to_num(nodes.used, nan=0.0), nodes.on.copy()
    for action in actions:
        match action:
            case PowerOn() | PowerOff():
                on[nodes.index[action.node]] = isinstance(action, PowerOn)
            case Move() | Kill() | Start():
                row = tasks.index[action.task]
                if tasks.node[row] != NOWHERE:
                    load[tasks.node[row]] -= tasks.mean[row]
                if action.target is not None:
                    load[nodes.index[action.target]] += tasks.mean[row]
    return _total_watts(snapshot, nodes.used, nodes.on), _total_watts(snapshot, np.maximum(load, 0.0), on)


def _total_watts(snapshot: Snapshot, load: Floats, on: Flags) -> float | None:
    total = float(snapshot.nodes.power.watts(share(load, snapshot.nodes.capacity))[on].sum())
    return None if np.isnan(total) else total

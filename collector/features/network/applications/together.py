"""Plans of `net-aware`: bring together applications whose members are too far apart.

An application is moved only if all its members end up within its bound, and with as few moves as possible.
The same solver finds the nodes, with moves in the place of absent images. Moves are in an order in which each
has room and none brings members further apart than they are.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from collector.common.arrays import Flags, Floats, Rows
from collector.common.text import counted
from collector.decide.policies.filters import OpenNodes
from collector.decide.policies.interface import Plan, Stability
from collector.decide.policies.planned import PlannedCluster
from collector.decide.policies.stability import with_watts
from collector.decide.policies.worth import gained_time, move_joules
from collector.features.network.applications.distance import (
    NOT_MEASURED,
    describe_pair,
    farthest_pair,
    milliseconds,
    near_all,
    within,
)
from collector.features.network.applications.problem import Counts, Problem, free_amounts, kinds_of
from collector.features.network.applications.table import Applications, applications_in
from collector.features.network.mesh.delays import Delays
from collector.snapshot.tables import NOWHERE, Snapshot

Solve = Callable[[Problem], Counts | None]


def bring_together(snapshot: Snapshot, settings: Stability, solve: Solve) -> Plan:
    """Plan the moves of every application that is apart, by name."""
    applications, delays = applications_in(snapshot), snapshot.part(Delays)
    if not np.isfinite(applications.delay_max).any():
        return Plan()
    if delays is None:
        return Plan(left=(NOT_MEASURED,))
    planner = _Planner(snapshot, applications, delays, settings, solve)
    for row in np.flatnonzero(np.isfinite(applications.delay_max)).tolist():
        planner.plan(row)
    planned = planner.planned
    plan = Plan(actions=tuple(planned.actions), reasons=tuple(planner.reasons), left=tuple(planned.left))
    return with_watts(snapshot, plan)


@dataclass(frozen=True, eq=False, slots=True)
class _Members:
    """The running tasks of an application."""

    name: str
    bound: float
    rows: Rows
    leave: Flags
    """Which of them may move."""


class _Planner:
    """The plan that is being made."""

    def __init__(
        self,
        snapshot: Snapshot,
        applications: Applications,
        delays: Delays,
        settings: Stability,
        solve: Solve,
    ) -> None:
        self._snapshot, self._applications, self._delays = snapshot, applications, delays
        self._solve, self._settings = solve, settings
        self.planned = PlannedCluster(snapshot, settings)
        self.reasons: list[str] = []
        self._free = free_amounts(snapshot)
        self._open = OpenNodes(snapshot)
        self._sizes: Floats = np.nan_to_num(
            np.column_stack((snapshot.tasks.allocated, snapshot.tasks.envelope)), nan=0.0
        )
        self.planned.follow(-self._sizes, self._free)

    def plan(self, application: int) -> None:
        """Plan the moves of an application, if it is apart."""
        tasks = self._snapshot.tasks
        services = self._applications.services_of(application)
        rows = np.sort(self._applications.tasks_of(self._snapshot, services))
        rows = rows[tasks.node[rows] != NOWHERE]
        members = _Members(
            self._applications.names[application],
            float(self._applications.delay_max[application]),
            rows,
            self.planned.may_leave[rows],
        )
        apart = self._farthest(members)
        if apart is None:
            return
        wanted = self._targets(members)
        if wanted is None:
            self._leave(apart, "no nodes within the bound have room for all of its containers that may move")
        elif len(wanted) > self.planned.room:
            room = counted(self.planned.room, "more move")
            self._leave(apart, f"it needs {counted(len(wanted), 'move')}, and the plan may have {room}")
        elif (order := self._in_order(wanted)) is None:
            self._leave(apart, "its containers would have to change places")
        else:
            self._move(members, apart, order)

    def _leave(self, apart: str, why: str) -> None:
        self.planned.left.append(f"{apart}; {why}")

    def _farthest(self, members: _Members) -> str | None:
        """Describe the two nodes that are farthest from each other, beyond the bound; None if none are."""
        one, other, seconds = self._longest(members)
        if within(np.array([seconds]), members.bound)[0]:
            return None
        names = self._snapshot.nodes.names
        return describe_pair(names[one], names[other], seconds, members.bound, members.name)

    def _longest(self, members: _Members) -> tuple[int, int, float]:
        """Return the two nodes of members that talk with the longest round-trip time; unknown is longest."""
        services = np.unique(self._snapshot.tasks.service[members.rows])
        return farthest_pair(
            self._snapshot, self._delays, services, lambda some: self._nodes_of(members.rows, some)
        )

    def _nodes_of(self, rows: Rows, services: Rows) -> Rows:
        """Return the nodes of some tasks that belong to some services, pending tasks included."""
        pending = self._snapshot.pending
        of_services = rows[np.isin(self._snapshot.tasks.service[rows], services)]
        on = (self.planned.home[of_services], pending.nodes[np.isin(pending.services, services)])
        return np.unique(np.concatenate(on))

    def _targets(self, members: _Members) -> dict[int, int] | None:
        """Return the new nodes of the tasks that must move; None if there are none for all of them."""
        moving, staying = members.rows[members.leave], members.rows[~members.leave]
        if not moving.size or not self._are_near(members, staying):
            return None
        service, home = self._snapshot.tasks.service[moving], self.planned.home[moving]
        kind, first = kinds_of(
            [(*map(int, pair), *self._sizes[row]) for *pair, row in zip(service, home, moving, strict=True)]
        )
        problem = self._problem(members, moving, staying, first, np.bincount(kind))
        placed = self._solve(problem)
        if placed is None:
            return None
        wanted: dict[int, int] = {}
        for number, counts in enumerate(placed):
            targets = np.repeat(np.arange(len(counts)), counts)
            # Of equal tasks, the last ones stay.
            targets = targets[np.argsort(targets == home[first[number]], kind="stable")]
            wanted.update(zip(moving[kind == number].tolist(), targets.tolist(), strict=True))
        return {task: target for task, target in wanted.items() if target != self.planned.home[task]}

    def _are_near(self, members: _Members, rows: Rows) -> bool:
        """Whether those that may not move are within the bound of each other."""
        fixed = _Members(members.name, members.bound, rows, np.zeros(rows.size, dtype=np.bool_))
        return self._farthest(fixed) is None

    def _problem(
        self, members: _Members, moving: Rows, staying: Rows, first: Rows, counts: Counts
    ) -> Problem:
        snapshot, delays = self._snapshot, self._delays
        nodes, tasks = snapshot.nodes, moving[first]
        home, service = self.planned.home[tasks], snapshot.tasks.service[tasks]
        sizes = self._sizes[tasks]
        free = np.maximum(self._free, 0.0)
        np.add.at(free, self.planned.home[moving], self._sizes[moving])
        takes = sizes.any(axis=0)
        receives = self.planned.may_receive & ~nodes.has_bottleneck & ~nodes.is_busy
        allowed = np.tile(receives, (len(tasks), 1))
        for row, task in enumerate(tasks.tolist()):
            if self.planned.no_return_nodes[task] != NOWHERE:
                allowed[row, self.planned.no_return_nodes[task]] = False
            allowed[row, home[row]] = True
            fixed = self._nodes_of(staying, self._applications.peers_of(int(service[row])))
            allowed[row] &= near_all(delays, fixed, members.bound)
        peers = [set(self._applications.peers_of(each).tolist()) for each in service.tolist()]
        used = np.zeros(len(nodes.names), dtype=np.bool_)
        used[self.planned.home[staying]] = True
        count = int(counts.sum())
        return Problem(
            nodes=np.arange(len(nodes.names)),
            counts=counts,
            most=counts,
            sizes=sizes[:, takes],
            free=np.minimum(free, counts @ sizes)[:, takes],
            allowed=allowed,
            absent=np.arange(len(nodes.names)) != home[:, np.newaxis],
            talks=np.array([[int(each) in others for each in service] for others in peers]),
            used=used,
            delays=delays,
            bound=members.bound,
            absent_weight=1 / count,
            candidates=len(nodes.names),
            # Fewer nodes are better, but never worth a move.
            node_weight=1 / (count * (count + 1)),
        )

    def _in_order(self, wanted: dict[int, int]) -> list[tuple[int, int]] | None:
        """Return the moves in an order in which each has room and brings no members further apart."""
        free, home = self._free.copy(), self.planned.home.copy()
        left, order = dict(wanted), list[tuple[int, int]]()
        while left:
            for task, target in left.items():
                size = self._sizes[task]
                near = self._open.open_to(task, home)
                if (free[target][size > 0] >= size[size > 0] * (1 - 1e-9)).all() and (
                    near is None or near[target]
                ):
                    break
            else:
                return None
            free[home[task]] += size
            free[target] -= size
            home[task] = target
            order.append((task, left.pop(task)))
        return order

    def _move(self, members: _Members, apart: str, order: list[tuple[int, int]]) -> None:
        before = self._longest(members)[2]
        joules = move_joules(self._snapshot, np.array([task for task, _ in order]))
        for task, target in order:
            self.planned.put(task, target)
        after = self._longest(members)[2]
        # Every member waits that much less for the others.
        less = 1.0 - after / before if before > 0.0 and np.isfinite(before) else 1.0
        rows = [task for task, _ in order]
        worth = gained_time(self._snapshot, self._settings, less * members.rows.size, rows)
        if not worth.pays:
            for task, _ in order:
                self.planned.put(task, int(self._snapshot.tasks.node[task]))
            self._leave(apart, f"to bring it together {worth.sentence()}")
            return
        gain = (
            f"brings application {members.name} together with {counted(len(order), 'move')}: its longest"
            f" round-trip time falls from {milliseconds(before)} to {milliseconds(after)}"
        )
        self.reasons.append(gain)
        for (task, target), cost in zip(order, joules.tolist(), strict=True):
            self.planned.add(task, target, (apart, gain, worth.sentence()), cost_joules=cost)

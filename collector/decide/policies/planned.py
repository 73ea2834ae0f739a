"""The cluster as it will be after the steps of a plan so far: each step counts in the next."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collector.common.arrays import Flags, Rows
from collector.decide.policies.actions import Action, Move, PowerOff
from collector.decide.policies.filters import OpenNodes
from collector.decide.policies.interface import Stability
from collector.decide.policies.overbooking import ReservationBook
from collector.decide.policies.stability import may_leave, may_receive, no_return_nodes
from collector.decide.policies.worth import saved_by_switching_off
from collector.snapshot.overbooking import allocations, cut_received, limit_left
from collector.snapshot.tables import NOWHERE, Snapshot

Numbers = NDArray[Any]


class PlannedCluster:
    """Where each task is in a plan that is being made, what follows for nodes, and the moves so far.

    The plan stays within the limits of `Stability`.
    """

    def __init__(self, snapshot: Snapshot, stability: Stability) -> None:
        self._snapshot, self._stability = snapshot, stability
        self.home = snapshot.tasks.node.copy()
        """The node of each task; `NOWHERE` if it has none."""
        self.may_leave = may_leave(snapshot, stability)
        self.may_receive = may_receive(snapshot, stability)
        self.no_return_nodes = no_return_nodes(snapshot, stability)
        self.room = stability.moves
        """How many more moves the plan may have."""
        self.actions: list[Action] = []
        self.left: list[str] = []
        """Why other actions are not part of the plan."""
        self.kept: dict[int, str] = {}
        """Why nodes that were examined are not emptied, or not switched off, by their rows."""
        self._followed: list[tuple[Numbers, Numbers]] = []
        self._books = ReservationBook.of(snapshot)
        every = np.arange(len(snapshot.tasks.ids))
        self._reservations = allocations(snapshot.tasks, every)
        self._limits = limit_left(snapshot.tasks.task_class, cut_received(snapshot.tasks, every))
        self._open = OpenNodes(snapshot)

    def follow(self, of_tasks: Numbers, of_nodes: Numbers) -> None:
        """Keep amounts of nodes up to date: a task takes its own along. Both have a row each."""
        self._followed.append((of_tasks, of_nodes))

    def put(self, task: int, node: int) -> None:
        """Assume that a task runs on another node from now on, or on none."""
        home = int(self.home[task])
        if home == node:
            return
        amounts = self._reservations[task]
        if home != NOWHERE:
            # The limit stays, since other tasks may have the same.
            self._books.reserved[home] -= amounts
            for of_tasks, of_nodes in self._followed:
                of_nodes[home] -= of_tasks[task]
        if node != NOWHERE:
            self._books.add(node, amounts, float(self._limits[task]))
            for of_tasks, of_nodes in self._followed:
                of_nodes[node] += of_tasks[task]
        self.home[task] = node

    def leavers(self, node: int) -> Rows:
        """Return the tasks on a node that may leave it."""
        return np.flatnonzero((self.home == node) & self.may_leave)

    def open_to(self, task: int) -> Flags:
        """Return the nodes that its reservation, constraints, last move and the filters of features allow."""
        amounts = self._reservations[task]
        allowed = np.ones(len(self._snapshot.nodes.names), dtype=np.bool_)
        if amounts.any() and not self._stability.overbooks:
            allowed = self._books.fits(amounts, float(self._limits[task]))
        if self.no_return_nodes[task] != NOWHERE:
            allowed[self.no_return_nodes[task]] = False
        open_to = self._open.open_to(task, self.home)
        return allowed if open_to is None else allowed & open_to

    def switch_off(self, row: int, why: str, *, is_weighed: bool = False) -> PowerOff | None:
        """Return the step that switches an empty node off; None if that costs more than it brings.

        Of a node that the plan empties, `is_weighed` tells that its moves have paid for this as well.
        """
        snapshot, name = self._snapshot, self._snapshot.nodes.names[row]
        worth = saved_by_switching_off(snapshot, self._stability, row)
        if worth is not None and not worth.pays and not is_weighed:
            self.kept[row] = f"switching it off {worth.sentence()}"
            return None
        reasons = (why,) if worth is None else (why, worth.sentence())
        gain, cost = (0.0, 0.0) if worth is None else (worth.gain, worth.cost)
        return PowerOff(node=name, reasons=reasons, gain_watts=gain, cost_joules=cost)

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
        assert target not in (self._snapshot.tasks.node[task], self.no_return_nodes[task])
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
        self.put(task, target)
        self.may_leave[task] = False
        self.room -= 1
        return move

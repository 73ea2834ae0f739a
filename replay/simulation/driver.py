"""The simulated driver carries out actions. Moves and boots take time; killed containers wait again."""

import heapq
from collections.abc import Sequence

import numpy as np

from collector.common.arrays import Rows
from collector.decide.policies.actions import Action, Cut, Kill, Move, PowerOff, PowerOn, Resize, Scale, Start
from collector.observe.updates import Succession
from collector.snapshot.columns import four
from collector.snapshot.tables import NOWHERE
from replay.setup.hosts import MEBIBYTE
from replay.simulation.accounting import Account
from replay.simulation.agents.agents import SimulatedAgents
from replay.simulation.agents.samples import quantities_of
from replay.simulation.cluster import Cluster, ContainerPhase, unix
from wire.messages import Report
from wire.resources import Quantities

_MEMORY = 1


class SimulatedDriver:
    """Changes the cluster. `finish` ends moves and boots, at the time that `next_end` returns."""

    def __init__(
        self, cluster: Cluster, agents: SimulatedAgents, account: Account, migration_mb_per_second: float
    ) -> None:
        self._cluster, self._agents, self._account = cluster, agents, account
        self._bytes_per_second = migration_mb_per_second * MEBIBYTE
        self._node_row = {name: row for row, name in enumerate(cluster.hosts.names)}
        self._row = {name: row for row, name in enumerate(cluster.workload.ids)}
        """The row of each container, by all ids that it ever had."""
        self._before_cut: dict[str, Quantities] = {}
        """The allocation of containers before their last cut."""
        self._moving: list[tuple[float, int]] = []
        self._booting: list[tuple[float, int]] = []
        self._after_boot: dict[int, list[int]] = {}
        """Moves to a host that is still booting."""
        self._off_when_empty: set[int] = set()
        self.changed: set[int] = set()
        """Hosts on which a container started, ended or got another limit; the reader clears them."""
        self.reallocated: set[int] = set()
        """Containers whose host or reservation changed; the reader clears them."""
        self.reports: list[Report | None] = []
        """Reports of agents that started or stopped; the reader clears them."""
        self.switched: set[int] = set()
        """Hosts that were switched on or off; the reader clears them."""
        self.successions: list[Succession] = []
        """Moves that ended; the reader clears them."""

    def next_end(self) -> float:
        return min((queue[0][0] for queue in (self._moving, self._booting) if queue), default=np.inf)

    def finish(self, now: float) -> None:
        """End the moves and boots whose time has come."""
        while self._booting and self._booting[0][0] <= now:
            self._finish_boot(heapq.heappop(self._booting)[1], now)
        while self._moving and self._moving[0][0] <= now:
            self._finish_move(heapq.heappop(self._moving)[1], now)

    def carry_out(self, actions: Sequence[Action], now: float) -> None:
        for action in actions:
            match action:
                case Move():
                    row, target = self._row[action.task], self._node_row[action.target]
                    source = self._node_row[action.node]
                    if not self.exists(action.task):
                        pass  # it was moved before, and has another id
                    elif self._cluster.target[row] == source and self._cluster.on[source]:
                        self._redirect(row, target)
                    else:
                        self._move(row, target, now)
                case PowerOn() | PowerOff():
                    self._switch(self._node_row[action.node], on=isinstance(action, PowerOn), now=now)
                case Start():
                    row = self._row[action.task]
                    if self._cluster.phase[row] == ContainerPhase.WAITING:
                        self.place_waiting(row, self._node_row[action.target], now)
                case Cut():
                    row = self._row[action.task]
                    self._before_cut[action.task] = quantities_of(self._cluster.allocated[row])
                    self.set_allocation(row, action.allocated)
                case Kill():
                    self._kill(self._row[action.task], action.target, now)

    def place(self, row: int, node: int, now: float) -> None:
        """Start a container on a host, or as soon as the host has booted."""
        cluster = self._cluster
        if not cluster.on[node]:
            self._switch(node, on=True, now=now)
        cluster.node[row] = node
        cluster.phase[row] = ContainerPhase.STARTING
        if cluster.on[node]:
            self._start(row, now)

    def _start(self, row: int, now: float) -> None:
        cluster = self._cluster
        cluster.since[row] = now
        cluster.phase[row] = ContainerPhase.RUNNING
        self._row[self._agents.containers.start(row, unix(now))] = row
        self.reallocated.add(row)
        self.changed.add(int(cluster.node[row]))

    def place_waiting(self, row: int, node: int, now: float) -> None:
        """Start a container that has waited since it arrived or was killed."""
        if self._cluster.killed[row]:
            self._account.count("killed_placed_again")
            self._cluster.killed[row] = False
        else:
            self._account.count_placement(now - float(self._cluster.workload.arrival_seconds[row]))
        self.place(row, node, now)

    def end(self, rows: Rows, now: float) -> None:
        cluster = self._cluster
        nodes = np.unique(cluster.node[rows])
        cluster.phase[rows] = ContainerPhase.ENDED
        self._remove_from_hosts(rows)
        self.reallocated.difference_update(rows.tolist())
        for node in nodes[nodes != NOWHERE].tolist():
            self.changed.add(node)
            self._power_off_if_empty(node, now)

    def kill_out_of_memory(self, rows: Rows, now: float) -> None:
        """Kill the containers of a host that has run out of memory."""
        for row in rows.tolist():
            self._agents.kill(row, int(self._cluster.node[row]), unix(now))
        self._account.count("died", int(rows.size))
        if self._account.first_died_seconds is None:
            self._account.first_died_seconds = now
        self.end(rows, now)

    def _remove_from_hosts(self, rows: Rows) -> None:
        self._cluster.node[rows] = NOWHERE
        self._cluster.target[rows] = NOWHERE

    def _move(self, row: int, target: int, now: float) -> None:
        cluster = self._cluster
        ready = cluster.phase[row] == ContainerPhase.RUNNING and cluster.target[row] == NOWHERE
        if not ready or cluster.node[row] == target:
            return
        cluster.target[row] = target
        if not cluster.on[target]:
            self._switch(target, on=True, now=now)
        if cluster.on[target]:
            self._begin_move(row, now)
        else:
            self._after_boot.setdefault(target, []).append(row)

    def _redirect(self, row: int, target: int) -> None:
        """Redirect a moving container to another host, as CloudSim does; this counts as a second move."""
        if self._cluster.on[target]:
            self._cluster.target[row] = target
            self._account.count("migrations")

    def _begin_move(self, row: int, now: float) -> None:
        """Begin a move. As in CloudSim, it copies the memory of the container over half of the link."""
        cluster = self._cluster
        one = np.array([row])
        memory = cluster.workload.requested[row, _MEMORY]
        used = cluster.workload.use.at(now, one, cluster.since[one])[0, _MEMORY]
        size = float(np.nanmax([used, 0.0 if np.isnan(memory) or used > 0 else memory]))
        heapq.heappush(self._moving, (now + size / self._bytes_per_second, row))
        self._account.count("migrations")

    def _finish_move(self, row: int, now: float) -> None:
        cluster = self._cluster
        source, target = int(cluster.node[row]), int(cluster.target[row])
        if target == NOWHERE:
            return  # the container ended during the move
        cluster.came_from[row], cluster.node[row], cluster.target[row] = source, target, NOWHERE
        # On the target, the agent reports a new container with another id.
        before = self._agents.containers.id_of(row)
        after = self._agents.containers.start(row, unix(now))
        self._row[after] = row
        names = cluster.hosts.names
        self.successions.append(
            Succession(node=names[target], container=after, from_node=names[source], predecessor=before)
        )
        self.reallocated.add(row)
        self.changed |= {source, target}
        self._power_off_if_empty(source, now)

    def _power_off_if_empty(self, node: int, now: float) -> None:
        if node in self._off_when_empty and not self._cluster.on_or_coming(node).size:
            self._off_when_empty.discard(node)
            self._cluster.on[node] = False
            self.reports.append(self._agents.shut_down(node, unix(now)))
            self.switched.add(node)

    def _switch(self, node: int, *, on: bool, now: float) -> None:
        cluster = self._cluster
        if not on:
            if cluster.on[node]:
                self._account.count("switched_off")
                self._off_when_empty.add(node)
                self._power_off_if_empty(node, now)
            return
        self._off_when_empty.discard(node)
        if cluster.on[node] or cluster.booting[node]:
            return
        self._account.count("switched_on")
        if cluster.hosts.boot_seconds[node] > 0:
            cluster.booting[node] = True
            heapq.heappush(self._booting, (now + float(cluster.hosts.boot_seconds[node]), node))
        else:
            self._power_on(node, now)

    def _power_on(self, node: int, now: float) -> None:
        self._cluster.on[node] = True
        self.reports.append(self._agents.boot(node, unix(now)))
        self.switched.add(node)
        self.changed.add(node)

    def _finish_boot(self, node: int, now: float) -> None:
        cluster = self._cluster
        cluster.booting[node] = False
        self._power_on(node, now)
        waiting = np.flatnonzero((cluster.node == node) & (cluster.phase == ContainerPhase.STARTING))
        for row in waiting.tolist():
            self._start(row, now)
        for row in self._after_boot.pop(node, []):
            if cluster.target[row] == node:
                self._begin_move(row, now)

    def set_allocation(self, row: int, allocated: Quantities) -> None:
        """Cut the allocation of a container, or restore it."""
        cluster = self._cluster
        wanted = np.array(four(allocated))
        before = cluster.allocated[row].copy()
        cluster.allocated[row] = np.where(np.isnan(wanted), before, wanted)
        requested = cluster.workload.requested[row]
        cluster.cut[row] = bool(np.any(cluster.allocated[row] < requested * (1 - 1e-9)))
        self._agents.containers.set_limit(row, cluster.allocated[row])
        self.reallocated.add(row)
        if cluster.node[row] != NOWHERE:
            self.changed.add(int(cluster.node[row]))
        if np.any(cluster.allocated[row] < before):
            self._account.count("cuts")
            self._account.cut += np.nan_to_num(before - cluster.allocated[row], nan=0.0)
        else:
            self._account.count("given_back")

    def _kill(self, row: int, target: str | None, now: float) -> None:
        cluster, workload = self._cluster, self._cluster.workload
        self._account.count("kills")
        node = int(cluster.node[row])
        self._remove_from_hosts(np.array([row]))
        cluster.allocated[row] = workload.requested[row]
        cluster.cut[row] = False
        self._agents.containers.set_limit(row, cluster.allocated[row])
        cluster.left[row] = workload.lifetime_seconds[row]
        cluster.phase[row] = ContainerPhase.WAITING
        cluster.killed[row] = True
        if target is not None:
            self.place_waiting(row, self._node_row[target], now)
        if node != NOWHERE:
            self.changed.add(node)
            self._power_off_if_empty(node, now)

    def is_done(self, action: Action) -> bool:
        """Whether an action that was begun has ended, with or without success."""
        cluster = self._cluster
        match action:
            case Move():
                is_moving = cluster.target[self._row[action.task]] != NOWHERE
                return not (is_moving and self.exists(action.task))
            case PowerOn():
                return bool(cluster.on[self._node_row[action.node]])
            case PowerOff():
                return not cluster.on[self._node_row[action.node]]
            case Cut() | Kill() | Start() | Scale() | Resize():
                return True

    def exists(self, task: str) -> bool:
        """Whether a container has not ended and was not replaced."""
        row = self._row[task]
        return (
            bool(self._cluster.phase[row] != ContainerPhase.ENDED)
            and self._agents.containers.id_of(row) == task
        )

    def successors(self, action: Action) -> tuple[str, ...]:
        """The container that replaced a moved or killed one, if it still exists."""
        if not isinstance(action, Move | Kill) or self.exists(action.task):
            return ()
        after = self._agents.containers.id_of(self._row[action.task])
        return (after,) if self.exists(after) else ()

    def undo(self, action: Action, now: float) -> None:
        """Undo a move or a cut, as a real driver does; other actions are not undone."""
        match action:
            case Move():
                for task in self.successors(action):
                    self._move(self._row[task], self._node_row[action.node], now)
            case Cut() if self.exists(action.task):
                self.set_allocation(self._row[action.task], self._before_cut[action.task])
            case _:
                pass

    def came_from(self, row: int) -> str | None:
        """The host from which a container was last moved."""
        source = int(self._cluster.came_from[row])
        return None if source == NOWHERE else self._cluster.hosts.names[source]

"""One policy through a workload with promises of availability: from event to event.

A policy runs when a container arrives or ends, and after `decide_seconds` without a run. Its plan stops and
starts containers at once. A started container runs when its start-up time is over; a stopped one waits again,
and keeps the time that it ran.
"""

from collections.abc import Callable
from dataclasses import replace
from time import thread_time

import numpy as np

from collector.common.arrays import Floats
from collector.decide.policies.actions import Kill, Start
from collector.features.promises.ledger.promises import ServiceMode
from collector.snapshot.tables import NOWHERE
from replay.setup.hosts import Hosts
from replay.setup.scenario import Startup
from replay.setup.workload import PromisedContainers, Workload
from replay.simulation.accounting import Account
from replay.simulation.cluster import SOON, ArrivalQueue, Cluster, ContainerPhase
from replay.simulation.policy_runs import PolicyRun
from replay.simulation.queue.lifecycle import Lifecycles, QueueSnapshots
from replay.simulation.results import Outcome, nodes_at_end
from replay.simulation.run import few_collections
from wire.errors import UserError

_ROUNDING = 1 + 1e-9
_INTERVAL_SECONDS = 600.0
"""Contention is judged by intervals of this length, as in the study of QoS-driven scheduling."""


def run_queue(
    policy_run: PolicyRun,
    hosts: Hosts,
    workload: Workload,
    startup: Startup,
    progress: Callable[[float], None],
) -> Outcome:
    """Simulate the whole workload; `progress` is called with the simulated seconds."""
    assert workload.promised is not None
    if policy_run.chosen.policy.rebalance is None:
        raise UserError(
            f"{policy_run.chosen.policy.name} does not start waiting containers: "
            "compare priority and qos-driven on this workload"
        )
    with few_collections():
        return _QueueRun(policy_run, hosts, workload, workload.promised, startup).run(progress)


class _QueueRun:
    """A running simulation. Times are seconds of the trace."""

    def __init__(
        self,
        policy_run: PolicyRun,
        hosts: Hosts,
        workload: Workload,
        promised: PromisedContainers,
        startup: Startup,
    ) -> None:
        simulation = policy_run.simulation
        self._policy_run, self._workload, self._simulation = policy_run, workload, simulation
        self._loses_work = promised.mode is ServiceMode.BATCH
        self._cluster = Cluster(hosts, workload, simulation.migration_use_ratio)
        self._account = Account(
            self._cluster, idle_is_off=simulation.idle_is_off, warm_up_seconds=simulation.warm_up_seconds
        )
        self._lifecycles = Lifecycles(workload, promised, hosts.names)
        self._snapshots = QueueSnapshots(self._cluster, promised, self._lifecycles, seed=simulation.seed)
        self._first_takes_time = startup.first
        self._same_host_seconds = np.array(startup.same_host_seconds)
        self._other_host_seconds = np.array(startup.other_host_seconds)
        self._random = np.random.default_rng([simulation.seed, len("start-up")])
        self._arrivals = ArrivalQueue(workload.arrival_seconds)
        self._operations = 0
        self._starts_at: Floats = np.full(workload.size, np.inf)
        self._ends_at: Floats = np.full(workload.size, np.inf)
        self._startup_seconds: Floats = np.full(workload.size, np.nan)
        self._free: Floats = np.nan_to_num(hosts.capacity - hosts.system, nan=np.inf)
        self._outcome = Outcome(name=policy_run.name, account=self._account)

    def run(self, progress: Callable[[float], None]) -> Outcome:
        now = self._simulation.start_seconds
        end = now + self._workload.duration_seconds
        step, period = self._workload.step_seconds, self._simulation.decide_seconds
        point_at, decide_at, interval_at = now + step, now + period, now + _INTERVAL_SECONDS
        is_due = self._arrive(now)
        load = self._cluster.load(now)
        while now < end:
            if is_due:
                self._decide(now)
                decide_at = now + period
                load = self._cluster.load(now)
            starts, ends = float(self._starts_at.min()), float(self._ends_at.min())
            next_at = min(end, point_at, decide_at, interval_at, self._arrivals.next_at, starts, ends)
            self._account.add_interval(now, load, next_at, load)
            now = next_at
            if now >= point_at - SOON:
                waiting = self._cluster.rows(ContainerPhase.WAITING, ContainerPhase.STARTING)
                self._account.add_point(now, self._cluster.rows(ContainerPhase.RUNNING).size, waiting.size)
                point_at += step
                progress(now)
            self._run_started(now)
            is_due = self._complete(now)
            if now >= interval_at - SOON:
                self._outcome.availability.append(self._lifecycles.interval(now))
                interval_at += _INTERVAL_SECONDS
            is_due |= self._arrive(now)
            is_due |= now >= decide_at - SOON
            load = self._cluster.load(now)
        self._account.count("waiting_at_end", int(self._cluster.rows(ContainerPhase.WAITING).size))
        self._outcome.nodes.update(nodes_at_end(self._cluster, load))
        kept = self._lifecycles.figures(
            now, preemptions=self._account.counts["kills"], operations=self._operations
        )
        return replace(self._outcome, promises=kept)

    # --- Events -------------------------------------------------------------------------------------

    def _arrive(self, now: float) -> bool:
        rows = self._arrivals.pop(now)
        self._cluster.phase[rows] = ContainerPhase.WAITING
        self._account.count("arrived", int(rows.size))
        for row in rows.tolist():
            self._lifecycles.admit(row, now)
        return bool(rows.size)

    def _run_started(self, now: float) -> None:
        """Let the containers run whose start-up time is over."""
        for row in np.flatnonzero(self._starts_at <= now + SOON).tolist():
            self._starts_at[row] = np.inf
            self._run(row, now)

    def _run(self, row: int, now: float) -> None:
        cluster = self._cluster
        cluster.phase[row], cluster.since[row] = ContainerPhase.RUNNING, now
        self._ends_at[row] = now + cluster.left[row]
        seconds = float(self._startup_seconds[row])
        self._lifecycles.start(row, int(cluster.node[row]), now, None if np.isnan(seconds) else seconds)

    def _complete(self, now: float) -> bool:
        rows = np.flatnonzero(self._ends_at <= now + SOON)
        if not rows.size:
            return False
        self._lifecycles.complete(rows, now)
        for row in rows.tolist():
            self._vacate(row)
        self._cluster.phase[rows] = ContainerPhase.ENDED
        self._ends_at[rows] = np.inf
        self._account.count("finished", int(rows.size))
        return True

    # --- Decisions ----------------------------------------------------------------------------------

    def _decide(self, now: float) -> None:
        if not (self._cluster.phase == ContainerPhase.WAITING).any():
            return
        snapshot = self._snapshots.take(now)
        began = thread_time()
        plan = self._policy_run.chosen.rebalance(snapshot)
        self._outcome.rebalance_seconds.append(thread_time() - began)
        self._operations += plan.operations
        for action in plan.actions:
            match action:
                case Kill(target=None):
                    self._preempt(self._lifecycles.row_of[action.task], now)
                case Start():
                    node = snapshot.nodes.index[action.target]
                    self._begin(self._lifecycles.row_of[action.task], node, now)
                case _:
                    raise UserError(
                        f"{self._policy_run.name} plans to {action.kind}, which is not possible in a queue: "
                        "compare priority and qos-driven on this workload"
                    )

    def _begin(self, row: int, node: int, now: float) -> None:
        cluster = self._cluster
        needed = np.nan_to_num(self._workload.requested[row], nan=0.0)
        if cluster.phase[row] != ContainerPhase.WAITING or np.any(
            needed > self._free[node] * _ROUNDING + SOON
        ):
            raise ValueError(
                f"{self._policy_run.name} starts {self._workload.ids[row]} where it does not fit"
            )
        if cluster.came_from[row] == NOWHERE:
            waited = now - float(self._workload.arrival_seconds[row])
            self._account.count_placement(waited)
        else:
            self._account.count("killed_placed_again")
        seconds = self._draw_startup_seconds(int(cluster.came_from[row]), node)
        cluster.node[row], cluster.phase[row], cluster.since[row] = node, ContainerPhase.STARTING, now
        cluster.allocated[row] = self._workload.requested[row]
        self._free[node] -= needed
        self._startup_seconds[row] = np.nan if seconds is None else seconds
        if seconds:
            self._starts_at[row] = now + seconds
        else:
            self._run(row, now)

    def _draw_startup_seconds(self, last_node: int, node: int) -> float | None:
        """Seconds until a container runs on a node; None if the start takes no time."""
        if last_node == NOWHERE and not self._first_takes_time:
            return None
        measured = self._same_host_seconds if node == last_node else self._other_host_seconds
        return float(self._random.choice(measured))

    def _preempt(self, row: int, now: float) -> None:
        cluster = self._cluster
        if cluster.phase[row] == ContainerPhase.RUNNING:
            ran = now - cluster.since[row]
            cluster.left[row] = (
                self._workload.lifetime_seconds[row] if self._loses_work else cluster.left[row] - ran
            )
        self._starts_at[row] = self._ends_at[row] = np.inf
        self._lifecycles.preempt(row, now)
        self._vacate(row)
        cluster.phase[row] = ContainerPhase.WAITING
        self._account.count("kills")

    def _vacate(self, row: int) -> None:
        cluster = self._cluster
        node = int(cluster.node[row])
        self._free[node] += np.nan_to_num(self._workload.requested[row], nan=0.0)
        cluster.came_from[row], cluster.node[row] = node, NOWHERE

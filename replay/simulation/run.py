"""One policy through one workload: from event to event, with everything in columns.

An event is an arrival, an end, the end of a move or of a boot, a window that closes, or a time to decide.
Between two events nothing changes but what containers use, so energy is added up from event to event.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import thread_time

import numpy as np

from collector.policies.interface import Policy, PolicySettings
from collector.snapshot.power_curves import Rows
from collector.snapshot.tables import NOWHERE, TaskKind
from replay.setup.hosts import Hosts
from replay.setup.scenario import Learning, Simulation
from replay.setup.workload import Workload
from replay.simulation.accounting import Account
from replay.simulation.cluster import Cluster, Load, Phase
from replay.simulation.executor import Actor
from replay.simulation.observer import Observer
from replay.simulation.prior import Prior
from replay.simulation.snapshots import Viewer
from wire.errors import UserError

_CPU, _MEMORY = 0, 1
_SOON = 1e-6
"""Events that lie less than this apart are one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A policy, as it takes part."""

    name: str
    policy: Policy
    settings: PolicySettings
    learning: Learning
    simulation: Simulation


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAtEnd:
    """A host when the run is over."""

    name: str
    on: bool
    containers: int
    used_ratio: tuple[float, ...]
    """What is wanted of each of its resources, of what it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A run that is over."""

    name: str
    account: Account
    place_seconds: list[float]
    rebalance_seconds: list[float]
    lateness_ratio: list[float]
    """Of each job that ended: how much longer it took than if it had got all that it wanted."""
    nodes: list[NodeAtEnd]


def run(
    contender: Contender, hosts: Hosts, workload: Workload, prior: Prior, tell: Callable[[float], None]
) -> Outcome:
    """Simulate from the beginning to the end; `tell` is called with the seconds that are done."""
    if contender.policy.place is None:
        raise UserError(f"{contender.policy.name} places nothing, so there is nothing to replay with it")
    return _Run(contender, hosts, workload, prior).go(tell)


class _Run:
    """A simulation that is under way."""

    def __init__(self, contender: Contender, hosts: Hosts, workload: Workload, prior: Prior) -> None:
        simulation = contender.simulation
        self._contender, self._workload, self._simulation = contender, workload, simulation
        self._cluster = Cluster(hosts, workload, simulation.migration_use_ratio)
        self._observer = Observer(self._cluster, simulation, contender.learning, prior)
        self._account = Account(
            self._cluster, idle_is_off=simulation.idle_is_off, warm_up_seconds=simulation.warm_up_seconds
        )
        self._viewer = Viewer(self._cluster, self._observer, simulation)
        self._actor = Actor(self._cluster, self._observer, self._account, simulation.migration_mb_per_second)
        self._arrivals = np.argsort(workload.arrival_seconds, kind="stable")
        self._arrived = 0
        self._turn = 0
        self._delay_seconds = 0.0 if simulation.exact else simulation.delay_seconds
        self._outcome = Outcome(
            name=contender.name,
            account=self._account,
            place_seconds=[],
            rebalance_seconds=[],
            lateness_ratio=[],
            nodes=[],
        )

    def go(self, tell: Callable[[float], None]) -> Outcome:
        now = self._simulation.start_seconds
        end = now + self._workload.duration_seconds
        window = self._simulation.observe_seconds or self._workload.step_seconds
        window_ends, decides = now + window, now + self._simulation.decide_seconds + self._delay_seconds
        self._arrive(now)
        load = self._cluster.load(now)
        while now < end:
            then = min(
                end,
                window_ends,
                decides,
                self._next_arrival(),
                self._actor.next_end(),
                self._next_leave(now, load),
            )
            before, load = load, self._cluster.load(then)
            self._account.spend(now, before, then, load)
            self._live(then - now, before)
            now = then
            if now >= window_ends - _SOON:
                self._observer.observe(now, load)
                self._viewer.observed()
                self._mark(now)
                window_ends += window
                tell(now)
            self._actor.finish(now)
            self._leave(now, load)
            self._run_out_of_memory(load)
            self._arrive(now)
            if now >= decides - _SOON and now < end:
                self._decide(now)
                decides += self._simulation.decide_seconds
            load = self._cluster.load(now)
        self._account.count("waiting_at_end", int(self._cluster.rows(Phase.WAITING).size))
        self._outcome.nodes.extend(self._nodes_at_end(load))
        return self._outcome

    def _nodes_at_end(self, load: Load) -> Iterator[NodeAtEnd]:
        cluster = self._cluster
        containers = np.bincount(cluster.node[load.running], minlength=cluster.hosts.size)
        ratios = np.nan_to_num(load.by_node / cluster.hosts.capacity, nan=0.0)
        for row, name in enumerate(cluster.hosts.names):
            yield NodeAtEnd(
                name=name,
                on=bool(cluster.on[row]),
                containers=int(containers[row]),
                used_ratio=tuple(ratios[row].tolist()),
            )

    def _mark(self, now: float) -> None:
        phases = np.bincount(self._cluster.phase, minlength=len(Phase))
        self._account.mark(now, int(phases[Phase.RUNNING]), int(phases[Phase.WAITING]))

    def _next_arrival(self) -> float:
        if self._arrived == self._arrivals.size:
            return np.inf
        return float(self._workload.arrival_seconds[self._arrivals[self._arrived]])

    def _next_leave(self, now: float, load: Load) -> float:
        left = self._cluster.left[load.running]
        if not left.size or not np.isfinite(left).any():
            return np.inf
        return now + max(_SOON, float((left / self._pace(load)).min()))

    def _pace(self, load: Load) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """How fast lives go by: a job that gets half of its CPU takes twice as long, a service does not."""
        if not self._workload.jobs_stretch:
            return np.ones(load.running.size)
        is_job = self._workload.kind[load.running] == TaskKind.JOB
        return np.where(is_job, np.maximum(self._cluster.speed(load), _SOON), 1.0)

    def _live(self, seconds: float, load: Load) -> None:
        self._cluster.left[load.running] -= seconds * self._pace(load)

    def _leave(self, now: float, load: Load) -> None:
        cluster = self._cluster
        over = np.flatnonzero((cluster.phase == Phase.RUNNING) & (cluster.left <= _SOON))
        if self._simulation.zero_is_the_end:
            idle = load.running[(load.wanted[:, _CPU] <= 0) & (cluster.target[load.running] == NOWHERE)]
            over = np.union1d(over, idle[cluster.phase[idle] == Phase.RUNNING])
        if over.size:
            jobs = over[self._workload.kind[over] == TaskKind.JOB]
            took = now - self._workload.arrival_seconds[jobs]
            self._outcome.lateness_ratio.extend(took / self._workload.lifetime_seconds[jobs] - 1)
            self._account.count("finished", int(over.size))
            self._actor.leave(over)

    def _run_out_of_memory(self, load: Load) -> None:
        if self._simulation.out_of_memory != "kill":
            return
        cluster = self._cluster
        for node in np.flatnonzero(load.by_node[:, _MEMORY] > cluster.hosts.capacity[:, _MEMORY]):
            self._actor.die(np.flatnonzero((cluster.node == node) & (cluster.phase == Phase.RUNNING)))

    def _arrive(self, now: float) -> None:
        begin = self._arrived
        while self._next_arrival() <= now + _SOON:
            self._arrived += 1
        # All who come at once are seen to wait, and are then placed one after the other.
        come = self._arrivals[begin : self._arrived]
        self._cluster.phase[come] = Phase.WAITING
        self._account.count("arrived", int(come.size))
        for row in come.tolist():
            if self._place(row, now, self._actor.put):
                self._account.placed_after(0.0)
            elif self._simulation.when_full == "refuse":
                self._account.count("refused")
                self._cluster.phase[row] = Phase.GONE

    def _place(self, row: int, now: float, put: Callable[[int, int, float], None]) -> bool:
        place = self._contender.policy.place
        assert place is not None
        request = self._viewer.request(row)
        snapshot = self._viewer.snapshot(now, self._turn)
        began = thread_time()
        ranking = place(snapshot, request, self._contender.settings)
        best = ranking.best
        self._outcome.place_seconds.append(thread_time() - began)
        if best is None:
            return False
        self._turn += 1
        self._actor.do(ranking.needs(best), now)
        put(row, best, now)
        if (gets := ranking.gets(best)) is not None:
            self._actor.promise(row, gets)
        return True

    def _decide(self, now: float) -> None:
        self._retry(self._cluster.rows(Phase.WAITING), now)
        self._give_up(self._cluster.rows(Phase.WAITING), now)
        rebalance = self._contender.policy.rebalance
        if rebalance is None:
            return
        snapshot = self._viewer.snapshot(now, self._turn, with_history=True)
        began = thread_time()
        plan = rebalance(snapshot, self._contender.settings)
        self._outcome.rebalance_seconds.append(thread_time() - began)
        self._actor.do(plan.actions, now)

    def _retry(self, waiting: Rows, now: float) -> None:
        for row in waiting[np.argsort(self._workload.arrival_seconds[waiting], kind="stable")]:
            self._place(int(row), now, self._actor.put_later)

    def _give_up(self, waiting: Rows, now: float) -> None:
        patience = self._simulation.patience_seconds
        waiting = waiting[~self._cluster.killed[waiting]]  # those were promised to be placed again
        if patience is not None and waiting.size:
            tired = waiting[now - self._workload.arrival_seconds[waiting] > patience]
            self._account.count("refused", int(tired.size))
            self._actor.leave(tired)

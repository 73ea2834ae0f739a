"""One policy through one workload: from event to event.

An event is an arrival, an end, the end of a move or of a boot, a sample of the agents, or a time to decide.
Between two events nothing changes but what containers use, so energy is added up from event to event.
"""

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import thread_time
from typing import Literal

import numpy as np

from collector.config import CollectorConfig
from collector.live.updates import Allocation, NodeStatus
from collector.placement.question import PlacementQuestion
from collector.policies.actions import Action
from collector.policies.resolve import PolicyChoice
from collector.snapshot.power_curves import Floats, Rows
from collector.snapshot.tables import NOWHERE, TaskKind
from replay.setup.applications import ApplicationMembers, application_labels
from replay.setup.hosts import Hosts
from replay.setup.scenario import Simulation
from replay.setup.workload import Workload
from replay.simulation.accounting import Account
from replay.simulation.agents import (
    BEACON_SECONDS,
    DEFAULT_INTERVAL_SECONDS,
    AgentSettings,
    HostLoad,
    SimulatedAgents,
)
from replay.simulation.clock import unix
from replay.simulation.cluster import Cluster, Load, Phase
from replay.simulation.collector import SimulatedCollector
from replay.simulation.control import SimulatedControl, service_views
from replay.simulation.driver import SimulatedDriver
from replay.simulation.earlier import report_earlier
from replay.simulation.queue.figures import PromisesKept
from replay.simulation.response import ApplicationFigures, response_times
from replay.simulation.samples import quantities
from wire.errors import UserError

_CPU, _MEMORY = 0, 1
_OBJECTS_PER_COLLECTION = 500_000
_SOON = 1e-6
"""Events that lie less than this apart are one."""
_KINDS: dict[int, Literal["service", "job"]] = {TaskKind.SERVICE: "service", TaskKind.JOB: "job"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A policy with the settings of its run."""

    name: str
    chosen: PolicyChoice
    collector: CollectorConfig
    simulation: Simulation


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAtEnd:
    """A host when the run is over."""

    name: str
    on: bool
    containers: int
    used_ratio: tuple[float, ...]
    """Demand relative to capacity, per resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A run that is over."""

    name: str
    account: Account
    place_seconds: list[float]
    rebalance_seconds: list[float]
    lateness_ratio: list[float]
    """For each ended job: its additional runtime because it got less than it demanded."""
    nodes: list[NodeAtEnd]
    promises: PromisesKept | None = None
    """Only of a workload with promises of availability."""
    applications: dict[str, ApplicationFigures] = field(default_factory=dict)


def run(  # noqa: PLR0913, PLR0917 - the parts of a run
    contender: Contender,
    hosts: Hosts,
    workload: Workload,
    earlier: Workload | None,
    progress: Callable[[float], None],
    applications: Sequence[ApplicationMembers] = (),
) -> Outcome:
    """Simulate the whole workload; `progress` is called with the simulated seconds."""
    if contender.chosen.policy.place is None:
        raise UserError(
            f"{contender.chosen.policy.name} places nothing, so there is nothing to replay with it"
        )
    with few_collections():
        return _Run(contender, hosts, workload, earlier, applications).go(progress)


@contextmanager
def few_collections() -> Iterator[None]:
    """Let the garbage collector run seldom: it takes a third of the time, and finds next to nothing."""
    before = gc.get_threshold()
    gc.set_threshold(_OBJECTS_PER_COLLECTION, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def nodes_at_end(cluster: Cluster, load: Load) -> Iterator[NodeAtEnd]:
    """Every host, with the demand on it."""
    containers = np.bincount(cluster.node[load.running], minlength=cluster.hosts.size)
    ratios = np.nan_to_num(load.by_node / cluster.hosts.capacity, nan=0.0)
    for row, name in enumerate(cluster.hosts.names):
        yield NodeAtEnd(
            name=name,
            on=bool(cluster.on[row]),
            containers=int(containers[row]),
            used_ratio=tuple(ratios[row].tolist()),
        )


class _Run:
    """A simulation that is under way. Times are seconds of the trace; agents and collector get Unix times."""

    def __init__(
        self,
        contender: Contender,
        hosts: Hosts,
        workload: Workload,
        earlier: Workload | None,
        applications: Sequence[ApplicationMembers],
    ) -> None:
        simulation = contender.simulation
        self._contender, self._workload, self._simulation = contender, workload, simulation
        self._exact = simulation.exact
        self._start = simulation.start_seconds
        settings = AgentSettings.sampling_every(
            simulation.sample_seconds or workload.step_seconds, every_window=self._exact
        )
        self._sample_seconds = settings.sample_seconds
        self._cluster = Cluster(hosts, workload, simulation.migration_use_ratio)
        self._applications = applications
        self._responses = response_times(applications, self._cluster)
        self._collector = SimulatedCollector(
            contender.collector,
            seed=simulation.seed,
            round_trip_seconds=hosts.round_trip_seconds if simulation.mesh else None,
        )
        if earlier is not None and not self._exact:
            report_earlier(self._collector, hosts, earlier, settings, self._start)
        self._agents = SimulatedAgents(hosts, workload, settings, all_resources=self._exact)
        self._account = Account(
            self._cluster, idle_is_off=simulation.idle_is_off, warm_up_seconds=simulation.warm_up_seconds
        )
        self._driver = SimulatedDriver(
            self._cluster, self._agents, self._account, simulation.migration_mb_per_second
        )
        self._control = SimulatedControl(
            self._collector,
            self._driver,
            service_views(workload.services),
            keeps_promises=contender.chosen.policy.keeps_promises,
        )
        self._arrivals = np.argsort(workload.arrival_seconds, kind="stable")
        self._arrived = 0
        self._delay_seconds = 0.0 if self._exact else simulation.delay_seconds
        self._reserve_seconds = max(
            contender.collector.control.reservation_seconds,
            2 * self._sample_seconds + float(hosts.boot_seconds.max(initial=0.0)),
        )
        self._sampled_at = self._start
        self._samples_at = self._start + self._sample_seconds
        # Windows close a tenth of a sample early: one that closes without a sample would be reported so.
        self._early_seconds = 0.1 * self._sample_seconds + 2 * DEFAULT_INTERVAL_SECONDS
        self._looks: dict[int, float] = {}
        """Hosts whose agent lists its containers soon, with the time: one started or ended there."""
        self._outcome = Outcome(
            name=contender.name,
            account=self._account,
            place_seconds=[],
            rebalance_seconds=[],
            lateness_ratio=[],
            nodes=[],
        )

    def go(self, progress: Callable[[float], None]) -> Outcome:
        now = self._start
        end = now + self._workload.duration_seconds
        step = self._workload.step_seconds
        marks, decides = now + step, now + self._simulation.decide_seconds + self._delay_seconds
        self._introduce(now)
        self._arrive(now)
        self._report_changes(now)
        load = self._cluster.load(now)
        while now < end:
            then = min(
                end,
                marks,
                decides,
                self._samples_at,
                min(self._looks.values(), default=np.inf),
                self._next_arrival(),
                self._driver.next_end(),
                self._control.next_end(),
                self._next_leave(now, load),
            )
            before, load = load, self._cluster.load(then)
            self._account.spend(now, before, then, load)
            for response in self._responses.values():
                response.spend(then - max(now, self._simulation.warm_up_seconds), before)
            self._live(then - now, before)
            now = then
            self._sample(now, load)
            if now >= marks - _SOON:
                self._mark(now)
                marks += step
                progress(now)
            self._driver.finish(now)
            self._leave(now, load)
            self._run_out_of_memory(now, load)
            self._arrive(now)
            self._report_changes(now)
            if self._control.is_busy:
                self._beacons(now)
                self._control.advance(now)
            if now >= decides - _SOON and now < end:
                self._decide(now)
                decides += self._simulation.decide_seconds
            self._report_changes(now)
            load = self._cluster.load(now)
        self._account.count("waiting_at_end", int(self._cluster.rows(Phase.WAITING).size))
        self._outcome.nodes.extend(nodes_at_end(self._cluster, load))
        self._outcome.applications.update(
            {name: response.figures() for name, response in self._responses.items()}
        )
        return self._outcome

    # --- Agents and collector -----------------------------------------------------------------------

    def _introduce(self, now: float) -> None:
        """Report every host once: those that are off now were on before."""
        cluster = self._cluster
        everywhere = range(cluster.hosts.size)
        reports = [self._agents.boot(host, unix(now)) for host in everywhere]
        self._collector.take([each for each in reports if each is not None], unix(now))
        for host in everywhere:
            if not cluster.on[host]:
                self._agents.shut_down(host, unix(now))
        self._report_hosts(everywhere)

    def _sample(self, now: float, load: Load) -> None:
        """Let the agents sample that are due."""
        if now >= self._samples_at - _SOON:
            self._collector.take(self._agents.sample(unix(now), self._seen(load)), unix(now))
            self._sampled_at = now
            self._samples_at += self._sample_seconds
            self._looks.clear()
            self._report_reservations()
            # CloudSim has no services to analyse, and its policies read none.
            if not self._exact:
                self._collector.work(unix(now))
        elif due := [host for host, at in self._looks.items() if at <= now + _SOON]:
            node = self._cluster.node[load.running]
            self._collector.take(self._agents.look(unix(now), load.running, node, due), unix(now))
            for host in due:
                del self._looks[host]
            self._report_reservations(set(due))

    def _seen(self, load: Load) -> HostLoad:
        """What agents measure: the usage of containers, or their demand as in CloudSim."""
        cluster = self._cluster
        return HostLoad(
            running=load.running,
            node=cluster.node[load.running],
            used=load.wanted if self._exact else cluster.served(load),
            by_node=load.by_node if self._exact else np.fmin(load.by_node, cluster.hosts.capacity),
        )

    def _report_changes(self, now: float) -> None:
        """Schedule agents to list changed containers, and report to the collector which hosts have power."""
        driver = self._driver
        if driver.reports:
            self._collector.take([each for each in driver.reports if each is not None], unix(now))
            driver.reports.clear()
        if driver.successions:
            self._collector.registry.add_successions(driver.successions)
            driver.successions.clear()
        if driver.switched:
            self._report_hosts(sorted(driver.switched))
            driver.switched.clear()
        if driver.changed:
            soon = now + DEFAULT_INTERVAL_SECONDS
            if not self._exact and soon < self._samples_at - self._early_seconds:
                for host in driver.changed:
                    self._looks.setdefault(host, soon)
            driver.changed.clear()

    def _report_hosts(self, hosts: Iterable[int]) -> None:
        names, labels = self._cluster.hosts.names, self._cluster.hosts.labels
        on = self._cluster.on | self._cluster.booting
        self._collector.put_statuses(
            NodeStatus(
                node=names[host], on=bool(on[host]), accepts=True, labels=tuple(sorted(labels[host].items()))
            )
            for host in hosts
        )

    def _report_reservations(self, hosts: set[int] | None = None) -> None:
        """Report the reservations of the containers that agents just reported for the first time."""
        cluster, promised = self._cluster, self._driver.promised
        rows = [row for row in promised if hosts is None or int(cluster.node[row]) in hosts]
        if not rows:
            return
        promised.difference_update(rows)
        requested, allocated = self._workload.requested, cluster.allocated
        self._collector.put_allocations(
            Allocation(
                node=cluster.hosts.names[int(cluster.node[row])],
                container=self._agents.id_of(row),
                requested=_four(requested[row]),
                allocated=_four(allocated[row]),
                came_from=self._driver.came_from(row),
                first_started_at=unix(float(self._workload.arrival_seconds[row])),
            )
            for row in sorted(rows)
            if cluster.node[row] != NOWHERE
        )

    def _beacons(self, now: float) -> None:
        """Apply the beacons that agents sent since their last sample."""
        sent = (now - self._sampled_at) // BEACON_SECONDS
        if sent > 0:
            names = self._cluster.hosts.names
            at = unix(self._sampled_at + sent * BEACON_SECONDS)
            self._collector.apply_beacons([names[host] for host in self._agents.running], at)

    # --- The course of the simulation ---------------------------------------------------------------

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

    def _pace(self, load: Load) -> Floats:
        """The speed of containers: a job with half of its CPU takes twice as long, a service does not."""
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
            self._driver.leave(over, now)

    def _run_out_of_memory(self, now: float, load: Load) -> None:
        if self._simulation.out_of_memory != "kill":
            return
        cluster = self._cluster
        for node in np.flatnonzero(load.by_node[:, _MEMORY] > cluster.hosts.capacity[:, _MEMORY]):
            self._driver.die(np.flatnonzero((cluster.node == node) & (cluster.phase == Phase.RUNNING)), now)

    def _arrive(self, now: float) -> None:
        begin = self._arrived
        while self._next_arrival() <= now + _SOON:
            self._arrived += 1
        come = self._arrivals[begin : self._arrived]
        if not come.size:
            return
        self._cluster.phase[come] = Phase.WAITING
        self._account.count("arrived", int(come.size))
        self._beacons(now)
        together = self._place_together(come, now)
        for row in come.tolist():
            if together[row] if row in together else self._place(row, now, self._driver.put):
                self._account.placed_after(0.0)
            elif self._simulation.when_full == "refuse":
                self._account.count("refused")
                self._cluster.phase[row] = Phase.GONE

    def _place_together(self, come: Rows, now: float) -> dict[int, bool]:
        """Place containers of an application that arrive at once as a whole, if the policy does that.

        Returns whether each of them is placed.
        """
        chosen, placed = self._contender.chosen, dict[int, bool]()
        if chosen.policy.place_all is None:
            return placed
        for application in self._applications:
            rows = np.intersect1d(come, application.members).tolist()
            if len(rows) > 1:
                began = thread_time()
                answer = self._collector.place_together(
                    [self._question(row) for row in rows], chosen, unix(now)
                )
                self._outcome.place_seconds.append(thread_time() - began)
                is_placed = bool(answer.nodes) and (
                    not answer.needs or self._carries_out_first(answer.needs, now)
                )
                placed |= dict.fromkeys(rows, is_placed)
                for row, node in zip(rows, answer.nodes if is_placed else (), strict=False):
                    self._driver.put(row, self._cluster.hosts.names.index(node), now)
        return placed

    def _place(self, row: int, now: float, put: Callable[[int, int, float], None]) -> bool:
        question = self._question(row)
        began = thread_time()
        placement = self._collector.place(question, self._contender.chosen, unix(now))
        self._outcome.place_seconds.append(thread_time() - began)
        ranking = placement.ranking
        best = ranking.best
        if best is None:
            return False
        needs = ranking.needs(best)
        if needs and not self._carries_out_first(needs, now):
            assert placement.reservation is not None
            self._collector.reservations.release(placement.reservation.id)
            return False
        # Nodes in a snapshot are in the order of their names, as hosts are.
        put(row, best, now)
        if (gets := ranking.gets(best)) is not None:
            self._driver.promise(row, gets)
        return True

    def _carries_out_first(self, needs: tuple[Action, ...], now: float) -> bool:
        if self._exact:
            self._driver.do(needs, now)
            return True
        return self._control.allow(needs, self._collector.snapshot(unix(now)), now)

    def _question(self, row: int) -> PlacementQuestion:
        workload = self._workload
        return PlacementQuestion(
            service=workload.services[row],
            reserve=quantities(workload.requested[row]),
            task_class=int(workload.task_class[row]),
            kind=_KINDS.get(int(workload.kind[row])),
            constraints=(
                tuple(f"{each.label}{each.operator}{each.value}" for each in workload.constraints[row])
                if workload.constraints
                else ()
            ),
            labels=application_labels(workload.labels[row]) if workload.labels else {},
            reserve_seconds=self._reserve_seconds,
        )

    def _decide(self, now: float) -> None:
        self._beacons(now)
        self._retry(self._cluster.rows(Phase.WAITING), now)
        self._give_up(self._cluster.rows(Phase.WAITING), now)
        chosen = self._contender.chosen
        if chosen.policy.rebalance is None or self._control.is_busy:
            return
        snapshot = self._collector.snapshot(unix(now))
        began = thread_time()
        plan = chosen.rebalance(snapshot)
        self._outcome.rebalance_seconds.append(thread_time() - began)
        if self._exact:
            self._driver.do(plan.actions, now)
        else:
            self._control.begin(plan.actions, snapshot, now)

    def _retry(self, waiting: Rows, now: float) -> None:
        for row in waiting[np.argsort(self._workload.arrival_seconds[waiting], kind="stable")]:
            self._place(int(row), now, self._driver.put_later)

    def _give_up(self, waiting: Rows, now: float) -> None:
        patience = self._simulation.patience_seconds
        waiting = waiting[~self._cluster.killed[waiting]]  # killed containers are placed again by the driver
        if patience is not None and waiting.size:
            tired = waiting[now - self._workload.arrival_seconds[waiting] > patience]
            self._account.count("refused", int(tired.size))
            self._driver.leave(tired, now)


def _four(row: Floats) -> tuple[float, float, float, float]:
    cpu, memory, disk, network = row.tolist()
    return cpu, memory, disk, network

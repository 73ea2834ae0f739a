"""One policy through one workload: from event to event.

An event is an arrival, an end, the end of a move or of a boot, a sample of the agents, or a time to decide.
Between two events only the usage of containers changes, so energy is added up from event to event.
"""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import thread_time
from typing import Literal

import numpy as np

from collector.common.arrays import Floats, Rows
from collector.decide.policies.actions import Action
from collector.decide.policies.admission.record import ShortageRecord
from collector.decide.policies.admission.rule import AdmissionRule
from collector.decide.question import PlacementQuestion
from collector.snapshot.tables import NOWHERE, TaskKind
from replay.setup.applications import ApplicationMembers, application_labels
from replay.setup.hosts import Hosts
from replay.setup.workload import Workload
from replay.simulation.accounting import Account
from replay.simulation.agents.agents import SimulatedAgents
from replay.simulation.agents.samples import AgentSettings, quantities_of
from replay.simulation.cluster import SOON, ArrivalQueue, Cluster, ContainerPhase, Load, unix
from replay.simulation.collector import Exchange, SimulatedCollector, report_earlier
from replay.simulation.control import SimulatedControl, service_views
from replay.simulation.driver import SimulatedDriver
from replay.simulation.loop import SimulatedLoop
from replay.simulation.policy_runs import PolicyRun
from replay.simulation.response import ResponseTimes
from replay.simulation.results import Outcome, nodes_at_end
from wire.errors import UserError

_CPU, _MEMORY = 0, 1
_OBJECTS_PER_COLLECTION = 500_000
_KINDS: dict[int, Literal["service", "job"]] = {TaskKind.SERVICE: "service", TaskKind.JOB: "job"}


def run(  # noqa: PLR0913, PLR0917 - the parts of a run
    policy_run: PolicyRun,
    hosts: Hosts,
    workload: Workload,
    earlier: Workload | None,
    progress: Callable[[float], None],
    applications: Sequence[ApplicationMembers] = (),
) -> Outcome:
    """Simulate the whole workload; `progress` is called with the simulated seconds."""
    if policy_run.chosen.policy.place is None:
        raise UserError(
            f"{policy_run.chosen.policy.name} places nothing, so there is nothing to replay with it"
        )
    with few_collections():
        return _Run(policy_run, hosts, workload, earlier, applications).run(progress)


@contextmanager
def few_collections() -> Iterator[None]:
    """Let the garbage collector run rarely: it takes a third of the time, and frees almost nothing."""
    before = gc.get_threshold()
    gc.set_threshold(_OBJECTS_PER_COLLECTION, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


class _Run:
    """A running simulation. Times are seconds of the trace; agents and collector get Unix times."""

    def __init__(
        self,
        policy_run: PolicyRun,
        hosts: Hosts,
        workload: Workload,
        earlier: Workload | None,
        applications: Sequence[ApplicationMembers],
    ) -> None:
        simulation = policy_run.simulation
        self._policy_run, self._workload, self._simulation = policy_run, workload, simulation
        self._applications, self._exact = applications, simulation.exact
        self._start = simulation.start_seconds
        settings = AgentSettings.sampling_every(
            simulation.sample_seconds or workload.step_seconds, every_window=self._exact
        )
        self._cluster = Cluster(hosts, workload, simulation.migration_use_ratio)
        self._responses = {each.settings.name: ResponseTimes(each, self._cluster) for each in applications}
        self._account = Account(
            self._cluster, idle_is_off=simulation.idle_is_off, warm_up_seconds=simulation.warm_up_seconds
        )
        self._outcome = Outcome(name=policy_run.name, account=self._account)
        self._collector = self._create_collector(hosts)
        if earlier is not None and not self._exact:
            report_earlier(self._collector, hosts, earlier, settings, self._start)
        agents = SimulatedAgents(hosts, workload, settings, all_resources=self._exact)
        self._driver = SimulatedDriver(
            self._cluster, agents, self._account, simulation.migration_mb_per_second
        )
        self._exchange = Exchange(
            self._cluster,
            agents,
            self._driver,
            self._collector,
            start=self._start,
            sample_seconds=settings.sample_seconds,
            exact=self._exact,
        )
        self._control = SimulatedControl(
            self._collector,
            self._driver,
            service_views(workload.services),
            self._outcome.rebalance_seconds,
        )
        self._delay_seconds = 0.0 if self._exact else simulation.delay_seconds
        self._loop = SimulatedLoop(
            policy_run,
            self._collector,
            self._control,
            self._exchange.send_beacons,
            first_check=self._start + self._delay_seconds,
        )
        self._arrivals = ArrivalQueue(workload.arrival_seconds)
        self._reserve_seconds = max(
            policy_run.collector.control.reservation_seconds,
            2 * settings.sample_seconds + float(hosts.boot_seconds.max(initial=0.0)),
        )

    def _create_collector(self, hosts: Hosts) -> SimulatedCollector:
        config, simulation = self._policy_run.collector, self._simulation
        collector = SimulatedCollector(
            config,
            seed=simulation.seed,
            round_trip_seconds=hosts.round_trip_seconds if simulation.mesh else None,
        )
        if self._policy_run.has_admission:
            record = ShortageRecord(self._outcome.windows.append)
            collector.admission = AdmissionRule(config.placement.risk_max, record)
        return collector

    def run(self, progress: Callable[[float], None]) -> Outcome:
        now = self._start
        end = now + self._workload.duration_seconds
        step = self._workload.step_seconds
        point_at, decide_at = now + step, now + self._simulation.decide_seconds + self._delay_seconds
        self._exchange.report_all_hosts(now)
        self._arrive(now)
        self._exchange.report_changes(now)
        load = self._cluster.load(now)
        while now < end:
            next_at = min(end, point_at, decide_at, self._next_event(now, load))
            load = self._pass_time(now, next_at, load)
            now = next_at
            self._exchange.sample(now, load)
            if now >= point_at - SOON:
                self._account.add_point(
                    now,
                    self._cluster.rows(ContainerPhase.RUNNING).size,
                    self._cluster.rows(ContainerPhase.WAITING).size,
                )
                point_at += step
                progress(now)
            self._apply_events(now, load)
            if now >= decide_at - SOON and now < end:
                self._decide(now)
                decide_at += self._simulation.decide_seconds
            if not self._exact:
                self._loop.run(now)
            self._exchange.report_changes(now)
            load = self._cluster.load(now)
        self._account.count("waiting_at_end", int(self._cluster.rows(ContainerPhase.WAITING).size))
        self._outcome.nodes.update(nodes_at_end(self._cluster, load))
        self._outcome.applications.update(
            {name: response.figures() for name, response in self._responses.items()}
        )
        return self._outcome

    def _next_event(self, now: float, load: Load) -> float:
        """The time of the next sample, arrival, or end of a container, a move or a step."""
        return min(
            self._exchange.next_at,
            self._arrivals.next_at,
            self._driver.next_end(),
            self._control.next_end(),
            self._loop.next_check(now),
            self._next_end(now, load),
        )

    def _pass_time(self, start: float, end: float, before: Load) -> Load:
        """Account for an interval between two events; returns the load at its end."""
        after = self._cluster.load(end)
        self._account.add_interval(start, before, end, after)
        for response in self._responses.values():
            response.add_interval(end - max(start, self._simulation.warm_up_seconds), before)
        self._cluster.left[before.running] -= (end - start) * self._pace(before)
        return after

    def _apply_events(self, now: float, load: Load) -> None:
        """Apply the ends and arrivals that are due, and let the control loop continue its decision."""
        self._driver.finish(now)
        self._end_containers(now, load)
        self._run_out_of_memory(now, load)
        self._arrive(now)
        self._exchange.report_changes(now)
        if self._control.is_busy:
            self._exchange.send_beacons(now)
            self._control.advance(now)

    def _next_end(self, now: float, load: Load) -> float:
        left = self._cluster.left[load.running]
        if not left.size or not np.isfinite(left).any():
            return np.inf
        return now + max(SOON, float((left / self._pace(load)).min()))

    def _pace(self, load: Load) -> Floats:
        """The speed of containers: a job with half of its CPU takes twice as long, a service does not."""
        if not self._workload.jobs_stretch:
            return np.ones(load.running.size)
        is_job = self._workload.kind[load.running] == TaskKind.JOB
        return np.where(is_job, np.maximum(self._cluster.cpu_ratio(load), SOON), 1.0)

    def _end_containers(self, now: float, load: Load) -> None:
        cluster = self._cluster
        ended = np.flatnonzero((cluster.phase == ContainerPhase.RUNNING) & (cluster.left <= SOON))
        if self._simulation.zero_is_the_end:
            idle = load.running[(load.demand[:, _CPU] <= 0) & (cluster.target[load.running] == NOWHERE)]
            ended = np.union1d(ended, idle[cluster.phase[idle] == ContainerPhase.RUNNING])
        if ended.size:
            jobs = ended[self._workload.kind[ended] == TaskKind.JOB]
            took = now - self._workload.arrival_seconds[jobs]
            self._outcome.lateness_ratio.extend(took / self._workload.lifetime_seconds[jobs] - 1)
            self._account.count("finished", int(ended.size))
            self._driver.end(ended, now)

    def _run_out_of_memory(self, now: float, load: Load) -> None:
        if self._simulation.out_of_memory != "kill":
            return
        cluster = self._cluster
        for node in np.flatnonzero(load.by_node[:, _MEMORY] > cluster.hosts.capacity[:, _MEMORY]):
            self._driver.kill_out_of_memory(
                np.flatnonzero((cluster.node == node) & (cluster.phase == ContainerPhase.RUNNING)), now
            )

    def _arrive(self, now: float) -> None:
        arrived = self._arrivals.pop(now)
        if not arrived.size:
            return
        self._cluster.phase[arrived] = ContainerPhase.WAITING
        self._account.count("arrived", int(arrived.size))
        self._exchange.send_beacons(now)
        together = self._place_together(arrived, now)
        for row in arrived.tolist():
            if together[row] if row in together else self._place(row, now, self._driver.place):
                self._account.count_placement(0.0)
            elif self._simulation.when_full == "refuse":
                self._account.count("refused")
                self._cluster.phase[row] = ContainerPhase.ENDED

    def _place_together(self, arrived: Rows, now: float) -> dict[int, bool]:
        """Place containers of an application that arrive at the same time as a whole, if the policy does so.

        Returns whether each of them is placed.
        """
        chosen, placed = self._policy_run.chosen, dict[int, bool]()
        if chosen.policy.place_all is None:
            return placed
        for application in self._applications:
            rows = np.intersect1d(arrived, application.members).tolist()
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
                    self._driver.place(row, self._cluster.hosts.names.index(node), now)
        return placed

    def _place(self, row: int, now: float, place: Callable[[int, int, float], None]) -> bool:
        question = self._question(row)
        began = thread_time()
        placement = self._collector.place(question, self._policy_run.chosen, unix(now))
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
        place(row, best, now)
        if (gets := ranking.gets(best)) is not None:
            self._driver.set_allocation(row, gets)
        return True

    def _carries_out_first(self, needs: tuple[Action, ...], now: float) -> bool:
        if self._exact:
            self._driver.carry_out(needs, now)
            return True
        return self._control.carry_out_now(needs, self._collector.snapshot(unix(now)), now)

    def _question(self, row: int) -> PlacementQuestion:
        workload = self._workload
        return PlacementQuestion(
            service=workload.services[row],
            reserve=quantities_of(workload.requested[row]),
            task_class=int(workload.task_class[row]),
            kind=_KINDS.get(int(workload.kind[row])),
            constraints=(
                tuple(str(each) for each in workload.constraints[row]) if workload.constraints else ()
            ),
            labels=application_labels(workload.labels[row]) if workload.labels else {},
            reserve_seconds=self._reserve_seconds,
        )

    def _decide(self, now: float) -> None:
        self._exchange.send_beacons(now)
        waiting = self._cluster.rows(ContainerPhase.WAITING)
        for row in waiting[np.argsort(self._workload.arrival_seconds[waiting], kind="stable")]:
            self._place(int(row), now, self._driver.place_waiting)
        self._give_up(self._cluster.rows(ContainerPhase.WAITING), now)
        self._loop.call_timer()
        if self._exact and self._policy_run.timer is not None:
            began = thread_time()
            plan = self._policy_run.timer.rebalance(self._collector.snapshot(unix(now)))
            self._outcome.rebalance_seconds.append(thread_time() - began)
            self._driver.carry_out(plan.actions, now)

    def _give_up(self, waiting: Rows, now: float) -> None:
        patience = self._simulation.patience_seconds
        waiting = waiting[~self._cluster.killed[waiting]]  # killed containers are placed again by the driver
        if patience is not None and waiting.size:
            refused = waiting[now - self._workload.arrival_seconds[waiting] > patience]
            self._account.count("refused", int(refused.size))
            self._driver.end(refused, now)

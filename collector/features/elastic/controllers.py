"""Decides about elastic services, each at its own interval, and carries the decisions out."""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import msgspec

from collector.common.orchestrator import Mode, ServiceView
from collector.control.actor import Actor, Controller
from collector.control.planner import Decider
from collector.control.records import CARRIED_OUT, Decision, Trigger
from collector.features.elastic.actions import service_actions
from collector.features.elastic.metric import Metric, probed_metric, query_metrics
from collector.features.elastic.observation import (
    CpuReading,
    core_power,
    cpu_cores,
    observe,
    reported_containers,
    running_containers,
)
from collector.features.elastic.placement import ReplicaPlacement, place_replicas, release_reservations
from collector.features.elastic.scaling.interface import (
    ElasticDecision,
    ElasticPolicy,
    LearnedRow,
    Observation,
)
from collector.features.elastic.scaling.table import ELASTIC_POLICIES
from collector.features.elastic.settings import ElasticRule, has_queries
from collector.features.elastic.status import (
    STORED_STATES,
    ElasticStatus,
    StoredElasticState,
    expired_services,
    pack_state,
    unpack_states,
)
from collector.features.elastic.targets import ElasticTarget, elastic_target
from collector.history.interface import HistoryUnavailable
from collector.history.promql import Client, connect
from collector.policies.actions import describe
from collector.policies.interface import Plan
from collector.policies.resolve import PolicyChoice
from collector.snapshot.tables import Snapshot
from wire.resources import Quantities

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _TrackedService:
    """An elastic service, as of its last decision."""

    learned: bytes
    status: ElasticStatus
    readings: Mapping[str, CpuReading] = field(default_factory=dict)
    """CPU time of its containers at the last decision."""


@dataclass(frozen=True, slots=True)
class _DecisionInput:
    """The input of a decision about a service."""

    elastic: ElasticTarget
    service: ServiceView
    observation: Observation
    snapshot: Snapshot


class ElasticController(Controller):
    """Decides about the elastic services of one collector."""

    def __init__(
        self,
        actor: Actor,
        store: Client | None = None,
        policies: Mapping[str, ElasticPolicy] = ELASTIC_POLICIES,
    ) -> None:
        self._actor, self._store, self._policies = actor, store, policies
        self._core = actor.situation.core
        self._rules = self._core.config.tables(ElasticRule)
        self._tracked: dict[str, _TrackedService] = {}
        self.decided: Counter[tuple[str, str]] = Counter()
        """Number of decisions since the start, by service and result: kept, changed, failed."""

    async def start(self, stack: AsyncExitStack) -> None:
        """Connect to the store that answers queries, and load the stored states of services."""
        if has_queries(self._rules):
            self._store = await stack.enter_async_context(connect(self._core.config.store, "store"))
        await self.load()

    async def load(self) -> None:
        """Load the stored states of services. Raise `HistoryUnavailable`."""
        stored = unpack_states(await self._core.history.get_values(STORED_STATES))
        self._tracked = {name: _TrackedService(each.learned, each.status) for name, each in stored.items()}

    def statuses(self) -> list[ElasticStatus]:
        """Return the elastic services, by name."""
        current = self._actor.situation.bounds
        return [each.status for name, each in sorted(self._tracked.items()) if name in current]

    def learned(self, service: str) -> tuple[LearnedRow, ...]:
        """Return what the policy of a service learned."""
        tracked = self._tracked[service]
        policy = self._policies.get(tracked.status.policy)
        return () if policy is None else policy.explain(tracked.status.target, tracked.learned)

    @property
    def policies(self) -> Mapping[str, ElasticPolicy]:
        return self._policies

    async def run(self, _alert_policy: PolicyChoice | None = None) -> bool:
        """Decide about every service that is due."""
        services = await self._services()
        targets = {
            name: found
            for name, service in services.items()
            if (found := elastic_target(service, self._rule(service))) is not None
        }
        self._actor.situation.bounds = {name: each.target for name, each in targets.items()}
        for each in targets.values():
            self._track(each)
        await self._forget()
        due = [
            each
            for name, each in targets.items()
            # Brownout alone starts a service that it stopped.
            if self._is_due(each) and not services[name].stopped_replicas
        ]
        queried = await query_metrics(self._store, due, self._core.clock())
        for each in due:
            await self._try_to_decide(each, queried.get(each.target.service))
        return False

    async def _forget(self) -> None:
        """Forget services that are gone: creating many services must not fill the memory."""
        situation = self._actor.situation
        if situation.trouble is not None:
            return
        gone = [each.status for name, each in self._tracked.items() if name not in situation.bounds]
        names = expired_services(gone, self._core.clock())
        if not names:
            return
        await self._core.history.put_values(STORED_STATES, dict.fromkeys(names))
        for name in names:
            del self._tracked[name]
        self.decided = Counter({key: n for key, n in self.decided.items() if key[0] in self._tracked})

    def _rule(self, service: ServiceView) -> ElasticRule | None:
        """Return the settings of a service; those of `NAME` also apply to `NAME@HOST`."""
        plain = service.name.rpartition("@")[0] if service.mode is Mode.STANDALONE else ""
        return self._rules.get(service.name) or self._rules.get(plain)

    def _is_due(self, target: ElasticTarget) -> bool:
        last = self._tracked[target.target.service].status.decided_at
        # A decision in the future comes from a wrong clock before a restart.
        return last is None or not 0 <= self._core.clock() - last < target.target.decide_seconds

    async def _services(self) -> dict[str, ServiceView]:
        """Return all services; without an orchestrator, the services of the settings that agents report."""
        situation = self._actor.situation
        if situation.view.nodes or not self._rules:
            return {each.name: each for each in situation.view.services}
        snapshot = await situation.snapshot()
        return {
            name: ServiceView(
                name=name,
                replicas=len(found),
                limit=Quantities(_smallest_limit(self._readings(found))),
            )
            for name in self._rules
            if (found := reported_containers(name, snapshot))
        }

    def _track(self, target: ElasticTarget) -> None:
        """Track the target of a service; with another policy, start without what the last one learned."""
        name = target.target.service
        tracked = self._tracked.get(name)
        source = "query" if target.query else "probe"
        if tracked is None or tracked.status.policy != target.policy:
            status = ElasticStatus(service=name, policy=target.policy, target=target.target, source=source)
            self._tracked[name] = _TrackedService(b"", status)
        elif (tracked.status.target, tracked.status.source) != (target.target, source):
            tracked.status = msgspec.structs.replace(tracked.status, target=target.target, source=source)

    async def _try_to_decide(self, target: ElasticTarget, queried: Metric | None) -> None:
        """Decide about a service. An error affects neither other services nor the control loop."""
        name = target.target.service
        try:
            await self._decide(target, queried)
        except HistoryUnavailable:
            raise  # nothing can be recorded now
        except Exception as error:
            log.exception("the decision about elastic service %s failed", name)
            self._note(name, "failed", f"the decision failed: {error}; see the log of the collector")
            tracked = self._tracked[name]
            tracked.status = msgspec.structs.replace(tracked.status, decided_at=self._core.clock())

    async def _decide(self, target: ElasticTarget, queried: Metric | None) -> None:
        name = target.target.service
        tracked = self._tracked[name]
        policy = self._policies.get(target.policy)
        case = await self._observe(target, tracked, queried)
        if case is None or policy is None:
            return
        decided = await asyncio.to_thread(policy.decide, target.target, case.observation, tracked.learned)
        tracked.learned = decided.learned
        tracked.status = msgspec.structs.replace(
            tracked.status,
            wanted_replicas=decided.replicas,
            wanted_cpu_limit_cores=decided.cpu_limit_cores,
            reasons=decided.reasons,
            explored=decided.explored,
        )
        # The state is stored before anything is changed.
        await self._store_state(name)
        await self._carry_out(case, decided)
        await self._store_state(name)

    async def _observe(
        self, target: ElasticTarget, tracked: _TrackedService, queried: Metric | None
    ) -> _DecisionInput | None:
        """Observe a service; None if it cannot be decided about now."""
        situation, now = self._actor.situation, self._core.clock()
        name = target.target.service
        await situation.refresh()
        service = (await self._services()).get(name)
        if service is None or service.is_updating:
            # It is gone, or still changes: the next check looks again.
            return None
        snapshot = await situation.snapshot()
        found = running_containers(name, situation.view) or reported_containers(name, snapshot)
        since = now - target.target.decide_seconds
        since = since if tracked.status.decided_at is None else max(since, tracked.status.decided_at)
        metric = probed_metric(self._core, found, since) if queried is None else queried
        readings = self._readings(found)
        observation = observe(
            now=now,
            service=service,
            running=len(found),
            cpu_used_cores=cpu_cores(readings, tracked.readings),
            metric=metric.value,
            steps=(step for _, step in situation.journal.started_steps(0.0)),
            power=core_power(snapshot, sorted(found.values())),
        )
        tracked.readings = readings
        tracked.status = msgspec.structs.replace(
            tracked.status,
            decided_at=now,
            metric=metric.value,
            requests=metric.requests,
            failed=metric.failed,
            replicas=service.replicas,
            running=len(found),
            cpu_limit_cores=observation.cpu_limit_cores,
            cpu_used_cores=observation.cpu_used_cores,
            used_core_watts=observation.used_core_watts,
            problem=metric.problem,
        )
        return _DecisionInput(target, service, observation, snapshot)

    async def _carry_out(self, case: _DecisionInput, decided: ElasticDecision) -> None:
        name = case.service.name
        new = decided.replicas - case.service.replicas
        placement = ReplicaPlacement()
        if new > 0:
            placement = await place_replicas(self._actor.situation, case.service, new)
        try:
            actions = service_actions(case.service, decided, placement)
            if placement.why_not is not None or not actions:
                self._note(name, "kept", placement.why_not)
                return
            decider = Decider(
                policy=case.elastic.policy,
                settings={
                    "target": msgspec.to_builtins(case.elastic.target),
                    "observation": msgspec.to_builtins(case.observation),
                },
                subject=name,
            )
            reasons = (
                decided.reasons
                if placement.left_to_orchestrator is None
                else (*decided.reasons, placement.left_to_orchestrator)
            )
            plan = Plan(actions=actions, reasons=reasons)
            # Reservations made above count from now on.
            snapshot = await self._actor.situation.snapshot() if placement.reserved else case.snapshot
            decision = await self._actor.planner.record(Trigger.ELASTIC, decider, snapshot, plan)
            if decision is None:
                self._note(name, "failed", self._tracked[name].status.problem)
                return
            self._note_change(name, await self._actor.executor.carry_out(decision))
        finally:
            release_reservations(self._actor.situation, placement.reserved)

    def _note(self, name: str, result: str, problem: str | None) -> None:
        self.decided[name, result] += 1
        tracked = self._tracked[name]
        if problem is not None:
            tracked.status = msgspec.structs.replace(tracked.status, problem=problem)

    def _note_change(self, name: str, decision: Decision) -> None:
        done = [step for step in decision.steps if step.state in CARRIED_OUT]
        why = next((step.why for step in decision.steps if step.why), None)
        self._note(name, "changed" if done or decision.dry else "failed", why)
        if done or decision.dry:
            tracked = self._tracked[name]
            tracked.status = msgspec.structs.replace(
                tracked.status,
                changed_at=decision.at,
                change="; ".join(describe(step.action) for step in decision.steps),
                change_reasons=decision.reasons,
                decision=decision.id,
            )

    async def _store_state(self, name: str) -> None:
        tracked = self._tracked[name]
        packed = pack_state(StoredElasticState(learned=tracked.learned, status=tracked.status))
        await self._core.history.put_values(STORED_STATES, {name: packed})

    def _readings(self, found: Mapping[str, str]) -> dict[str, CpuReading]:
        """Return the CPU time of containers, as their nodes reported it last."""
        readings = {}
        for node in set(found.values()):
            for entry in self._core.registry.nodes(self._core.clock(), node=node):
                for container, reported in entry.run.containers.items():
                    if found.get(container) == node:
                        value = reported.value
                        readings[container] = CpuReading(
                            reported.at,
                            value.cpu_seconds_total,
                            value.used.cpu_cores,
                            value.limit.cpu_cores,
                            None if entry.run.state is None else entry.run.state.value.capacity.cpu_cores,
                        )
        return readings


def _smallest_limit(readings: Mapping[str, CpuReading]) -> float | None:
    return min((each.limit_cores for each in readings.values() if each.limit_cores is not None), default=None)


CONTROLLERS = (ElasticController,)

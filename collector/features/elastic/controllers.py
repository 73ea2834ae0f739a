"""Decides about elastic services, each at its own interval, and carries the decisions out."""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import msgspec

from collector.act.loop import Actor, Controller
from collector.act.planner import Decider
from collector.act.records import CARRIED_OUT, Decision, Goal, Trigger
from collector.act.verification import same_limit
from collector.common.errors import HistoryUnavailable
from collector.common.orchestrator import ServiceView
from collector.decide.policies.actions import Action, Resize, Scale, describe
from collector.decide.policies.interface import Plan
from collector.decide.policies.resolve import PolicyChoice
from collector.features.elastic.observation import (
    Metric,
    Reading,
    core_watts,
    cpu_cores,
    last_change,
    probed_metric,
    query_metrics,
    read_containers,
    reported_containers,
    running_containers,
)
from collector.features.elastic.placement import ReplicaPlacement, place_replicas
from collector.features.elastic.scaling.interface import ElasticDecision, ElasticPolicy, Observation, Target
from collector.features.elastic.scaling.table import ELASTIC_POLICIES
from collector.features.elastic.settings import elastic_target
from collector.features.elastic.status import STORED_STATES, ElasticStatus, decode_state, expired_services
from collector.history.interface import decode_values
from collector.history.promql import Client, connect
from wire.resources import Quantities

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _TrackedService:
    """An elastic service, as of its last decision."""

    learned: bytes
    status: ElasticStatus
    readings: Mapping[str, Reading] = field(default_factory=dict)
    """Its containers at the last decision."""

    def note(self, **changes: object) -> None:
        """Change the status."""
        self.status = msgspec.structs.replace(self.status, **changes)


class ElasticController(Controller):
    """Decides about the elastic services of one collector."""

    def __init__(self, actor: Actor, policies: Mapping[str, ElasticPolicy] = ELASTIC_POLICIES) -> None:
        self._actor, self._policies = actor, policies
        self._store: Client | None = None
        self._core = actor.situation.core
        self._settings = self._core.config.tables(Target)
        self._tracked: dict[str, _TrackedService] = {}
        self.decided: Counter[tuple[str, str]] = Counter()
        """Number of decisions since the start, by service and result: kept, changed, failed."""

    async def start(self, stack: AsyncExitStack) -> None:
        """Connect to the store that answers queries, and load the stored states of services.

        Raise `HistoryUnavailable`.
        """
        if any(target.query for target in self._settings.values()):
            self._store = await stack.enter_async_context(connect(self._core.config.store, "store"))
        stored = await self._core.history.get_values(STORED_STATES)
        found = decode_values(stored, decode_state, "the stored state of elastic service")
        self._tracked = {name: _TrackedService(*each) for name, each in found.items()}

    def statuses(self) -> list[ElasticStatus]:
        """Return the elastic services, by name."""
        current = self._actor.situation.bounds
        return [each.status for name, each in sorted(self._tracked.items()) if name in current]

    def goal_of(self, decision: Decision) -> Goal | None:
        """Return the metric of the service that a decision scaled, and its bound."""
        names = {step.service for step in decision.steps if decision.trigger is Trigger.ELASTIC}
        status = next((each for each in self.statuses() if each.service in names), None)
        if status is None:
            return None
        value = None if status.observed is None else status.observed.metric
        return Goal(what=f"metric of {status.service}", value=value, most=status.target.metric_max)

    async def run(self, _alert_policy: PolicyChoice | None = None) -> bool:
        """Decide about every service that is due."""
        services = await self._services()
        targets = {
            name: target
            for name, service in services.items()
            if (target := elastic_target(service, self._settings)) is not None
        }
        self._actor.situation.bounds = targets
        for name, target in targets.items():
            self._track(name, target)
        await self._forget()
        # Brownout alone starts a service that it stopped.
        due = {
            name: target
            for name, target in targets.items()
            if self._is_due(name, target) and not services[name].stopped_replicas
        }
        queried = await query_metrics(self._store, due, self._core.clock())
        for name in due:
            await self._try_to_decide(name, queried.get(name))
        return False

    async def _services(self) -> dict[str, ServiceView]:
        """Return all services; without an orchestrator, the services of the settings that agents report."""
        situation = self._actor.situation
        if situation.view.nodes or not self._settings:
            return {each.name: each for each in situation.view.services}
        snapshot = await situation.snapshot()
        services = {}
        for name in self._settings:
            if found := reported_containers(name, snapshot):
                limits = [each.limit_cores for each in read_containers(self._core, found).values()]
                limit = min((each for each in limits if each is not None), default=None)
                services[name] = ServiceView(name=name, replicas=len(found), limit=Quantities(limit))
        return services

    def _track(self, name: str, target: Target) -> None:
        """Track the target of a service; with another policy, start without what the last one learned."""
        tracked = self._tracked.get(name)
        if tracked is None or tracked.status.target.policy != target.policy:
            self._tracked[name] = _TrackedService(b"", ElasticStatus(service=name, target=target))
        elif tracked.status.target != target:
            tracked.note(target=target)

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

    def _is_due(self, name: str, target: Target) -> bool:
        last = self._tracked[name].status.decided_at
        # A decision in the future comes from a wrong clock before a restart.
        return last is None or not 0 <= self._core.clock() - last < target.decide_seconds

    async def _try_to_decide(self, name: str, queried: Metric | None) -> None:
        """Decide about a service. An error affects neither other services nor the control loop."""
        try:
            await self._decide(name, queried)
        except HistoryUnavailable:
            raise  # nothing can be recorded now
        except Exception as error:
            log.exception("the decision about elastic service %s failed", name)
            self._note_result(name, "failed", f"the decision failed: {error}; see the log of the collector")
            self._tracked[name].note(decided_at=self._core.clock())

    async def _decide(self, name: str, queried: Metric | None) -> None:
        situation, tracked = self._actor.situation, self._tracked[name]
        target = tracked.status.target
        await situation.refresh()
        service = (await self._services()).get(name)
        if service is None or service.is_updating:
            # It is gone, or still changes: the next check looks again.
            return
        observed = await self._observe(service, tracked, queried)
        policy = self._policies[target.policy]
        decided = await asyncio.to_thread(policy, target, observed, tracked.learned)
        tracked.learned = decided.learned
        tracked.note(
            wanted_replicas=decided.replicas,
            wanted_cpu_limit_cores=decided.cpu_limit_cores,
            reasons=decided.reasons,
        )
        # The state is stored before anything is changed.
        await self._store_state(name)
        await self._carry_out(service, observed, decided)
        await self._store_state(name)

    async def _observe(
        self, service: ServiceView, tracked: _TrackedService, queried: Metric | None
    ) -> Observation:
        situation, now, last = self._actor.situation, self._core.clock(), tracked.status.decided_at
        snapshot = await situation.snapshot()
        # What a node claims counts only where no orchestrator lists services.
        found = (
            running_containers(service.name, situation.view)
            if situation.view.nodes
            else reported_containers(service.name, snapshot)
        )
        readings = read_containers(self._core, found)
        since = max(now - tracked.status.target.decide_seconds, last or 0.0)
        metric = queried or probed_metric(self._core, found, since)
        steps = (step for _, step in situation.journal.started_steps(0.0))
        changed_at, effect_seconds = last_change(service.name, steps)
        used_watts, reserved_watts = core_watts(snapshot, sorted(found.values()))
        observed = Observation(
            service=service.name,
            at_seconds=now,
            replicas=len(found),
            cpu_limit_cores=service.limit.cpu_cores,
            cpu_used_cores=cpu_cores(readings, tracked.readings),
            metric=metric.value,
            requests=metric.requests,
            failed=metric.failed,
            changed_at_seconds=changed_at,
            effect_seconds=effect_seconds,
            used_core_watts=used_watts,
            reserved_core_watts=reserved_watts,
        )
        tracked.readings = readings
        tracked.note(decided_at=now, observed=observed, problem=metric.problem)
        return observed

    async def _carry_out(self, service: ServiceView, observed: Observation, decided: ElasticDecision) -> None:
        name, situation = service.name, self._actor.situation
        target = self._tracked[name].status.target
        new = decided.replicas - service.replicas
        placement = await place_replicas(situation, service, new) if new > 0 else ReplicaPlacement()
        try:
            actions = _actions(service, decided, placement.nodes)
            if placement.why_not is not None or not actions:
                self._note_result(name, "kept", placement.why_not)
                return
            decider = Decider(
                policy=target.policy,
                settings={
                    "target": msgspec.to_builtins(target),
                    "observation": msgspec.to_builtins(observed),
                },
                subject=name,
            )
            left = () if placement.left_to_orchestrator is None else (placement.left_to_orchestrator,)
            plan = Plan(actions=actions, reasons=(*decided.reasons, *left))
            # Reservations made above count from now on.
            snapshot = await situation.snapshot()
            decision = await self._actor.planner.record(Trigger.ELASTIC, decider, snapshot, plan)
            if decision is None:
                self._note_result(name, "failed", None)
            else:
                self._note_change(name, await self._actor.executor.carry_out(decision))
        finally:
            self._core.reservations.release_all(placement.reserved)

    def _note_change(self, name: str, decision: Decision) -> None:
        is_done = decision.dry or any(step.state in CARRIED_OUT for step in decision.steps)
        why = next((step.why for step in decision.steps if step.why), None)
        self._note_result(name, "changed" if is_done else "failed", why)
        if is_done:
            self._tracked[name].note(
                changed_at=decision.at,
                change="; ".join(describe(step.action) for step in decision.steps),
                change_reasons=decision.reasons,
                decision=decision.id,
            )

    def _note_result(self, name: str, result: str, problem: str | None) -> None:
        self.decided[name, result] += 1
        if problem is not None:
            self._tracked[name].note(problem=problem)

    async def _store_state(self, name: str) -> None:
        tracked = self._tracked[name]
        packed = msgspec.msgpack.encode((tracked.learned, tracked.status))
        await self._core.history.put_values(STORED_STATES, {name: packed})


def _actions(service: ServiceView, decided: ElasticDecision, nodes: tuple[str, ...]) -> tuple[Action, ...]:
    """Return the actions that give a service the decided replicas and CPU limit."""
    actions: list[Action] = []
    limit = decided.cpu_limit_cores
    if limit is not None and not same_limit(limit, service.limit.cpu_cores):
        actions.append(
            Resize(
                service=service.name,
                cpu_limit_cores=limit,
                cpu_limit_cores_before=service.limit.cpu_cores,
                reasons=decided.reasons,
            )
        )
    if decided.replicas != service.replicas:
        actions.append(
            Scale(
                service=service.name,
                replicas=decided.replicas,
                replicas_before=service.replicas,
                nodes=nodes,
                reasons=decided.reasons,
            )
        )
    return tuple(actions)


CONTROLLERS = (ElasticController,)

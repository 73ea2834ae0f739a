"""Stops optional services while resources are short and nothing can move, and starts them again.

A stop is stored in the history before it is carried out, and drivers note it on the service as well. So a
collector that was killed, even one that lost its history, knows which services to start.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import takewhile
from math import inf

import msgspec

from collector.act.guards import first_refusal
from collector.act.loop import Actor, Controller
from collector.act.planner import Decider
from collector.act.records import CARRIED_OUT, Decision, Step, StepState, Trigger
from collector.act.steps import planned_step, will_run
from collector.common.reported_alerts import AlertState
from collector.decide.policies.actions import Kill, Scale, Start
from collector.decide.policies.interface import Plan
from collector.decide.policies.resolve import PolicyChoice
from collector.features.brownout.rule import (
    BUDGET,
    RECENT_SECONDS,
    OptionalService,
    Shortages,
    StoppedService,
    choose_to_stop,
    cluster_watts,
    free_by_node,
    is_optional,
    optional_services,
    reason_to_wait,
    required_calm_seconds,
    short_nodes,
    standalone_container,
    start_order,
    usage_by_node,
    weight_of,
)
from collector.features.brownout.settings import BrownoutConfig, PowerConfig
from collector.history.interface import decode_values
from collector.snapshot.tables import Snapshot
from wire.resources import Quantities

log = logging.getLogger(__name__)

POLICY = "brownout"
_KIND = "brownout"
_TEMPORARY_GUARDS = frozenset({"settle", "at_once", "rest"})
"""Guards that refuse a move only for a short time, until the effect of an earlier one shows."""
_UNCERTAIN = (StepState.FAILED, StepState.UNCLEAR)
"""States of a stop that may still take effect: an engine that answers too late may carry it out."""
_decoder = msgspec.msgpack.Decoder(StoppedService)


class Brownout(Controller):
    """Stops and starts optional services, one decision at a time, so that its effect can show."""

    is_before_timer = True

    def __init__(self, actor: Actor) -> None:
        self._core, self._actor = actor.situation.core, actor
        core = self._core
        self._settings = core.config.section(BrownoutConfig)
        self._budget = core.config.section(PowerConfig).cluster_budget_watts
        self._decider = Decider(policy=POLICY, settings=msgspec.to_builtins(self._settings))
        self._stopped: dict[str, StoppedService] = {}
        self._is_loaded = False
        self._shortages = Shortages(began_at=inf)
        self._over_since: float | None = None
        self._attempts: Mapping[str, list[Step]] = {}

    @property
    def stopped(self) -> list[StoppedService]:
        """The stopped services, in the order in which they start again."""
        return start_order(self._stopped.values())

    async def run(self, alert_policy: PolicyChoice | None) -> bool:
        """Stop or start at most one service; return whether it did."""
        if not self._settings.enabled:
            return False
        await self._load()
        situation = self._actor.situation
        optional = list(self._optional())
        if situation.trouble is None and not situation.is_dry:
            await self._forget_running(optional)
            await self._adopt_stopped()
        if not optional and not self._stopped:
            return False
        self._attempts = self._recent_attempts()
        snapshot = await situation.snapshot()
        self._observe(snapshot)
        short = self._shortages.short
        if short and optional:
            relieved = await self._relieved(snapshot, short, alert_policy)
            left = {subject: why for subject, why in short.items() if subject not in relieved}
            if await self._stop_next(snapshot, optional, replace(self._shortages, short=left)):
                return True
        return await self._start_next(snapshot)

    # --- Observation --------------------------------------------------------------------------------

    def _optional(self) -> Iterator[OptionalService]:
        """Return the running optional services; in a dry run, those that agents report as optional."""
        situation = self._actor.situation
        if not situation.is_dry:
            yield from optional_services(situation.view)
            return
        if not self._budget and not self._core.registry.alert_count()[AlertState.OPEN]:
            return
        for node in self._core.registry.nodes(self._core.clock()):
            for container, entry in node.run.containers.items():
                labels = entry.value.labels
                if is_optional(labels):
                    yield standalone_container(entry.value.name, weight_of(labels), node.name, container)

    def _observe(self, snapshot: Snapshot) -> None:
        """Update the shortages. Since power fluctuates, the budget counts only after `step_seconds`."""
        now, short = self._core.clock(), short_nodes(snapshot)
        watts = cluster_watts(snapshot)
        if self._budget and watts > self._budget:
            self._over_since = now if self._over_since is None else self._over_since
            self._shortages.short_until[BUDGET] = now
            if now - self._over_since >= self._settings.step_seconds:
                short[BUDGET] = f"the cluster uses {watts:.1f} W of {self._budget:g} W"
        else:
            self._over_since = None
        self._shortages.now, self._shortages.short = now, short
        self._shortages.short_until |= dict.fromkeys(short, now)

    async def _relieved(
        self, snapshot: Snapshot, short: Mapping[str, str], alert_policy: PolicyChoice | None
    ) -> frozenset[str]:
        """Return the nodes that a move relieves, now or as soon as the effect of the last one shows."""
        if alert_policy is None or not short.keys() - {BUDGET}:
            return frozenset()
        plan = await self._core.worker.run(alert_policy.rebalance, snapshot)
        steps = [planned_step(action, snapshot, Trigger.ALERT) for action in plan.actions]
        context = self._actor.situation.guard_context(snapshot, steps=steps)
        refusals = [first_refusal(step, context) for step in steps]
        runs = will_run(steps, [each is not None and each[0] not in _TEMPORARY_GUARDS for each in refusals])
        sources = [getattr(action, "node", "") for action in plan.actions]
        # Without the moves that are refused, the others from the same node do not suffice.
        left = frozenset(node for node, is_run in zip(sources, runs, strict=True) if not is_run)
        return frozenset(sources) - left

    # --- Stopping and starting ----------------------------------------------------------------------

    async def _stop_next(
        self, snapshot: Snapshot, optional: Iterable[OptionalService], shortages: Shortages
    ) -> bool:
        context = self._actor.situation.guard_context(snapshot)
        # A service whose stop failed does not hold up others.
        candidates = [each for each in optional if not self._seconds_left(each.key)]
        refused = list[str]()
        while (choice := choose_to_stop(candidates, shortages, self._settings)) is not None:
            service, subjects = choice
            why = tuple(shortages.short[subject] for subject in subjects)
            action = _stop_action(service, (*why, f"it is optional, with weight {service.weight:g}"))
            refusal = first_refusal(planned_step(action, snapshot, Trigger.BROWNOUT), context)
            if refusal is None:
                return await self._stop(snapshot, service, action, subjects, "; ".join(why))
            refused.append(f"{service.name} is not stopped: {refusal[1]}")
            candidates.remove(service)
        if refused:
            await self._actor.planner.record(
                Trigger.BROWNOUT, self._decider, snapshot, Plan(left=tuple(refused))
            )
        return False

    async def _stop(
        self,
        snapshot: Snapshot,
        service: OptionalService,
        action: Kill | Scale,
        subjects: Iterable[str],
        why: str,
    ) -> bool:
        used = dict.fromkeys(service.nodes, Quantities()) | usage_by_node(snapshot, service.containers)
        now = self._core.clock()
        stopped = StoppedService(
            service=service.name,
            weight=service.weight,
            replicas=service.replicas,
            since=now,
            why=why,
            used=used,
            watts=self._reported_watts(service),
            container=service.key if service.is_standalone else None,
            stops=1 + sum(map(_is_carried_out_stop, self._attempts.get(service.key, ()))),
            waits_for=why,
        )
        is_dry = self._actor.situation.is_dry
        if not is_dry:
            await self._put(stopped)
        decision = await self._carry_out(snapshot, service.name, action, why)
        if decision is None:
            return False
        self._shortages.acted_at |= dict.fromkeys(subjects, self._core.clock())
        if is_dry:
            return True
        if any(step.state in _UNCERTAIN for step in decision.steps):
            # It may have stopped, and must then start again. The record is dropped once the service runs.
            await self._actor.situation.refresh()
            await self._put(msgspec.structs.replace(stopped, since=self._core.clock()))
        elif not _is_in_effect(decision):
            await self._drop(stopped.key)
        return True

    async def _start_next(self, snapshot: Snapshot) -> bool:
        free = free_by_node(snapshot, self._settings.fill_ratio)
        free_watts = (
            self._settings.fill_ratio * self._budget - cluster_watts(snapshot) if self._budget else None
        )
        # Services that failed to start come last, so that they do not hold up others.
        for stopped in sorted(self.stopped, key=lambda each: bool(self._failed_attempts(each.key))):
            why = reason_to_wait(stopped, self._shortages, self._settings, free=free, free_watts=free_watts)
            left = self._seconds_left(stopped.key)
            if why is None and left:
                why = f"it failed to start: next attempt in {left:.0f} s"
            self._stopped[stopped.key] = msgspec.structs.replace(stopped, waits_for=why or "it starts now")
            if why is not None:
                continue
            action = _start_action(
                stopped, (f"resources are no longer short: it was stopped because {stopped.why}",)
            )
            decision = await self._carry_out(snapshot, stopped.service, action, action.reasons[0])
            if decision is None:
                continue
            if _is_in_effect(decision):
                self._shortages.acted_at |= dict.fromkeys((*stopped.used, BUDGET), self._core.clock())
                await self._drop(stopped.key)
            return True
        return False

    async def _carry_out(
        self, snapshot: Snapshot, subject: str, action: Kill | Scale | Start, why: str
    ) -> Decision | None:
        decision = await self._actor.planner.record(
            Trigger.BROWNOUT,
            replace(self._decider, subject=subject),
            snapshot,
            Plan(actions=(action,), reasons=(why,)),
        )
        return None if decision is None else await self._actor.executor.carry_out(decision)

    def _reported_watts(self, service: OptionalService) -> float:
        """Return the power that agents attribute to a service; 0 if they attribute none."""
        total = 0.0
        for name in set(service.nodes):
            for node in self._core.registry.nodes(self._core.clock(), node=name):
                there = node.run.containers
                powers = [there[each].value.power for each in service.containers if each in there]
                total += sum(power.watts for power in powers if power is not None)
        return total

    def _recent_attempts(self) -> dict[str, list[Step]]:
        """Return the stops and starts of services within the last hour, by the journal."""
        found = defaultdict(list)
        for _, step in self._actor.situation.journal.started_steps(self._core.clock() - RECENT_SECONDS):
            if (key := _shed_key(step)) is not None:
                found[key].append(step)
        return found

    def _failed_attempts(self, key: str) -> list[Step]:
        """Return the attempts that failed since the last success, the last one first."""
        attempts = reversed(self._attempts.get(key, ()))
        return list(takewhile(lambda step: step.state not in CARRIED_OUT, attempts))

    def _seconds_left(self, key: str) -> float:
        """Return the time until the next attempt on a service, which doubles with each that failed."""
        failed = self._failed_attempts(key)
        if not failed:
            return 0.0
        last = failed[0].done_at or failed[0].started_at or 0.0
        return max(0.0, last + required_calm_seconds(len(failed), self._settings) - self._core.clock())

    # --- Stored state -------------------------------------------------------------------------------

    async def _load(self) -> None:
        if self._is_loaded:
            return
        stored = await self._core.history.get_values(_KIND)
        self._stopped = decode_values(stored, _decoder.decode, "the stored stop of optional service")
        # Before, nothing was observed: the collector restored its state, or another one acted.
        self._shortages.began_at = self._core.clock()
        self._is_loaded = True

    async def _forget_running(self, optional: Iterable[OptionalService]) -> None:
        """Forget the services that run again or were removed."""
        situation, view = self._actor.situation, self._actor.situation.view
        # Another host may claim a container of the same id.
        running = {
            (each.key, each.nodes[0] if each.is_standalone else "") for each in optional if each.containers
        }
        names = {each.name for each in view.services}
        for key, stopped in list(self._stopped.items()):
            is_removed = stopped.container is None and bool(view.nodes) and stopped.service not in names
            # A stop that was just requested may still take effect.
            is_settled = (situation.refreshed_at or 0.0) - stopped.since >= self._settings.step_seconds
            host = "" if stopped.container is None else next(iter(stopped.used))
            if ((key, host) in running and is_settled) or is_removed:
                log.info("optional service %s is no longer stopped", stopped.service)
                await self._drop(key)

    async def _adopt_stopped(self) -> None:
        """Add stops that only the orchestrator knows: this history does not contain them."""
        for service in self._actor.situation.view.services:
            if service.stopped_replicas and service.name not in self._stopped:
                await self._put(
                    StoppedService(
                        service=service.name,
                        weight=weight_of(service.labels),
                        replicas=service.stopped_replicas,
                        since=self._core.clock(),
                        why="resources were short",
                    )
                )

    async def _put(self, stopped: StoppedService) -> None:
        await self._core.history.put_values(_KIND, {stopped.key: msgspec.msgpack.encode(stopped)})
        self._stopped[stopped.key] = stopped

    async def _drop(self, key: str) -> None:
        await self._core.history.put_values(_KIND, {key: None})
        del self._stopped[key]


def _stop_action(service: OptionalService, reasons: tuple[str, ...]) -> Kill | Scale:
    if service.is_standalone:
        (container,), (node,) = service.containers, service.nodes
        return Kill(task=container, name=service.name, node=node, target=None, sheds=True, reasons=reasons)
    return Scale(
        service=service.name, replicas=0, replicas_before=service.replicas, sheds=True, reasons=reasons
    )


def _start_action(stopped: StoppedService, reasons: tuple[str, ...]) -> Scale | Start:
    if stopped.container is not None:
        (node,) = stopped.used
        return Start(task=stopped.container, name=stopped.service, target=node, sheds=True, reasons=reasons)
    return Scale(
        service=stopped.service, replicas=stopped.replicas, replicas_before=0, sheds=True, reasons=reasons
    )


def _shed_key(step: Step) -> str | None:
    """Return the key of the service that a step of brownout stops or starts."""
    match step.action:
        case Scale(sheds=True, service=key) | Kill(sheds=True, task=key) | Start(sheds=True, task=key):
            return key
    return None


def _is_carried_out_stop(step: Step) -> bool:
    stops = isinstance(step.action, Kill) or (isinstance(step.action, Scale) and not step.action.replicas)
    return stops and step.state in CARRIED_OUT


def _is_in_effect(decision: Decision) -> bool:
    return any(step.state in CARRIED_OUT for step in decision.steps)


CONTROLLERS = (Brownout,)

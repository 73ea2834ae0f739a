"""The verdict on a decision: what it promised, and what was measured. Pure."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np

from collector.act.records import (
    CARRIED_OUT,
    AlertEffect,
    AnsweredAlert,
    Decision,
    DecisionOutcome,
    Effect,
    Goal,
    Step,
    Trigger,
    Verdict,
)
from collector.act.verdicts.saving import PowerEvidence, Saving, measure_saving
from collector.common.arrays import Flags, Floats
from collector.common.reported_alerts import KEPT
from collector.decide.policies.actions import (
    Move,
    PowerOff,
    PowerOn,
    Relocation,
    ServiceAction,
    affected_nodes,
)
from wire.resources import Resource

_FEWEST_ALONE = 5
"""Alerts that were left alone, below which nothing is said about them."""
Bottleneck = tuple[str, Resource]
"""A node and its short resource."""


@dataclass(frozen=True, slots=True)
class AlertSpan:
    """An alert of a node, from its start to its end."""

    node: str
    resource: Resource
    opened_at: float
    closed_at: float | None = None
    """None while it is open."""

    def seconds_within(self, start: float, end: float) -> tuple[float, float]:
        """Return the part of a period in which it was open."""
        return max(start, self.opened_at), min(end, end if self.closed_at is None else self.closed_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What was observed until now."""

    now: float
    alerts: Sequence[AlertSpan] = ()
    levels: Mapping[Bottleneck, float | None] = field(default_factory=dict)
    """Indicators of the answered alerts."""
    used: Mapping[Bottleneck, float | None] = field(default_factory=dict)
    """Use of their resources."""
    services: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Services that run on the nodes of these alerts."""
    power: PowerEvidence | None = None
    """None if the period is too short for the energy accounts."""
    goal: Goal | None = None
    """What the decision was for, if a feature made it."""
    others: Sequence[Decision] = ()
    """All decisions."""


def acted_steps(decision: Decision) -> list[Step]:
    """Return the steps in effect."""
    return [step for step in decision.steps if step.state in CARRIED_OUT]


def has_acted(decision: Decision) -> bool:
    """Whether it changed anything, and has ended."""
    return decision.outcome in {DecisionOutcome.DONE, DecisionOutcome.PARTLY}


def changed_nodes(decision: Decision) -> frozenset[str]:
    """Return the nodes that a decision changed, as far as they are known."""
    steps = acted_steps(decision)
    return frozenset[str]().union(
        *(affected_nodes(step.action) for step in steps),
        (each.node for step in steps for each in step.reliefs),
    )


def taken_ratios(decision: Decision) -> dict[Bottleneck, float]:
    """Return the share of the use of each short resource that the steps in effect took away."""
    taken: defaultdict[Bottleneck, float] = defaultdict(float)
    for step in acted_steps(decision):
        for relief in step.reliefs:
            taken[relief.node, relief.resource] += relief.ratio
    return dict(taken)


def answered_alerts(decision: Decision) -> list[AnsweredAlert]:
    """Return the alerts that its steps in effect were for."""
    if decision.trigger not in {Trigger.ALERT, Trigger.BROWNOUT}:
        return []
    taken = taken_ratios(decision)
    return [each for each in decision.alerts if (each.node, each.resource) in taken]


def relocations(decision: Decision) -> list[Relocation]:
    """Return the moves, stops and starts of containers in effect."""
    return [step.action for step in acted_steps(decision) if isinstance(step.action, Relocation)]


def cost_joules(decision: Decision) -> float:
    """Return the energy of the steps in effect: that of moves, and of switching nodes off and on again."""
    return sum(
        step.action.cost_joules for step in acted_steps(decision) if isinstance(step.action, Move | PowerOff)
    )


def promised_watts(decision: Decision) -> float | None:
    """Return the power that the steps in effect were to save; None if it is unknown."""
    acted = acted_steps(decision)
    before, after = decision.watts_before, decision.watts_after
    if len(acted) == len(decision.steps):
        return None if before is None or after is None else before - after
    # What emptying a node saves is divided among its moves, and only counts if it was switched off.
    planned_off = {step.action.node for step in decision.steps if isinstance(step.action, PowerOff)}
    off = {step.action.node for step in acted if isinstance(step.action, PowerOff)}
    emptied = {step.action.node for step in decision.steps if isinstance(step.action, Move)}
    moves = [step.action for step in acted if isinstance(step.action, Move)]
    switched = [step.action for step in acted if isinstance(step.action, PowerOff)]
    return sum(each.gain_watts for each in moves if each.node in off or each.node not in planned_off) + sum(
        each.gain_watts for each in switched if each.node not in emptied
    )


def assess(decision: Decision, after_seconds: float, evidence: Evidence) -> Verdict:
    """Return the verdict on a decision that was carried out, for the period of this length after it."""
    ended_at = decision.at if decision.ended_at is None else decision.ended_at
    nodes, period = changed_nodes(decision), (decision.at - after_seconds, ended_at + after_seconds)
    others = [each for each in evidence.others if each.id != decision.id and has_acted(each)]
    meanwhile = [
        each
        for each in others
        if _overlaps(each, *period)
        and (changed_nodes(each) & nodes or _scaled_services(each) & _scaled_services(decision))
    ]
    alone = _AloneAlerts.of((decision, *others), evidence)
    alerts = tuple(
        _alert_effect(each, decision, after_seconds, evidence, alone) for each in answered_alerts(decision)
    )
    saving, promised = _saving(decision, nodes, others, meanwhile, evidence), promised_watts(decision)
    before, after = (period[0], decision.at), (ended_at, period[1])
    elsewhere = nodes - {each.node for each in alerts}
    short_elsewhere = [_short_seconds(evidence.alerts, elsewhere, *each) or 0.0 for each in (before, after)]
    if alerts:
        effect = _effect_on_alerts(alerts, is_short_elsewhere=short_elsewhere[1] > short_elsewhere[0])
    elif evidence.goal is not None:
        effect = _effect_on_goal(evidence.goal, decision, meanwhile)
    else:
        effect = _effect_on_power(promised, saving)
    return Verdict(
        after_seconds=after_seconds,
        at=evidence.now,
        effect=effect,
        alerts=alerts,
        goal=evidence.goal,
        promised_watts=promised,
        saved_watts=saving.watts,
        error_watts=saving.error_watts,
        why_unknown=saving.why_unknown,
        short_seconds_before=_short_seconds(evidence.alerts, nodes, *before),
        short_seconds_after=_short_seconds(evidence.alerts, nodes, *after),
        moves=len(relocations(decision)),
        cost_joules=cost_joules(decision),
        meanwhile=tuple(each.id for each in meanwhile),
    )


# --- Alerts -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _AloneAlerts:
    """All alerts, and when a decision first changed their nodes while they were open.

    Decisions are compared with those that were left alone: alerts end by themselves, too.
    """

    opened_at: Floats
    ended_at: Floats
    """Now, of those that are open."""
    is_closed: Flags
    answered_at: Floats
    """Infinite if no decision changed the node until the alert ended."""
    now: float

    @classmethod
    def of(cls, acted: Iterable[Decision], evidence: Evidence) -> "_AloneAlerts":
        times: defaultdict[str, list[float]] = defaultdict(list)
        for decision in sorted(acted, key=lambda each: each.at):
            for node in changed_nodes(decision):
                times[node].append(decision.at)

        def answered_at(span: AlertSpan) -> float:
            of_node = times.get(span.node, ())
            place = bisect_left(of_node, span.opened_at)
            return of_node[place] if place < len(of_node) else inf

        spans, now = evidence.alerts, evidence.now
        return cls(
            np.array([each.opened_at for each in spans]),
            np.array([now if each.closed_at is None else each.closed_at for each in spans]),
            np.array([each.closed_at is not None for each in spans], dtype=np.bool_),
            np.array([answered_at(each) for each in spans]),
            now,
        )

    def ended_ratio(self, age: float, seconds: float) -> float | None:
        """Return how many of those that lasted as long ended within the same time."""
        until = self.opened_at + age + seconds
        lasted = (self.ended_at - self.opened_at > age) & (self.is_closed | (self.now >= until))
        lasted &= self.answered_at >= np.minimum(self.ended_at, until)
        count = int(lasted.sum())
        ended = lasted & self.is_closed & (self.ended_at <= until)
        return int(ended.sum()) / count if count >= _FEWEST_ALONE else None


def _alert_effect(
    alert: AnsweredAlert, decision: Decision, after_seconds: float, evidence: Evidence, alone: _AloneAlerts
) -> AlertEffect:
    key, at = (alert.node, alert.resource), decision.at
    until = (at if decision.ended_at is None else decision.ended_at) + after_seconds
    spans = [each for each in evidence.alerts if (each.node, each.resource) == key]
    own = [
        each for each in spans if each.opened_at <= at and (each.closed_at is None or each.closed_at >= at)
    ]
    span = max(own, key=lambda each: each.opened_at, default=None)
    closed_at = None if span is None else span.closed_at
    in_time = closed_at is not None and closed_at <= until
    age = 0.0 if span is None else at - span.opened_at
    return AlertEffect(
        node=alert.node,
        resource=alert.resource,
        is_open=any(
            begin < until <= end for begin, end in (each.seconds_within(at, until) for each in spans)
        ),
        closed_seconds=closed_at - at if closed_at is not None and in_time else None,
        taken_ratio=round(taken_ratios(decision)[key], 4),
        excess_ratio=alert.excess_ratio,
        level_before=alert.level,
        level_after=evidence.levels.get(key),
        used_before=alert.used_ratio,
        used_after=evidence.used.get(key),
        alone_ratio=alone.ended_ratio(age, after_seconds),
        services=evidence.services.get(alert.node, ()),
    )


def _effect_on_alerts(alerts: Sequence[AlertEffect], *, is_short_elsewhere: bool) -> Effect:
    """Return whether the alerts ended. A shortage that moved to another node has not."""
    closed = sum(each.closed_seconds is not None and not each.is_open for each in alerts)
    if not closed:
        return Effect.USELESS
    return Effect.LESS if closed < len(alerts) or is_short_elsewhere else Effect.HELPED


def _short_seconds(
    spans: Iterable[AlertSpan], nodes: frozenset[str], start: float, end: float
) -> float | None:
    """Return how long the nodes had an alert in a period; None if the oldest alerts are forgotten."""
    total, by_resource = 0.0, defaultdict[Bottleneck, list[float]](list)
    by_node: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for each in spans:
        if each.node in nodes:
            by_node[each.node].append(each.seconds_within(start, end))
            by_resource[each.node, each.resource].append(each.opened_at)
    if any(len(opened) >= KEPT and min(opened) > start for opened in by_resource.values()):
        return None
    for parts in by_node.values():
        reached = start
        for begin, until in sorted(parts):
            total += max(0.0, until - max(begin, reached))
            reached = max(reached, until)
    return total


def _scaled_services(decision: Decision) -> set[str]:
    actions = [step.action for step in acted_steps(decision)]
    return {each.service for each in actions if isinstance(each, ServiceAction)}


def _effect_on_goal(goal: Goal, decision: Decision, meanwhile: Sequence[Decision]) -> Effect:
    """Return whether a goal is met, also by later decisions of the same policy; those of others mix in."""
    mixed = any(
        each.policy != decision.policy and _scaled_services(each) & _scaled_services(decision)
        for each in meanwhile
    )
    if mixed or goal.value is None:
        return Effect.UNKNOWN
    return Effect.HELPED if goal.value <= goal.most else Effect.USELESS


# --- Power --------------------------------------------------------------------------------------


def _saving(
    decision: Decision,
    nodes: frozenset[str],
    others: Sequence[Decision],
    meanwhile: Sequence[Decision],
    evidence: Evidence,
) -> Saving:
    power = evidence.power
    if decision.trigger is not Trigger.TIMER:
        # Before it, its nodes had another load: that is why it was made.
        return Saving(why_unknown="a change of load caused it, whose power cannot be told apart from its own")
    if power is None:
        return Saving(why_unknown="energy is accounted by five minutes: the period is too short")
    # Scaling follows load, and counts as load, as it did in the periods before.
    mixed = [each.id for each in meanwhile if each.trigger is not Trigger.ELASTIC]
    if mixed:
        return Saving(why_unknown=f"decision {', '.join(mixed)} changed the same nodes meanwhile")
    since = decision.at - len(power.before) * power.seconds
    until = evidence.now
    touched = [
        each for each in others if _overlaps(each, since, until) and each.trigger is not Trigger.ELASTIC
    ]
    steps = [step.action for step in acted_steps(decision)]
    return measure_saving(
        power,
        nodes,
        touched=frozenset[str]().union(*map(changed_nodes, touched)),
        off_after=frozenset(each.node for each in steps if isinstance(each, PowerOff)),
        off_before=frozenset(each.node for each in steps if isinstance(each, PowerOn)),
    )


def _effect_on_power(promised: float | None, saving: Saving) -> Effect:
    """Compare the interval of what was saved with nothing, and with the promise."""
    if promised is None or promised <= 0.0 or saving.watts is None or saving.error_watts is None:
        return Effect.UNKNOWN
    least, most = saving.watts - saving.error_watts, saving.watts + saving.error_watts
    if least > 0.0:
        return Effect.HELPED if most >= promised else Effect.LESS
    return Effect.UNKNOWN if most >= promised else Effect.USELESS


def _overlaps(decision: Decision, start: float, end: float) -> bool:
    until = decision.at if decision.ended_at is None else decision.ended_at
    return decision.at <= end and until >= start

"""Follows decisions up: gathers what was observed, and records the verdicts that are due."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import msgspec

from collector.act.records import AnsweredAlert, Decision, Effect, Goal, Trigger, Verdict
from collector.act.situation import Situation
from collector.act.verdicts.assess import (
    AlertSpan,
    Evidence,
    answered_alerts,
    assess,
    changed_nodes,
    has_acted,
)
from collector.act.verdicts.learning import WEEK_SECONDS, effects_of, is_closed, services_on
from collector.act.verdicts.saving import PERIODS, Energy, PowerEvidence
from collector.act.verification import known
from collector.common.arrays import Floats
from collector.common.errors import HistoryUnavailable
from collector.common.reported_alerts import AlertState
from collector.history.interface import GroupBy
from collector.history.rollups import FINE_SECONDS
from collector.observe.entries import AlertEntry
from collector.snapshot.tables import Snapshot
from wire.resources import RESOURCES

log = logging.getLogger(__name__)

_STAGES = (1, 6, 144)
"""Times of the verdicts, in multiples of `control.verdict_seconds`: ten minutes, an hour, a day."""
_FEWEST_BUCKETS = 2
"""Buckets of the accounts below which a period depends on when heartbeats came: none in ten minutes."""
_NEWS = 0.1
"""Least change of a caution that is worth a line in the log."""
_LATEST_REPORT_SECONDS = 2 * FINE_SECONDS
"""Time until the energy of a period is complete: a heartbeat, and the pass that adds it to the accounts."""


async def follow_up(
    situation: Situation, goal_of: Callable[[Decision], Goal | None] = lambda _: None
) -> None:
    """Record the verdict that has been due for the longest time, if there is one.

    `goal_of` returns what a feature made a decision for.
    """
    due = [each for each in map(partial(_next_verdict, situation), situation.journal.decisions()) if each]
    if due:
        _, decision, seconds = min(due, key=lambda each: each[0])
        verdict = await _judge(situation, decision, seconds, goal_of)
        await situation.journal.amend(
            decision.id,
            lambda before: msgspec.structs.replace(before, verdicts=(*before.verdicts, verdict)),
        )
        _log(decision, verdict)
    await learn(situation)


async def _judge(
    situation: Situation, decision: Decision, seconds: float, goal_of: Callable[[Decision], Goal | None]
) -> Verdict:
    """Return the verdict on a decision. One that fails is recorded as unknown: it holds up no other."""
    try:
        evidence = replace(await _gather(situation, decision, seconds), goal=goal_of(decision))
        # The alerts of a large cluster take a while.
        return await asyncio.to_thread(assess, decision, seconds, evidence)
    except HistoryUnavailable:
        raise
    except Exception as error:
        log.exception("what decision %s brought cannot be told", decision.id)
        return Verdict(
            after_seconds=seconds,
            at=situation.core.clock(),
            effect=Effect.UNKNOWN,
            why_unknown=f"the verdict failed ({error!r}): the collector's log has the details",
        )


def _next_verdict(situation: Situation, decision: Decision) -> tuple[float, Decision, float] | None:
    """Return when the next verdict on a decision was due, and for which period; None if none is due."""
    if decision.ended_at is None or not has_acted(decision) or len(decision.verdicts) == len(_STAGES):
        return None
    seconds = _STAGES[len(decision.verdicts)] * situation.settings.verdict_seconds
    due_at = decision.ended_at + seconds
    if _energy_period(decision.ended_at, seconds):
        due_at += _LATEST_REPORT_SECONDS
    return (due_at, decision, seconds) if situation.core.clock() >= due_at else None


def _energy_period(ended_at: float, seconds: float) -> tuple[float, float] | None:
    """Return the period after a decision that the energy accounts show; None if it is too short.

    Energy is known from one heartbeat to the next. So the one during which the decision ended is left out.
    """
    start = -FINE_SECONDS * (-(ended_at + FINE_SECONDS) // FINE_SECONDS)
    end = FINE_SECONDS * ((ended_at + seconds) // FINE_SECONDS)
    return (start, end) if end - start >= _FEWEST_BUCKETS * FINE_SECONDS else None


async def _gather(situation: Situation, decision: Decision, seconds: float) -> Evidence:
    """Gather what was observed about a decision that has ended."""
    core, now, snapshot = situation.core, situation.core.clock(), await situation.snapshot()
    alerts = answered_alerts(decision)
    return Evidence(
        now=now,
        alerts=[_span(each, now) for each in core.registry.alerts(now)],
        levels={
            (each.node, each.resource): _ratio(
                snapshot, each, snapshot.nodes.busy if each.by_time else snapshot.nodes.used_ratio
            )
            for each in alerts
        },
        used={
            (each.node, each.resource): _ratio(snapshot, each, snapshot.nodes.used_ratio) for each in alerts
        },
        services=services_on(snapshot, {each.node for each in alerts}),
        power=await _power(situation, decision, seconds) if decision.trigger is Trigger.TIMER else None,
        others=situation.journal.decisions(),
    )


def _span(entry: AlertEntry, now: float) -> AlertSpan:
    alert = entry.reported.alert
    # If the report that closed it was lost, all that is known is that it is closed by now.
    closed_at = alert.closed_at or now if entry.state is AlertState.CLOSED else None
    return AlertSpan(entry.reported.node, alert.resource, alert.opened_at, closed_at)


def _ratio(snapshot: Snapshot, alert: AnsweredAlert, ratios: Floats) -> float | None:
    """Return the ratio of the node and resource of an alert."""
    row = snapshot.nodes.index.get(alert.node)
    return None if row is None else known(ratios[row, RESOURCES.index(alert.resource)])


async def _power(situation: Situation, decision: Decision, seconds: float) -> PowerEvidence | None:
    """Read the energy accounts of the period after a decision, and of periods before it."""
    assert decision.ended_at is not None
    period = _energy_period(decision.ended_at, seconds)
    if period is None:
        return None
    length = period[1] - period[0]
    # A heartbeat during the decision counts as after it.
    latest = FINE_SECONDS * ((decision.at - FINE_SECONDS) // FINE_SECONDS)
    ends = [latest - place * length for place in range(PERIODS)]

    async def energy(start: float, end: float) -> Energy:
        found = await situation.core.history.energy(start, end, GroupBy.NODE)
        return {each.key: each for each in found if each.key is not None}

    return PowerEvidence(
        seconds=length,
        before=[await energy(end - length, end) for end in ends],
        after=await energy(*period),
        error_ratio=_error_ratio(situation, changed_nodes(decision)),
    )


def _error_ratio(situation: Situation, nodes: frozenset[str]) -> float:
    """Return the largest expected error of the watts that some nodes report."""
    registry, now = situation.core.registry, situation.core.clock()
    found = (
        each.run.state.value.power
        for node in nodes
        for each in registry.nodes(now, node=node)
        if each.run.state is not None
    )
    return max((power.error_ratio for power in found if power is not None), default=0.0)


async def learn(situation: Situation) -> None:
    """Make deciders as cautious as the verdicts of the last week suggest, and say so."""
    decisions, since = situation.journal.decisions(), situation.core.clock() - WEEK_SECONDS
    effects = await asyncio.to_thread(effects_of, decisions, since)
    cautions = {each.policy: each.caution for each in effects}
    for each in effects:
        if abs(each.caution - situation.cautions.get(each.policy, 1.0)) >= _NEWS:
            log.info(
                "policy %s must promise %.1f times the required gain from now on%s",
                each.policy,
                each.caution,
                f": {each.why}" if each.why else "",
            )
        else:
            cautions[each.policy] = situation.cautions.get(each.policy, 1.0)
    situation.effects, situation.cautions = effects, cautions


def _log(decision: Decision, verdict: Verdict) -> None:
    minutes, figures = verdict.after_seconds / 60, list[str]()
    for each in verdict.alerts:
        ended = "still open" if not is_closed(each) else f"ended after {each.closed_seconds or 0.0:.0f} s"
        figures.append(f"{each.resource} on {each.node} {ended}")
    if verdict.saved_watts is not None:
        promise = "unknown" if verdict.promised_watts is None else f"{verdict.promised_watts:.1f} W"
        figures.append(f"saved {verdict.saved_watts:.1f} W ±{verdict.error_watts:.1f}, promised {promise}")
    log.info("decision %s, after %g min: %s (%s)", decision.id, minutes, verdict.effect, "; ".join(figures))

"""The effect of a decision: whether the bottleneck ended, and the load of its nodes afterwards."""

from functools import partial
from typing import Any

import msgspec

from collector.control.records import Decision, DecisionOutcome
from collector.control.situation import Situation
from collector.control.verification import alerts, load
from collector.snapshot.tables import Snapshot


async def follow_up(situation: Situation) -> None:
    """Record the effect of ended decisions once it can be measured."""
    waiting = [each for each in situation.journal.decisions() if _awaits_effect(each)]
    if not waiting:
        return
    snapshot = await situation.snapshot()
    for decision in waiting:
        changes = _changes(decision, snapshot, situation.core.clock(), situation.settings.settle_seconds)
        if changes:
            await situation.journal.amend(decision.id, partial(msgspec.structs.replace, **changes))


def _awaits_effect(decision: Decision) -> bool:
    is_over = decision.ended_at is not None and decision.outcome in {
        DecisionOutcome.DONE,
        DecisionOutcome.PARTLY,
    }
    return is_over and decision.after is None


def _changes(decision: Decision, snapshot: Snapshot, now: float, settle_seconds: float) -> dict[str, Any]:
    """Return the fields of a decision that are known now."""
    changes: dict[str, Any] = {}
    answered = frozenset(each.node for each in decision.alerts)
    if answered and decision.healed_seconds is None and not alerts(snapshot, answered):
        changes["healed_seconds"] = now - decision.at
    assert decision.ended_at is not None
    if now - decision.ended_at >= settle_seconds:
        changes["after"] = load(snapshot, frozenset(decision.before.used_ratios))
    return changes

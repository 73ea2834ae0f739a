"""What came of a decision: whether it healed what it answered, and what it did to its nodes."""

from functools import partial
from typing import Any

import msgspec

from collector.control.records import Decision, DecisionOutcome
from collector.control.situation import Situation
from collector.control.verification import alerts, load
from collector.snapshot.tables import Snapshot


async def follow_up(situation: Situation) -> None:
    """See what decisions that are over have done to their nodes, once that shows."""
    waiting = [each for each in situation.journal.decisions() if _is_waited_for(each)]
    if not waiting:
        return
    snapshot = await situation.snapshot()
    for decision in waiting:
        changes = _changes(decision, snapshot, situation.core.clock(), situation.settings.settle_seconds)
        if changes:
            await situation.journal.amend(decision.id, partial(msgspec.structs.replace, **changes))


def _is_waited_for(decision: Decision) -> bool:
    is_over = decision.ended_at is not None and decision.outcome in {
        DecisionOutcome.DONE,
        DecisionOutcome.PARTLY,
    }
    return is_over and decision.after is None


def _changes(decision: Decision, snapshot: Snapshot, now: float, settle_seconds: float) -> dict[str, Any]:
    """What can be told of a decision by now that could not before."""
    changes: dict[str, Any] = {}
    answered = frozenset(each.node for each in decision.alerts)
    if answered and decision.healed_seconds is None and not alerts(snapshot, answered):
        changes["healed_seconds"] = now - decision.at
    assert decision.ended_at is not None
    if now - decision.ended_at >= settle_seconds:
        changes["after"] = load(snapshot, frozenset(decision.before.used_ratios))
    return changes

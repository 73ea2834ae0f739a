"""Moves in the journal of a running collector, as its executor records them."""

from collector.act.journal import Journal
from collector.act.loop import Actor
from collector.act.records import Decision, Load, Step, StepState, Trigger
from collector.decide.policies.actions import Move
from collector.main import RunningCollector
from collector.observe.updates import Succession
from tests.collector.act.builders import FakeDriver


async def record_move(collector: RunningCollector, journal: Journal, move: Succession) -> None:
    """Record a move as the executor does, and publish it as the control loop does."""
    now = collector.core.clock()
    step = Step(
        action=Move(task=move.predecessor, node=move.from_node, target=move.node, reasons=()),
        state=StepState.VERIFIED,
        containers=(move.container,),
        started_at=now,
        done_at=now,
    )
    decision = Decision(
        id=journal.new_id(),
        at=now,
        trigger=Trigger.TIMER,
        policy="least-watts",
        settings={},
        driver="fake",
        dry=False,
        steps=(step,),
        before=Load(at=now, watts=None, used_ratios={}, alerts=()),
    )
    await journal.add(decision, b"")
    Actor.of(collector.core, FakeDriver(), journal, None).situation.publish_view()

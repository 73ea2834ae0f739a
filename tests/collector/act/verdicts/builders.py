"""Decisions that were carried out, and what was observed about them."""

from typing import Any

from collector.act.records import (
    AlertEffect,
    AnsweredAlert,
    Decision,
    DecisionOutcome,
    Effect,
    Load,
    Relief,
    Step,
    StepState,
    Trigger,
    Verdict,
)
from collector.decide.policies.actions import Move
from wire.resources import Resource

AT = 1_000_000.0


def moved(name: str = "hog", source: str = "alpha", taken: float = 0.4, **fields: Any) -> Step:
    """A verified move off a node that is short of CPU."""
    action = Move(
        task=f"id-of-{name}", name=name, node=source, target="beta", reasons=(), gain_watts=10, cost_joules=20
    )
    relief = Relief(node=source, resource=Resource.CPU, ratio=taken)
    return Step(
        **{"action": action, "state": StepState.VERIFIED, "service": name, "reliefs": (relief,), **fields}
    )


def decided(*steps: Step, **fields: Any) -> Decision:
    """A decision about the CPU of alpha, of which a fifth must go."""
    alert = AnsweredAlert(node="alpha", resource=Resource.CPU, level=0.96, excess_ratio=0.2)
    defaults = {
        "id": "d1",
        "at": AT,
        "trigger": Trigger.ALERT,
        "policy": "draps",
        "settings": {},
        "driver": "fake",
        "dry": False,
        "alerts": (alert,),
        "steps": steps or (moved(),),
        "before": Load(at=AT, watts=None, used_ratios={}, alerts=()),
        "outcome": DecisionOutcome.DONE,
        "ended_at": AT + 10,
    }
    return Decision(**{**defaults, **fields})


def judged(*, closed: bool, **fields: Any) -> Verdict:
    """A verdict after ten minutes."""
    effect = AlertEffect(
        node="alpha",
        resource=Resource.CPU,
        is_open=not closed,
        closed_seconds=30.0 if closed else None,
        taken_ratio=0.4,
        excess_ratio=0.2,
        level_before=0.96,
        level_after=0.5 if closed else 0.95,
        used_before=0.96,
        used_after=0.5 if closed else 0.95,
        alone_ratio=None,
        services=("steady",),
    )
    defaults = {
        "after_seconds": 600.0,
        "at": AT + 610,
        "effect": Effect.HELPED if closed else Effect.USELESS,
        "alerts": (effect,),
    }
    return Verdict(**{**defaults, **fields})

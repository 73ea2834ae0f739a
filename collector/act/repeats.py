"""Which decisions are worth carrying out: new ones, and repeated ones that now can do what they could not."""

import re
from collections.abc import Sequence

from collector.act.records import Step, StepState, Trigger
from collector.act.steps import will_run
from collector.decide.policies.actions import Action, ServiceAction
from collector.decide.policies.interface import Plan

Refusals = Sequence[tuple[str, str] | None]
"""For each step, the guard that refuses it and why, or None."""
_COUNT = re.compile(r"\b\d[\d.]*%|\b\d[\d.e+-]* ((?:more )?\w+?)s?\b")
"""A percentage, or a number with its unit. A reason in which only these changed is not recorded again."""


Cause = tuple[Trigger, str]
"""What a decision is made for, and the service that it is about; empty if it is about all."""
ALERTS: Cause = (Trigger.ALERT, "")


class Repeats:
    """Remembers the last decision of each cause."""

    def __init__(self) -> None:
        self._last: dict[Cause, object] = {}

    def forget(self, cause: Cause) -> None:
        self._last.pop(cause, None)

    def is_new(
        self, cause: Cause, plan: Plan, steps: Sequence[Step], refusals: Refusals, *, is_blind: bool = False
    ) -> bool:
        """Whether a plan differs from the last one of its cause; requests always do.

        `is_blind` says that the orchestrator does not answer: an empty plan is then not the same as one of a
        time when it does.
        """
        content = (
            tuple(_identity(step.action) for step in steps),
            tuple(refusal and refusal[0] for refusal in refusals),
            () if steps else tuple(_COUNT.sub(r"\1", each) for each in plan.left),
            is_blind,
        )
        is_repeated = self._last.get(cause) == content or not (steps or plan.left)
        if is_repeated and cause[0] is not Trigger.REQUEST:
            return False
        self._last[cause] = content
        return True


def can_resume(last: Sequence[Step], steps: Sequence[Step], refusals: Refusals) -> bool:
    """Whether a step can run now that the last answer to alerts had to leave."""
    left = (StepState.REFUSED, StepState.DROPPED)
    tried = [_identity(each.action) for each in last if each.state in left]
    runs = will_run(steps, (each is not None for each in refusals)) if tried else ()
    return any(run and _identity(each.action) in tried for each, run in zip(steps, runs, strict=False))


def _identity(action: Action) -> tuple[object, ...]:
    """Return the identity of an action, without its reasons and gains."""
    if isinstance(action, ServiceAction):
        return (
            action.kind,
            action.service,
            getattr(action, "replicas", None),
            getattr(action, "cpu_limit_cores", None),
        )
    return action.kind, *(getattr(action, field, None) for field in ("task", "node", "target"))

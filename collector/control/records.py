"""What is on record of a decision."""

from enum import StrEnum
from typing import Any

import msgspec

from collector.policies.actions import Action
from wire.resources import Quantities, Resource

_NOTHING = Quantities()


class StepState(StrEnum):
    """How far an action has come."""

    PLANNED = "planned"
    """Nothing was done, or will be by a driver that only pretends."""
    REFUSED = "refused"
    """A guard said no."""
    DROPPED = "dropped"
    """It was not begun: something before it went wrong, or the collector was stopped."""
    STARTED = "started"
    """The driver was asked, and what became of it is not on record yet."""
    DONE = "done"
    """The driver says that it is done; the agents have not shown it yet."""
    VERIFIED = "verified"
    """The agents' own data show it."""
    UNDOING = "undoing"
    """It did not show in time, and is being put back."""
    UNDONE = "undone"
    FAILED = "failed"
    """It was not done, and all is as before."""
    UNCLEAR = "unclear"
    """It was neither seen to be done nor to be undone: a person should look."""


IN_MOTION = (StepState.STARTED, StepState.DONE, StepState.UNDOING)
"""What is begun and not ended: after a restart these are taken up again."""
CARRIED_OUT = (StepState.DONE, StepState.VERIFIED)


class Trigger(StrEnum):
    """Why something was thought about."""

    ALERT = "alert"
    TIMER = "timer"
    REQUEST = "request"
    """Somebody asked for room."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One action of a plan, and what became of it."""

    action: Action
    state: StepState = StepState.PLANNED
    service: str | None = None
    memory_bytes: int = 0
    """What the container is reckoned to need: it is filled anew where it goes."""
    requested: Quantities = _NOTHING
    """Of a container that is cut: what it was promised at first."""
    there_before: tuple[str, ...] = ()
    """Containers of the service that the target had already."""
    guard: str | None = None
    """Which guard said no."""
    why: str | None = None
    """Why it was refused, dropped or undone, or failed."""
    what: str | None = None
    """What was asked of the orchestrator."""
    containers: tuple[str, ...] = ()
    """Those that run in place of the one that was moved."""
    started_at: float | None = None
    done_at: float | None = None
    ended_at: float | None = None


class AnsweredAlert(msgspec.Struct, frozen=True, kw_only=True):
    """A bottleneck that a decision answers."""

    node: str
    resource: Resource


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes that a decision touches, at one moment."""

    at: float
    watts: float | None
    """What all nodes draw that are known to draw anything; null if none is."""
    used_ratios: dict[str, float]
    """The most used resource of each node that the decision touches, 0-1."""
    alerts: tuple[AnsweredAlert, ...]
    """Those of the nodes that it touches."""


class DecisionOutcome(StrEnum):
    """What came of a decision."""

    NOTHING = "nothing"
    """There was nothing to do, or nothing that could be done."""
    DRY = "dry"
    RUNNING = "running"
    DONE = "done"
    PARTLY = "partly"
    REFUSED = "refused"
    FAILED = "failed"


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was decided: why, what, and what came of it."""

    id: str
    at: float
    trigger: Trigger
    policy: str
    settings: dict[str, Any]
    driver: str
    dry: bool
    """Whether nothing was asked of anybody."""
    alerts: tuple[AnsweredAlert, ...] = ()
    """The bottlenecks that were open."""
    request: dict[str, Any] | None = None
    """What room was asked for."""
    trouble: str | None = None
    """That the orchestrator was away, and how old its word was that this is made from."""
    reasons: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    """What was thought of and left, and why."""
    steps: tuple[Step, ...] = ()
    watts_before: float | None = None
    """As the plan reckons."""
    watts_after: float | None = None
    before: Load
    after: Load | None = None
    """When the bottleneck was over, or some time after the last step; null until then."""
    outcome: DecisionOutcome = DecisionOutcome.NOTHING
    ended_at: float | None = None
    healed_seconds: float | None = None
    """From the decision until the nodes that it relieved said that they are short of nothing."""
    input_bytes: int = 0
    """Size of the snapshot that it was made from, as it is kept; 0 once that is gone."""


def outcome_of(decision: Decision) -> DecisionOutcome:
    """What came of a decision, from its steps."""
    states = {step.state for step in decision.steps}
    if not states:
        return DecisionOutcome.NOTHING
    if decision.dry:
        return DecisionOutcome.DRY
    if states & {*IN_MOTION, StepState.PLANNED}:
        return DecisionOutcome.RUNNING
    if states == {StepState.VERIFIED}:
        return DecisionOutcome.DONE
    if StepState.VERIFIED in states:
        return DecisionOutcome.PARTLY
    return (
        DecisionOutcome.REFUSED
        if states <= {StepState.REFUSED, StepState.DROPPED}
        else DecisionOutcome.FAILED
    )


class Pause(msgspec.Struct, frozen=True, kw_only=True):
    """That nothing may be done, since when, and why."""

    since: float
    until: float | None = None
    """Null means until somebody resumes."""
    why: str = ""

"""The records of the journal: decisions, their steps, and the pause."""

from enum import StrEnum
from typing import Any

import msgspec

from collector.decide.policies.actions import Action
from wire.resources import Quantities, Resource

_NOTHING = Quantities()


class StepState(StrEnum):
    """The state of a step."""

    PLANNED = "planned"
    """Not started; the final state with the driver `none`."""
    REFUSED = "refused"
    """A guard refused it."""
    DROPPED = "dropped"
    """Not started: an earlier step failed, or the collector stopped."""
    STARTED = "started"
    """Sent to the driver; the result is not recorded yet."""
    DONE = "done"
    """Done according to the driver; agents have not reported the effect yet."""
    VERIFIED = "verified"
    """Agents report the effect."""
    UNDOING = "undoing"
    """No agent reported the effect in time; it is being undone."""
    UNDONE = "undone"
    FAILED = "failed"
    """Not done; nothing has changed."""
    UNCLEAR = "unclear"
    """Neither done nor undone for certain: check it by hand."""


IN_MOTION = (StepState.STARTED, StepState.DONE, StepState.UNDOING)
"""Started and not ended: a restarted collector recovers these."""
CARRIED_OUT = (StepState.DONE, StepState.VERIFIED)
HAS_BEGUN = (*IN_MOTION, StepState.VERIFIED)
"""Later steps count on these: they were carried out, or may yet be."""


class Trigger(StrEnum):
    """What caused a decision."""

    ALERT = "alert"
    TIMER = "timer"
    REQUEST = "request"
    """A request for room."""
    WAITING = "waiting"
    """Containers wait for room."""
    BROWNOUT = "brownout"
    """Resources became short or no longer are: optional services stop or start."""
    ELASTIC = "elastic"
    """A service needs other replicas or CPU limits."""


class Relief(msgspec.Struct, frozen=True, kw_only=True):
    """Load that a step takes off a short resource of a node."""

    node: str
    resource: Resource
    ratio: float
    """Its share of what is used there."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One action of a decision, and its result."""

    action: Action
    state: StepState = StepState.PLANNED
    """Progress of the step, from `planned` to `verified`, or how it ended otherwise."""
    service: str | None = None
    answers_alert: bool = False
    """Whether the decision answers alerts of nodes."""
    reliefs: tuple[Relief, ...] = ()
    """What it takes off the short resources of its node."""
    keeps_promises: bool = False
    """Whether the policy keeps promises of availability: the limits of moves then do not apply."""
    memory_bytes: int = 0
    """Memory envelope of the container, which it needs on its new node."""
    requested: Quantities = _NOTHING
    """Limits of the container before any cut."""
    task_class: int = 1
    """SLA class of the container."""
    first_started_at: float | None = None
    """Start of the container, or of its first predecessor before moves; null if unknown."""
    there_before: tuple[str, ...] = ()
    """Containers of the service before the step; only those on the target if a container moves."""
    guard: str | None = None
    """Name of the guard that refused it."""
    why: str | None = None
    """Why the step was refused or dropped, failed, or was undone."""
    what: str | None = None
    """What the driver did."""
    containers: tuple[str, ...] = ()
    """Containers that replace the moved one; all containers of the service if it was scaled or resized."""
    started_at: float | None = None
    done_at: float | None = None
    is_timed: bool = True
    """Whether it took from `started_at` to `done_at`: not if it was interrupted, or if nothing was to do."""
    ended_at: float | None = None


class AnsweredAlert(msgspec.Struct, frozen=True, kw_only=True):
    """A bottleneck that a decision responds to."""

    node: str
    resource: Resource
    by_time: bool = False
    """Whether it is about the time in which the resource was busy or waited for, and not about its use."""
    level: float | None = None
    """The indicator that raised it, 0-1."""
    used_ratio: float | None = None
    """Use of the resource, 0-1."""
    excess_ratio: float | None = None
    """Share of that which must go for the alert to close."""


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """Load of the nodes that a decision affects, at one time."""

    at: float
    watts: float | None
    """Power of all nodes with known power; null if there is none."""
    used_ratios: dict[str, float]
    """Highest use of any resource of each affected node, 0-1."""
    alerts: tuple[AnsweredAlert, ...]
    """Open bottlenecks of the affected nodes."""


class Effect(StrEnum):
    """What a decision brought, compared with its promise."""

    HELPED = "helped"
    """As promised: the alerts are closed, or power was saved."""
    LESS = "less"
    """Less than promised."""
    USELESS = "useless"
    """Nothing: the alerts are open, or the promised power was not saved."""
    UNKNOWN = "unknown"
    """It cannot be told."""


class AlertEffect(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an alert that a decision answered."""

    node: str
    resource: Resource
    is_open: bool
    """Whether an alert about the resource is open at the time of the verdict."""
    closed_seconds: float | None
    """Time from the decision to the end of the alert; null if it did not end."""
    taken_ratio: float
    """Share of the resource's use on the node that the steps took away."""
    excess_ratio: float | None
    """Share that had to go."""
    level_before: float | None
    """The indicator of the alert at the decision."""
    level_after: float | None
    """The same indicator now; null if it is unknown, as some are while nothing waits."""
    used_before: float | None
    """Use of the resource on the node at the decision."""
    used_after: float | None
    """Use of the resource on the node now."""
    alone_ratio: float | None
    """Of the alerts that were left alone and had lasted as long, the share that ended within the same time;
    null with fewer than five."""
    services: tuple[str, ...] = ()
    """Services on the node now."""


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """What a feature decides for, such as the response time of a service."""

    what: str
    """What is measured."""
    value: float | None
    """Its value at the time of the verdict; null if it is unknown."""
    most: float
    """The value that it is to stay below."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The measured effect of a decision, some time after it."""

    after_seconds: float
    """Time from the last step to the end of what is measured."""
    at: float
    effect: Effect
    """Whether the decision did what it was for."""
    alerts: tuple[AlertEffect, ...] = ()
    """What became of the alerts that it answered."""
    goal: Goal | None = None
    """What an elastic service was scaled for; null for other decisions."""
    promised_watts: float | None = None
    """Power that its steps were to save; negative if they were to use more. Null if it is unknown."""
    saved_watts: float | None = None
    """Power saved, by the energy accounts: what its nodes would have used by their share of the untouched
    nodes in six periods before, less what they used. Null if it cannot be told."""
    error_watts: float | None = None
    """Half the width of the 95% interval of `saved_watts`."""
    why_unknown: str | None = None
    """Why the saved power cannot be told."""
    short_seconds_before: float | None = None
    """Time, in a period of this length before, in which its nodes had an alert; of all nodes added up. Null
    if older alerts are forgotten."""
    short_seconds_after: float | None = None
    """The same after it."""
    moves: int = 0
    """Containers that were moved, stopped or started."""
    cost_joules: float = 0.0
    """Energy of the moves, and of switching nodes off and on again."""
    meanwhile: tuple[str, ...] = ()
    """Ids of other decisions that changed the same nodes or services in the measured periods."""


class DecisionOutcome(StrEnum):
    """The outcome of a decision."""

    NOTHING = "nothing"
    """No step."""
    DRY = "dry"
    RUNNING = "running"
    DONE = "done"
    PARTLY = "partly"
    REFUSED = "refused"
    FAILED = "failed"


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """A decision: its cause, its steps and their outcome."""

    id: str
    """Id of the decision, for `GET /v1/decisions?id=`."""
    at: float
    trigger: Trigger
    policy: str
    settings: dict[str, Any]
    driver: str
    dry: bool
    """Whether it is only recorded (driver `none`)."""
    alerts: tuple[AnsweredAlert, ...] = ()
    """Open bottlenecks at the time of the decision."""
    request: dict[str, Any] | None = None
    """The request for room, if it caused the decision; without the nodes that are out of the question."""
    gets: Quantities | None = None
    """The reservation with which the container fits, if it is cut itself; null if it is not cut."""
    trouble: str | None = None
    """Why the orchestrator did not answer, and the age of the state that was used; null if it answered."""
    reasons: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    """Why other actions are not part of the plan."""
    steps: tuple[Step, ...] = ()
    watts_before: float | None = None
    """Estimated power of the cluster before the plan."""
    watts_after: float | None = None
    before: Load
    """Load of the affected nodes when it was decided."""
    verdicts: tuple[Verdict, ...] = ()
    """What it brought, if it was carried out: after `control.verdict_seconds`, and after 6 and 144 times as
    long."""
    outcome: DecisionOutcome = DecisionOutcome.NOTHING
    ended_at: float | None = None
    input_bytes: int = 0
    """Size of the stored snapshot of the decision; 0 if it is deleted."""


def outcome_of(decision: Decision) -> DecisionOutcome:
    """Derive the outcome from the steps."""
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
    """A pause of all actions."""

    since: float
    until: float | None = None
    """End of the pause; null if it lasts until it is resumed."""
    why: str = ""

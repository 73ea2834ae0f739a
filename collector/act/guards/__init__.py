"""Conditions that every action must meet. A guard is pure, and returns the reason of its refusal or None."""

from collector.act.guards.context import Guard, GuardContext
from collector.act.guards.pace import (
    has_cooled_down,
    has_rested,
    has_settled,
    not_too_many_at_once,
    not_too_many_for_one_node,
    not_too_many_per_hour,
    within_risk_limits,
)
from collector.act.guards.state import (
    can_wait,
    driver_answers,
    has_lease,
    is_as_planned,
    is_fresh,
    is_listed,
    labels_allow,
    may_be_cut,
    may_move,
    may_switch_off,
    meets_constraints,
    node_is_empty,
    not_paused,
    not_spent,
    within_bounds,
    within_schedule,
)
from collector.act.records import Step
from collector.common.extensions import extend

__all__ = ["GUARDS", "GuardContext", "first_refusal", "reason_not_to_act"]

GUARDS: tuple[tuple[str, Guard], ...] = (
    ("pause", not_paused),
    ("lease", has_lease),
    ("driver", driver_answers),
    ("window", within_schedule),
    ("fresh", is_fresh),
    ("plan", is_as_planned),
    ("labels", labels_allow),
    ("stays", may_move),
    ("listed", is_listed),
    ("cut", may_be_cut),
    ("queue", can_wait),
    ("bounds", within_bounds),
    ("constraints", meets_constraints),
    ("at_once", not_too_many_at_once),
    ("per_hour", not_too_many_per_hour),
    ("per_node", not_too_many_for_one_node),
    ("cool_down", has_cooled_down),
    ("rest", has_rested),
    # Until the effect of a move shows, it is too early to call an answer spent.
    ("settle", has_settled),
    ("spent", not_spent),
    ("risk", within_risk_limits),
    ("power", may_switch_off),
    ("empty", node_is_empty),
    *extend("guards", "GUARDS"),
)
"""All guards, in the order in which they are checked."""

_OF_COLLECTOR = (not_paused, has_lease, driver_answers, within_schedule)


def reason_not_to_act(context: GuardContext) -> str | None:
    """Return why this collector may change nothing at all now; None if it may."""
    return next((why for guard in _OF_COLLECTOR if (why := guard(None, context)) is not None), None)


def first_refusal(step: Step, context: GuardContext) -> tuple[str, str] | None:
    """Return the name and reason of the first guard that refuses; None if none does."""
    for name, guard in GUARDS:
        if (reason := guard(step, context)) is not None:
            return name, reason
    return None

"""Whether the replicas and CPU limits of a service stay within its bounds, and change slowly enough."""

from collector.common.text import counted
from collector.control.guards.context import GuardContext, Refusal
from collector.control.records import Step, StepState
from collector.policies.actions import Scale, ServiceAction, describe_cores

_ROUNDING = 1e-9


def within_bounds(step: Step, context: GuardContext) -> Refusal:
    """Refuse more or fewer replicas, or another CPU limit, than the bounds of a service allow."""
    action = step.action
    if not isinstance(action, ServiceAction):
        return None
    bounds = context.bounds.get(action.service)
    if isinstance(action, Scale):
        service = context.service(step)
        if service is not None and service.stopped_replicas and not action.sheds:
            return f"{action.service} is optional, and is stopped while resources are short"
        if bounds is None or action.sheds or bounds.replicas_min <= action.replicas <= bounds.replicas_max:
            return None
        replicas = counted(action.replicas, "replica")
        return f"{action.service} must not have {replicas}: {bounds.replicas_min} to {bounds.replicas_max}"
    low, high = (0.0, None) if bounds is None else (bounds.cpu_min_cores, bounds.cpu_max_cores)
    cores = action.cpu_limit_cores
    if cores > 0 and cores >= low - _ROUNDING and (high is None or cores <= high + _ROUNDING):
        return None
    allowed = "it must be above 0" if high is None else f"{low:g} to {describe_cores(high)}"
    return f"{action.service} must not be limited to {describe_cores(cores)}: {allowed}"


def service_has_cooled_down(step: Step, context: GuardContext) -> Refusal:
    """Refuse to change a service again within its cool-down; after a failed change, within a shorter one."""
    action, settings = step.action, context.settings
    if not _changes_size(step):
        return None
    assert isinstance(action, ServiceAction)
    bounds = context.bounds.get(action.service)
    cool_down_seconds = settings.cool_down_seconds if bounds is None else bounds.cool_down_seconds
    for each in context.earlier:
        if not _changes_size(each) or each.service != action.service or each.started_at is None:
            continue
        has_failed = each.state is StepState.FAILED
        ago = context.now - each.started_at
        if ago < 0:
            continue  # recorded by a wrong clock
        rest = (min(settings.settle_seconds, cool_down_seconds) if has_failed else cool_down_seconds) - ago
        if rest > 0:
            what = "failed to change" if has_failed else "changed"
            return f"{action.service} {what} {ago:.0f} s ago: wait another {rest:.0f} s"
    return None


def _changes_size(step: Step) -> bool:
    """Whether a step changes the size of a service; a step that sheds load has its own rules."""
    action = step.action
    return isinstance(action, ServiceAction) and not (isinstance(action, Scale) and action.sheds)

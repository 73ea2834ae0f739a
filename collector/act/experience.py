"""What the journal teaches about the time that actions take."""

from collections import defaultdict
from collections.abc import Iterable
from statistics import fmean

from collector.act.records import Step
from collector.decide.policies.actions import Move, PowerOff, PowerOn
from collector.snapshot.experience import Experience


def experience_of(steps: Iterable[Step], power_seconds: float) -> Experience:
    """Return what these carried-out steps teach.

    Until a node was switched, `power_seconds` counts: the longest time that it may take.
    """
    seconds = defaultdict[str, list[float]](list)
    of_services = defaultdict[str, list[float]](list)
    on_since: dict[str, float] = {}
    for step in steps:
        if step.started_at is None or step.done_at is None:
            continue
        if isinstance(step.action, PowerOn):
            on_since[step.action.node] = step.done_at
        if not step.is_timed:
            continue
        took = max(step.done_at - step.started_at, 0.0)
        match step.action:
            case Move(kind=kind):
                seconds[kind].append(took)
                if step.service is not None:
                    of_services[step.service].append(took)
            case PowerOn(kind=kind) | PowerOff(kind=kind):
                seconds[kind].append(took)
    return Experience(
        move_seconds=fmean(seconds["move"]) if seconds["move"] else None,
        move_seconds_of={name: fmean(each) for name, each in of_services.items()},
        boot_seconds=fmean(seconds["power-on"] or [power_seconds]),
        shutdown_seconds=fmean(seconds["power-off"] or [power_seconds]),
        on_since=on_since,
    )

"""Which finished containers nobody needs; pure."""

from collections.abc import Container, Iterable
from datetime import datetime

from collector.act.drivers.engine.containers import DockerContainer
from collector.act.orchestrator_state import CompletedActions, has_opted_out
from collector.act.records import CARRIED_OUT, Step
from collector.decide.policies.actions import Relocation

_ENDLESS = ("always", "unless-stopped")
"""Restart policies of containers that run all the time: one that does not was stopped, and did not finish."""


def stopped_by_us(completed: CompletedActions, started: Iterable[Step]) -> frozenset[str]:
    """Return the containers that wait to be started again, or of an action that may still take effect."""
    uncertain = {
        step.action.task
        for step in started
        if isinstance(step.action, Relocation) and step.state not in CARRIED_OUT
    }
    return frozenset(uncertain | completed.waiting.keys() | completed.stopped.keys())


def is_needless(
    container: DockerContainer, ended_before: float, *, ours: Container[str], opt_in: bool
) -> bool:
    """Whether a container finished by itself before this time, and may be removed."""
    policy = (container.host_config.get("RestartPolicy") or {}).get("Name")
    if (
        container.state.status != "exited"
        or policy in _ENDLESS
        or container.is_swarm_task
        or container.id in ours
        or has_opted_out(container.labels, opt_in=opt_in)
    ):
        return False
    try:
        ended_at = datetime.fromisoformat(container.state.finished_at).timestamp()
    except (ValueError, OverflowError):
        return False
    # Engines write the year 1 if they do not know.
    return 0 < ended_at < ended_before

"""The input of the guards."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from collector.act.records import IN_MOTION, Pause, Step
from collector.act.verdicts.learning import SpentAnswers
from collector.common.orchestrator import OrchestratorState, ServiceView
from collector.config import ControlConfig
from collector.config.schedule import Schedule
from collector.decide.policies.actions import SizeBounds
from collector.snapshot.tables import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardContext:
    """The input of the guards."""

    now: float
    settings: ControlConfig
    schedule: Schedule
    snapshot: Snapshot
    view: OrchestratorState
    pause: Pause | None = None
    """The current pause."""
    holder: str | None = None
    """The collector that holds the lease; None if this one does."""
    taken_over_at: float | None = None
    """When this collector took over the lease from another; None if it never did."""
    trouble: str | None = None
    """Why the orchestrator does not answer; None if it does."""
    driver_back_at: float | None = None
    """When the orchestrator answered again after an outage; None if there was none."""
    has_queue: bool = False
    """Whether the orchestrator restarts stopped containers, so that they wait in its own queue."""
    earlier: Sequence[Step] = ()
    """Recently started steps of other decisions."""
    own: Sequence[Step] = ()
    """Started steps of the same decision."""
    planned: Sequence[Step] = ()
    """Steps of the same decision that have not started."""
    spent: SpentAnswers = field(default_factory=SpentAnswers)
    """Answers to open alerts that were of no use, or may still be."""
    bounds: Mapping[str, SizeBounds] = field(default_factory=dict)
    """Bounds of the size of services, by the orchestrator's names."""

    @property
    def started(self) -> list[Step]:
        return [*self.earlier, *self.own]

    @property
    def in_motion(self) -> list[Step]:
        return [step for step in self.started if step.state in IN_MOTION]

    def service(self, step: Step) -> ServiceView | None:
        """Return the orchestrator's view of the service of a step.

        Agents may use another name for the service, so it is found by the container if possible.
        """
        container, node = getattr(step.action, "task", None), getattr(step.action, "node", None)
        service = next(
            (
                each.service
                for each in self.view.tasks
                if each.container == container and node in {None, each.node}
            ),
            step.service,
        )
        return self.view.service(service)


Refusal = str | None
Guard = Callable[[Step, GuardContext], Refusal]

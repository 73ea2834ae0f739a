"""The state of an orchestrator: drivers read it, the control loop and the live tables use it as it is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from wire.resources import Quantities

_UNSET = Quantities()


class Mode(StrEnum):
    """How an orchestrator runs a service."""

    REPLICATED = "replicated"
    GLOBAL = "global"
    """One task on every node."""
    STANDALONE = "standalone"
    """A single container that no orchestrator manages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """The orchestrator's state of a node."""

    name: str
    on: bool = True
    """Whether it has power: the control loop switches nodes."""
    ready: bool = True
    accepts: bool = True
    """Whether it accepts containers: it is neither drained nor paused."""
    labels: Mapping[str, str] = field(default_factory=dict)
    is_manager: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskView:
    """The orchestrator's state of a task or pod; one for each container of a pod."""

    id: str = ""
    """The id of the task or pod; empty without an orchestrator."""
    service: str
    container: str = ""
    """The runtime's id, as agents report it; empty while it has none."""
    node: str = ""
    """Empty while it waits for a node."""
    state: str = ""
    """The orchestrator's name of its state, such as `running`."""
    reserve: Quantities | None = None
    """Its own reservation; None if it is that of its service."""
    slot: str | None = None
    """Its place among the tasks of the service, which its replacement takes; None if it has none."""
    created_at: float | None = None
    """When the orchestrator created it, as Unix time; None if unknown."""
    running_since: float | None = None
    """When it started to run, as Unix time; None if it does not run, or the time is unknown."""
    stopped_on: str | None = None
    """The node on which it was stopped to make room for others; None if it was not stopped."""

    @property
    def is_running(self) -> bool:
        return self.state == "running"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceView:
    """The orchestrator's state of a service."""

    name: str
    mode: Mode = Mode.REPLICATED
    replicas: int = 1
    reserve: Quantities = _UNSET
    """Reservation of each task."""
    limit: Quantities = _UNSET
    constraints: tuple[str, ...] = ()
    """The user's constraints, in the orchestrator's syntax."""
    spread: bool = False
    """Whether at most one of its tasks may run on a node."""
    image: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    namespace: str = ""
    """Its namespace in Kubernetes; empty elsewhere."""
    stays: str | None = None
    """Why it must not move (global, pinned, local data, one replica without the label); None if it may."""
    uncut: str | None = None
    """Why a cut of a container frees nothing that the orchestrator counts; None if it is worth it."""
    stops_to_move: bool = False
    """Whether a move stops a task before its replacement runs."""
    stops_to_resize: bool = False
    """Whether a change of its limits stops a task before its replacement runs."""
    stopped_replicas: int = 0
    """How many replicas it had before brownout stopped it; 0 if it is not stopped."""
    is_updating: bool = False
    """Whether the orchestrator still replaces or starts tasks of an earlier change."""

    def reserved_by(self, task: TaskView) -> Quantities:
        """Return the reservation of a task: its own, or that of its service, or else its limit."""
        if task.reserve is not None:
            return task.reserve
        pairs = zip(self.reserve.values, self.limit.values, strict=True)
        cpu, memory, disk, network = (limit if reserve is None else reserve for reserve, limit in pairs)
        return Quantities(cpu, None if memory is None else int(memory), disk, network)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestratorState:
    """The state of an orchestrator at one time."""

    nodes: tuple[NodeView, ...] = ()
    services: tuple[ServiceView, ...] = ()
    tasks: tuple[TaskView, ...] = ()
    """Tasks with a container."""
    pending: tuple[TaskView, ...] = ()
    """Tasks that should run, and have no container yet."""

    def node(self, name: str) -> NodeView | None:
        return next((each for each in self.nodes if each.name == name), None)

    def service(self, name: str | None) -> ServiceView | None:
        return next((each for each in self.services if each.name == name), None)

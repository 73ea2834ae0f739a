"""The interface of a driver."""

from collections.abc import Collection, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from collector.policies.actions import Action
from wire.resources import Quantities

_UNSET = Quantities()


class DriverError(Exception):
    """The orchestrator does not answer, or refuses an action."""


class Mode(StrEnum):
    """How an orchestrator runs a service."""

    REPLICATED = "replicated"
    GLOBAL = "global"
    """One task on every node."""
    STANDALONE = "standalone"
    """A single container that no orchestrator manages."""


MAX_STOP_SECONDS = 600.0
"""Upper bound of the stop timeout of a container, because no decision is made while it stops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """The orchestrator's state of a node."""

    name: str
    ready: bool = True
    accepts: bool = True
    """Whether it accepts containers: it is neither drained nor paused."""
    labels: Mapping[str, str] = field(default_factory=dict)
    is_manager: bool = False


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
    image: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    namespace: str = ""
    """Its namespace in Kubernetes; empty elsewhere."""
    stays: str | None = None
    """Why it must not move (global, pinned, local data, one replica without the label); None if it may."""
    stops_to_move: bool = False
    """Whether a move stops a task before its replacement runs."""
    stops_to_resize: bool = False
    """Whether a change of its limits stops a task before its replacement runs."""
    stopped_replicas: int = 0
    """How many replicas it had before brownout stopped it; 0 if it is not stopped."""
    is_updating: bool = False
    """Whether the orchestrator still replaces or starts tasks of an earlier change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskView:
    """The orchestrator's state of a container of a service."""

    container: str
    """The runtime's id, as agents report it."""
    service: str
    node: str
    state: str
    """The orchestrator's name of its state, such as `running`."""
    reserve: Quantities | None = None
    """Its own reservation; None if it is that of its service."""
    task: str = ""
    """The id of the task or pod, as in `PendingView` before it starts; empty without an orchestrator."""
    slot: str | None = None
    """Its place among the instances of the service, which its replacement takes; None if it has none."""
    created_at: float | None = None
    """When the orchestrator created it, as Unix time; None if unknown."""
    running_since: float | None = None
    """When it started to run, as Unix time; None if it does not run, or the time is unknown."""

    @property
    def is_running(self) -> bool:
        return self.state == "running"


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingView:
    """A task that the orchestrator wants to run, and that has no container yet."""

    id: str
    """The id of the task or pod."""
    service: str
    slot: str | None = None
    """As in `TaskView`."""
    since: float | None = None
    """When it was created, as Unix time; None if unknown."""
    node: str | None = None
    """The node that it was assigned to; None while it waits for one."""
    requested: Quantities = _UNSET
    """Its reservation, or else its limit."""
    constraints: tuple[str, ...] = ()
    """As in `ServiceView`."""
    spread: bool = False
    """Whether at most one instance of its service may run on a node."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of its service."""
    stopped_on: str | None = None
    """The node on which it was stopped to make room for others; None if it was not stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestratorState:
    """The state of an orchestrator at one time."""

    nodes: tuple[NodeView, ...] = ()
    services: tuple[ServiceView, ...] = ()
    tasks: tuple[TaskView, ...] = ()
    pending: tuple[PendingView, ...] = ()

    def node(self, name: str) -> NodeView | None:
        """Return the node of a name; None if there is none."""
        return next((each for each in self.nodes if each.name == name), None)

    def service(self, name: str | None) -> ServiceView | None:
        """Return the service of a name; None if there is none."""
        return next((each for each in self.services if each.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionResult:
    """The result of an action."""

    what: str
    """A sentence about the result."""
    before: bytes = b""
    """The data that `undo` needs, as JSON; empty if there is nothing to undo."""
    containers: tuple[str, ...] = ()
    """The containers that replace the moved one; all containers of a service that was scaled or resized."""
    nothing_to_do: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Temporary settings with which the containers of a new service start on chosen nodes.

    The driver removes them later.
    """

    replicas: int
    """Replicas to create it with; the driver adds the others."""
    constraints: tuple[str, ...]
    """Temporary constraints, in the orchestrator's syntax, in addition to those of the user."""
    labels: Mapping[str, str]
    """Temporary labels of the service."""


class Driver(Protocol):
    """Carries out actions. Every method raises `DriverError` on failure."""

    name: str
    dry: bool
    """Whether it only describes actions and carries out none."""
    has_queue: bool
    """Whether a task that was stopped for others waits in the orchestrator, which lists it as pending."""

    async def view(self) -> OrchestratorState:
        """Return the state of the orchestrator."""

    async def carry_out(self, action: Action) -> ActionResult:
        """Carry out an action, and return when its new containers are healthy.

        If they do not become healthy, undo it and raise `DriverError`.
        """

    async def undo(self, action: Action, done: ActionResult) -> None:
        """Undo an action as far as possible."""

    async def release(self, *, keep_parked: bool = False) -> tuple[str, ...]:
        """Clean up what a killed collector left, continue and end holds, and describe it.

        Unless `keep_parked`, let the orchestrator start the containers that were stopped for others, as soon
        as they fit. Only the collector that holds the lease calls this.
        """

    async def hold_back(self, tasks: Collection[str]) -> tuple[str, ...]:
        """Keep pending tasks from starting by themselves where room is made for others, and describe it."""

    async def hold(self, replicas: Mapping[str, int]) -> Hold:
        """Return how to create a service with this many replicas on each of these nodes."""


Opening = AbstractAsyncContextManager[Driver]

"""What a driver is."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from collector.policies.actions import Action
from wire.resources import Quantities

_NONE_TOLD = Quantities()


class DriverError(Exception):
    """The orchestrator cannot be asked, or refuses; the message says why, for a person."""


class Mode(StrEnum):
    """How an orchestrator keeps a service."""

    REPLICATED = "replicated"
    GLOBAL = "global"
    """One task on every node: there is nowhere to move it."""
    ALONE = "alone"
    """A container that no orchestrator keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """A node as its orchestrator sees it."""

    name: str
    ready: bool = True
    accepts: bool = True
    """Neither drained nor paused."""
    labels: Mapping[str, str] = field(default_factory=dict)
    is_manager: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceView:
    """A service as its orchestrator sees it."""

    name: str
    mode: Mode = Mode.REPLICATED
    replicas: int = 1
    reserve: Quantities = _NONE_TOLD
    """Promised to each task."""
    limit: Quantities = _NONE_TOLD
    constraints: tuple[str, ...] = ()
    """The user's own, as the orchestrator writes them."""
    image: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    stays: str | None = None
    """Why it may not be moved (global, pinned, a volume, one replica without leave); None if it may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskView:
    """One container of a service, as its orchestrator sees it."""

    container: str
    """The runtime's id, which the agents know too."""
    service: str
    node: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestratorState:
    """All that an orchestrator knows, at one moment."""

    nodes: tuple[NodeView, ...] = ()
    services: tuple[ServiceView, ...] = ()
    tasks: tuple[TaskView, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionResult:
    """An action that was carried out."""

    what: str
    """For a person: what was asked of the orchestrator."""
    before: bytes = b""
    """All that `undo` needs, as JSON: it must outlive the collector. Empty where nothing is to be undone."""
    containers: tuple[str, ...] = ()
    """The containers that run in place of the one that was moved."""
    nothing_to_do: bool = False


class Driver(Protocol):
    """Carries out what was decided. Every method raises `DriverError` when it cannot."""

    name: str
    dry: bool
    """Whether it only pretends: then nothing at all is asked of anybody."""

    async def view(self) -> OrchestratorState:
        """What the orchestrator knows now."""

    async def carry_out(self, action: Action) -> ActionResult:
        """Do it, and return when the orchestrator says that it is done: what runs anew is healthy.

        What did not become healthy is put back as it was before `DriverError` is raised.
        """

    async def undo(self, action: Action, done: ActionResult) -> None:
        """Put back what was before an action, as far as that can be."""

    async def release(self) -> tuple[str, ...]:
        """Take back what a collector left half done that was killed meanwhile; says what that was.

        To be called by the one collector that may act, and again while anything is left.
        """


Opening = AbstractAsyncContextManager[Driver]

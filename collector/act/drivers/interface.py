"""The interface of a driver, and waiting for the effect of an action: orchestrators have no events for it."""

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

from collector.common.orchestrator import OrchestratorState
from collector.common.text import counted
from collector.decide.policies.actions import (
    Action,
    Cut,
    Kill,
    Move,
    PowerOff,
    PowerOn,
    Relocation,
    Resize,
    Scale,
    Start,
    describe,
    short_id,
)

_POLL_SECONDS = 0.25
Result = TypeVar("Result")


class DriverError(Exception):
    """The orchestrator does not answer, or refuses an action."""


class RefusedError(DriverError):
    """The orchestrator refused a request."""

    def __init__(self, status: int | None, message: str) -> None:
        super().__init__(message)
        self.status = status


class HalfDoneError(DriverError):
    """An action failed, and could not be undone: a part of it is in effect."""


MAX_STOP_SECONDS = 600.0
"""Upper bound of the stop timeout of a container, because no decision is made while it stops."""


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

    @classmethod
    def gone(cls, container: str, node: str) -> "ActionResult":
        """Return the result of an action on a container that has left its node."""
        return cls(what=f"{short_id(container)} no longer runs on {node}", nothing_to_do=True)


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
    """Carries out actions. Every method raises `DriverError` on failure.

    The default methods are those of an orchestrator in which nothing is parked, held or started.
    """

    name: str
    dry: bool
    """Whether it only describes actions and carries out none."""
    has_queue: bool
    """Whether a task that was stopped for others waits in the orchestrator, which lists it as pending."""

    async def view(self) -> OrchestratorState:
        """Return the state of the orchestrator."""

    async def prepare(self, action: Action) -> bytes:  # noqa: ARG002 - for others
        """Return what `recover` needs, and the orchestrator will not know once the action has begun.

        It changes nothing. The result is recorded before the action begins.
        """
        return b""

    async def carry_out(self, action: Action) -> ActionResult:
        """Carry out an action, and return when its new containers are healthy.

        If they do not become healthy, undo it and raise `DriverError`, or `HalfDoneError` if that fails.
        """

    async def undo(self, action: Action, done: ActionResult) -> None:
        """Undo an action as far as possible. An undo that was interrupted is repeated."""

    async def recover(self, action: Action, noted: bytes) -> ActionResult | None:  # noqa: ARG002 - for others
        """Complete an action that was interrupted at any point, or undo what it began.

        Return its result if it is complete, None if it is not done and nothing of it is left. How far it got
        is what the orchestrator shows; `noted` is what `prepare` returned. Raise `DriverError` while neither
        is possible.
        """
        raise DriverError(f"the driver {self.name} does not know how far it got: {describe(action)}")

    async def release(self, *, keep_parked: bool = False) -> tuple[str, ...]:  # noqa: ARG002 - for others
        """Clean up what a killed collector left, continue and end holds, and describe it.

        Unless `keep_parked`, let the orchestrator start the containers that were stopped for others, as soon
        as they fit. Only the collector that holds the lease calls this.
        """
        return ()

    async def hold_back(self, tasks: Collection[str]) -> tuple[str, ...]:  # noqa: ARG002 - for others
        """Keep pending tasks from starting by themselves where room is made for others, and describe it."""
        return ()

    async def hold(self, replicas: Mapping[str, int]) -> Hold:
        """Return how to create a service with this many replicas on each of these nodes."""
        count = counted(sum(replicas.values()), "replica")
        raise DriverError(f"{count} not deployed: the driver {self.name} starts no services on chosen nodes")


class OrchestratorDriver(Driver):
    """A driver with one method for each kind of action. A kind that it cannot carry out is refused."""

    dry = False

    async def carry_out(self, action: Action) -> ActionResult:
        match action:
            case Move(target=target) | Kill(target=str(target)):
                # A new container has the limits of its service, so that a move is enough.
                return await self.move(action.task, action.node, target)
            case Kill():
                return await self.stop(action.task, action.node)
            case Start():
                return await self.start(action)
            case Cut():
                return await self.cut(action)
            case PowerOn():
                return await self.switch_on(action.node)
            case PowerOff():
                return await self.switch_off(action.node)
            case Scale():
                return await self.scale(action)
            case Resize():
                return await self.resize(action)

    async def undo(self, action: Action, done: ActionResult) -> None:
        match action:
            case Move() | Kill() | Start():
                await self.take_back(action, done)
            case Cut() if done.before:
                await self.uncut(action, done)
            case PowerOn() if done.before:
                await self.switch_off(action.node)
            case PowerOff() if done.before:
                await self.switch_on(action.node)
            case Scale():
                await self.unscale(action)
            case Resize():
                await self.unresize(action, done)

    async def recover(self, action: Action, noted: bytes) -> ActionResult | None:
        match action:
            case Move(target=target) | Kill(target=str(target)):
                return await self.recover_move(action, target, noted)
            case Kill():
                return await self.recover_stop(action, noted)
            case Start():
                return await self.recover_start(action, noted)
            case Cut():
                return await self.recover_cut(action, noted)
            case PowerOn():
                return await self.switch_on(action.node)
            case PowerOff():
                return await self.recover_switch_off(action.node)
            case Scale():
                return await self.recover_scale(action)
            case Resize():
                return await self.recover_resize(action, noted)

    @abstractmethod
    async def recover_move(self, action: Move | Kill, target: str, noted: bytes) -> ActionResult | None:
        """Complete or undo a move, as `recover` does."""

    @abstractmethod
    async def recover_stop(self, action: Kill, noted: bytes) -> ActionResult | None:
        """Complete or undo the stop of a container that is to wait, as `recover` does."""

    @abstractmethod
    async def recover_start(self, action: Start, noted: bytes) -> ActionResult | None:
        """Complete or undo a start, as `recover` does."""

    async def recover_cut(self, action: Cut, noted: bytes) -> ActionResult | None:  # noqa: ARG002 - for others
        """Return the result of a cut, if it was carried out. A driver that cannot cut has not."""
        return None

    async def recover_switch_off(self, node: str) -> ActionResult | None:  # noqa: ARG002 - for others
        """Complete or undo switching off a node, as `recover` does."""
        return None

    async def recover_scale(self, action: Scale) -> ActionResult | None:  # noqa: ARG002 - for others
        """Complete or undo a change of the number of replicas, as `recover` does."""
        return None

    @abstractmethod
    async def recover_resize(self, action: Resize, noted: bytes) -> ActionResult | None:
        """Complete or undo a change of the CPU limit of a service, as `recover` does."""

    @abstractmethod
    async def move(self, container: str, source: str, target: str) -> ActionResult:
        """Move a container; return when its replacement is healthy."""

    @abstractmethod
    async def stop(self, container: str, source: str) -> ActionResult:
        """Stop a container until its turn comes; return when it has stopped."""

    @abstractmethod
    async def start(self, action: Start) -> ActionResult:
        """Start a waiting container; return when it is healthy."""

    @abstractmethod
    async def take_back(self, action: Relocation, done: ActionResult) -> None:
        """Move containers back, start those that were stopped, or stop those that were started."""

    @abstractmethod
    async def resize(self, action: Resize) -> ActionResult:
        """Change the CPU limit of all containers of a service; return when all have it."""

    @abstractmethod
    async def unresize(self, action: Resize, done: ActionResult) -> None:
        """Restore the CPU limit, unless someone changed it since."""

    @abstractmethod
    async def cut(self, action: Cut) -> ActionResult:
        """Limit a running container."""

    async def uncut(self, action: Cut, done: ActionResult) -> None:
        """Restore the limits of a container."""

    async def switch_on(self, node: str) -> ActionResult:
        """Switch a node on."""
        raise DriverError(f"{node} cannot be switched: the driver {self.name} cannot drain hosts")

    async def switch_off(self, node: str) -> ActionResult:
        """Drain a node, and switch it off."""
        raise DriverError(f"{node} cannot be switched: the driver {self.name} cannot drain hosts")

    @abstractmethod
    async def scale(self, action: Scale) -> ActionResult:
        """Give a service this many replicas; return when all run, and no other is left."""

    async def unscale(self, action: Scale) -> None:
        """Restore the number of replicas, unless someone changed it since."""


Opening = AbstractAsyncContextManager[Driver]


class NotYet(Exception):  # noqa: N818 - not an error
    """Why the awaited state is not reached yet."""


async def wait_for(check: Callable[[], Awaitable[Result]], seconds: float) -> Result:
    """Poll until `check` returns a result instead of raising `NotYet`; return it.

    Raise `DriverError` with the last reason when the time is over. Other errors of `check` end the wait.
    """
    why = "no response"
    try:
        async with asyncio.timeout(seconds):
            while True:
                try:
                    return await check()
                except NotYet as reason:
                    why = str(reason)
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        raise DriverError(f"{why}, after {seconds:g} s") from None


async def unless_undone(action: Awaitable[ActionResult]) -> ActionResult | None:
    """Return the result of an action; None if it failed and was undone."""
    try:
        return await action
    except HalfDoneError:
        raise
    except DriverError:
        return None


@asynccontextmanager
async def undone_on_failure(failure: str, undo: Callable[[], Awaitable[object]]) -> AsyncIterator[None]:
    """Undo a change if the block fails, and raise `DriverError` with what failed and why.

    Raise `HalfDoneError` if the undo fails too.
    """
    try:
        yield
    except DriverError as error:
        try:
            await undo()
        except DriverError as worse:
            raise HalfDoneError(f"{failure}: {error}; undo failed: {worse}") from error
        raise DriverError(f"{failure}: {error}") from error

"""The interface of a driver, and waiting for the effect of an action: orchestrators have no events for it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

from collector.common.orchestrator import OrchestratorState
from collector.common.text import counted
from collector.decide.policies.actions import Action, short_id

_POLL_SECONDS = 0.25
Result = TypeVar("Result")


class DriverError(Exception):
    """The orchestrator does not answer, or refuses an action."""


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

    async def carry_out(self, action: Action) -> ActionResult:
        """Carry out an action, and return when its new containers are healthy.

        If they do not become healthy, undo it and raise `DriverError`.
        """

    async def undo(self, action: Action, done: ActionResult) -> None:
        """Undo an action as far as possible."""

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


@asynccontextmanager
async def undone_on_failure(failure: str, undo: Callable[[], Awaitable[object]]) -> AsyncIterator[None]:
    """Undo a change if the block fails, and raise `DriverError` with what failed and why."""
    try:
        yield
    except DriverError as error:
        await undo()
        raise DriverError(f"{failure}: {error}") from error

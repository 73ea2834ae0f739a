"""Switching nodes: drain and empty before off; wait until ready before they accept containers again."""

import asyncio
import os
import shlex
import signal
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from collector.act.drivers.interface import (
    ActionResult,
    DriverError,
    NotYet,
    OrchestratorDriver,
    undone_on_failure,
    wait_for,
)
from collector.common.labels import DRAINED_LABEL, OFF_LABEL
from collector.common.orchestrator import NodeView
from collector.config import DriverConfig
from wire.text import printable

_MAX_OUTPUT_BYTES = 300
_CHUNK_BYTES = 4096
_OUTPUT_SECONDS = 1.0
_SWITCHED = b'{"switched":true}'
"""Undo data of an action that did switch a node; a node that was already in that state has none."""


class SwitchingDriver(OrchestratorDriver):
    """A driver that switches nodes with the operator's commands. Methods raise `DriverError`."""

    _settings: DriverConfig

    @abstractmethod
    async def node(self, name: str) -> NodeView:
        """Return the state of a node. It is off if it is down, or its label says that it was switched off."""

    @abstractmethod
    async def drain(self, name: str) -> Callable[[], Awaitable[None]]:
        """Drain a node that may be switched off, and return a check that raises `NotYet` until it is empty.

        Label the node, so that any collector can activate it.
        """

    @abstractmethod
    async def label_off(self, name: str) -> None:
        """Label a node as switched off."""

    @abstractmethod
    async def activate(self, name: str) -> None:
        """Remove the labels; let the node accept containers again, unless someone else drained it."""

    async def switch_off(self, node: str) -> ActionResult:
        """Drain a node, wait until its containers run elsewhere, and switch it off."""
        settings = self._settings
        if not settings.power_off_command:
            raise DriverError(f"{node} stays on: power_off_command in [driver] is not set")
        if not (await self.node(node)).on:
            return ActionResult(what=f"{node} is already off", nothing_to_do=True)
        is_empty = await self.drain(node)
        async with undone_on_failure(f"{node} stays on", lambda: self.activate(node)):
            await wait_for(is_empty, settings.power_seconds)
            await asyncio.sleep(settings.stable_seconds)
            await self.label_off(node)
            await run_hook(settings.power_off_command, node, settings.power_seconds)
        return ActionResult(what=f"drained {node} and switched it off", before=_SWITCHED)

    async def recover_switch_off(self, node: str) -> ActionResult | None:
        """Undo it if only the drain was begun; repeat the command if it may have run."""
        now = await self.node(node)
        if OFF_LABEL not in now.labels:
            await self.activate(node)
            return None
        if now.ready:
            try:
                await self._repeat_off(node)
            except DriverError:
                await self.activate(node)
                return None
        return ActionResult(what=f"drained {node} and switched it off", before=_SWITCHED)

    async def _repeat_off(self, node: str) -> None:
        """Run the command again. It may fail because the node goes down by the first one."""

        async def is_down() -> None:
            if (await self.node(node)).ready:
                raise NotYet(f"{node} stays on")

        try:
            await run_hook(self._settings.power_off_command, node, self._settings.power_seconds)
        except DriverError:
            await wait_for(is_down, self._settings.power_seconds)

    async def switch_on(self, node: str) -> ActionResult:
        """Switch a node on, and activate it unless someone else drained it."""
        settings, view = self._settings, await self.node(node)
        if view.accepts and view.on:
            return ActionResult(what=f"{node} is already on", nothing_to_do=True)

        async def is_ready() -> None:
            if not (await self.node(node)).ready:
                raise NotYet(f"{node} was switched on, but is not ready")

        if not view.on:
            if not settings.power_on_command:
                raise DriverError(f"{node} stays off: power_on_command in [driver] is not set")
            await run_hook(settings.power_on_command, node, settings.power_seconds)
            await wait_for(is_ready, settings.power_seconds)
        await self.activate(node)
        accepts = (await self.node(node)).accepts
        what = f"switched {node} on" + ("" if accepts else "; someone else has drained it")
        return ActionResult(what=what, before=_SWITCHED)

    async def activate_drained(self, labels: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
        """Activate nodes that were drained but not switched off, by the labels of all nodes."""
        drained = [name for name, each in labels.items() if DRAINED_LABEL in each and OFF_LABEL not in each]
        for name in drained:
            await self.activate(name)
        return tuple(f"activated {name}, which was drained but not switched off" for name in drained)


async def run_hook(command: str, node: str, timeout_seconds: float) -> None:
    """Run a command with `--` and a node's name as its last arguments. Raise `DriverError` if it fails.

    After `--`, a name with a leading dash is not an option. All processes that the command started end
    with it.
    """
    arguments = [*shlex.split(command), "--", node]
    command_line = printable(shlex.join(arguments))
    # A pipe of our own: asyncio's would make `wait` wait for all processes that have it open.
    output, theirs = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=theirs,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        os.close(output)
        raise DriverError(f"cannot run {command_line} ({(error.strerror or str(error)).lower()})") from error
    finally:
        os.close(theirs)
    reading = asyncio.create_task(_read_end(output))
    try:
        async with asyncio.timeout(timeout_seconds):
            await process.wait()
    except TimeoutError:
        raise DriverError(f"{command_line} did not end within {timeout_seconds:g} s and was killed") from None
    finally:
        # Its background processes would keep running, and keep the output open.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        # A process that left the group may keep the output open.
        done, _ = await asyncio.wait([reading], timeout=_OUTPUT_SECONDS)
        end = reading.result() if done else b""
        reading.cancel()
    if process.returncode:
        text = printable(end.decode(errors="replace").strip())
        raise DriverError(f"{command_line} failed with exit code {process.returncode}: {text or 'no output'}")


async def _read_end(descriptor: int) -> bytes:
    """Return the last bytes of an output, which may be long."""
    stream = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    with open(descriptor, "rb", buffering=0) as file:  # noqa: ASYNC230 - no file, but a pipe
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stream), file)
        end = b""
        try:
            while chunk := await stream.read(_CHUNK_BYTES):
                end = (end + chunk)[-_MAX_OUTPUT_BYTES:]
        finally:
            transport.close()
    return end

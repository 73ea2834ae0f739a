"""The operator's commands that switch nodes off and on."""

import asyncio
import os
import shlex
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress

from collector.config import DriverConfig
from collector.drivers.interface import DriverError
from collector.drivers.polling import poll_until
from wire.text import printable

_MAX_OUTPUT_BYTES = 300
_CHUNK_BYTES = 4096
_OUTPUT_SECONDS = 1.0

SWITCHED = b'{"switched":true}'
"""Undo data of an action that did switch a node; a node that was already in that state has none."""


def power_off_command(settings: DriverConfig, node: str) -> str:
    """Return the command that switches a node off. Raise `DriverError` if it is not set."""
    if not settings.power_off_command:
        raise DriverError(f"{node} stays on: power_off_command in [driver] is not set")
    return settings.power_off_command


async def boot(settings: DriverConfig, node: str, is_ready: Callable[[], Awaitable[bool]]) -> None:
    """Switch a node on, and wait until it is ready. Raise `DriverError` if it is not in time."""
    if not settings.power_on_command:
        raise DriverError(f"{node} stays off: power_on_command in [driver] is not set")
    seconds = settings.power_seconds
    await run_hook(settings.power_on_command, node, seconds)
    try:
        await poll_until(is_ready, seconds)
    except TimeoutError:
        raise DriverError(f"{node} was switched on, but was not ready within {seconds:g} s") from None


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

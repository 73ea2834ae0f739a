"""The operator's commands that switch nodes off and on."""

import asyncio
import os
import shlex
import signal
from contextlib import suppress

from collector.drivers.interface import DriverError
from wire.text import printable

_MAX_OUTPUT_BYTES = 300
_CHUNK_BYTES = 4096
_OUTPUT_SECONDS = 1.0


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

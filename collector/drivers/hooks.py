"""Commands of the operator that switch nodes off and on."""

import asyncio
import shlex

from collector.drivers.interface import DriverError

_LONGEST_TEXT = 300

SWITCHED = b'{"switched":true}'
"""Recorded if a node was switched, and not in that state already."""


async def run_hook(command: str, node: str, timeout_seconds: float) -> None:
    """Run a command with a node's name as its last argument. Raise `DriverError` if it fails."""
    arguments = [*shlex.split(command), node]
    command_line = shlex.join(arguments)
    try:
        process = await asyncio.create_subprocess_exec(
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
    except OSError as error:
        raise DriverError(
            f"cannot run {command_line!r} ({(error.strerror or str(error)).lower()})"
        ) from error
    try:
        async with asyncio.timeout(timeout_seconds):
            output, _ = await process.communicate()
    except TimeoutError:
        raise DriverError(
            f"{command_line!r} did not end within {timeout_seconds:g} s and was killed"
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        text = output[-_LONGEST_TEXT:].decode(errors="replace").strip()
        raise DriverError(
            f"{command_line!r} failed with exit code {process.returncode}: {text or 'no output'}"
        )

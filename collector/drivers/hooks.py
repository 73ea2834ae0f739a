"""The operator's own commands that switch nodes off and on."""

import asyncio
import shlex

from collector.drivers.interface import DriverError

_LONGEST_TEXT = 300

SWITCHED = b'{"switched":true}'
"""Kept of a node that was really switched, not found so."""


async def run_hook(command: str, node: str, timeout_seconds: float) -> None:
    """Run a command with a node's name as its last argument; raises `DriverError` unless it ends well."""
    words = [*shlex.split(command), node]
    shown = shlex.join(words)
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
    except OSError as error:
        raise DriverError(f"cannot run {shown!r} ({(error.strerror or str(error)).lower()})") from error
    try:
        async with asyncio.timeout(timeout_seconds):
            said, _ = await process.communicate()
    except TimeoutError:
        raise DriverError(f"{shown!r} took longer than {timeout_seconds:g} s and was ended") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        told = said[-_LONGEST_TEXT:].decode(errors="replace").strip()
        raise DriverError(f"{shown!r} ended with {process.returncode}: {told or 'it said nothing'}")

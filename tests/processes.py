"""The real command as a process, for tests from the outside."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def free_port() -> Iterator[tuple[int, socket.socket]]:
    """Occupy a loopback port while the block runs."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        yield holder.getsockname()[1], holder


class Command:
    """`wattpack ...`, run to its end or while a block runs."""

    def __init__(self, *arguments: str) -> None:
        self._arguments = [sys.executable, "-m", "wattpack", *arguments]

    def run(self, timeout_seconds: float = 60) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._arguments,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_seconds,
            env=_environment(),
        )

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[str]]:
        """Run the process while the block runs; it is terminated, and killed only if it does not stop."""
        process = subprocess.Popen(
            self._arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=_environment()
        )
        with process:
            try:
                yield process
            finally:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("WATTPACK_")}


def wattpack(*arguments: str) -> Command:
    return Command(*arguments)

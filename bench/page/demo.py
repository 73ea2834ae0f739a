"""Processes that serve the page: the demo, or a collector with a simulated cluster."""

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from wire.errors import UserError


@dataclass(frozen=True, slots=True)
class CollectorProcess:
    """A running collector."""

    url: str
    pid: int

    def cpu_seconds(self) -> float:
        """CPU time of its threads, from schedstat: many requests take less than a clock tick."""
        files = Path(f"/proc/{self.pid}/task").glob("*/schedstat")
        return sum(int(file.read_text(encoding="ascii").split()[0]) for file in files) / 1e9


@contextmanager
def running_demo(nodes: int, containers: int, *options: str) -> Iterator[str]:
    """Run a demo of this size while the block runs; yields the address of its page."""
    size = ["--nodes", str(nodes), "--containers", str(containers)]
    with _running(["wattpack", "demo", "--port", "0", *size, *options], r"page +(http://\S+)") as found:
        yield found[1]


@contextmanager
def running_cluster(nodes: int, containers: int) -> Iterator[CollectorProcess]:
    """Run a collector and a simulated cluster of this size, each in its own process."""
    command = ["bench.page.cluster", str(nodes), str(containers)]
    with _running(command, r"page (http://\S+) process (\d+)") as found:
        yield CollectorProcess(found[1], int(found[2]))


@contextmanager
def _running(command: Sequence[str], ready: str) -> Iterator[re.Match[str]]:
    """Run a module until the block ends; raises `UserError` if it does not print that it is ready."""
    with subprocess.Popen([sys.executable, "-m", *command], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            output = ""
            while (found := re.search(ready, output)) is None:
                line = process.stdout.readline()
                if not line:
                    raise UserError(f"{command[0]} did not start: {output or 'see above'}")
                output += line
            yield found
        finally:
            process.terminate()

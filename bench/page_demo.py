"""`wattpack demo` as a process of its own, for what looks at its page."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

from wire.errors import UserError


@dataclass(frozen=True, slots=True)
class Demo:
    """A running demo."""

    url: str
    pid: int

    def cpu_seconds(self) -> float:
        """CPU time that it has used, with its simulated agents."""
        used = psutil.Process(self.pid).cpu_times()
        return float(used.user + used.system)


@contextmanager
def running_demo(nodes: int, containers: int, *options: str) -> Iterator[Demo]:
    """Run a demo of this size while the block runs; raises `UserError` if it does not start."""
    command = [sys.executable, "-m", "wattpack", "demo", "--port", "0"]
    command += ["--nodes", str(nodes), "--containers", str(containers), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            output = ""
            while (found := re.search(r"page +(http://\S+)", output)) is None:
                line = process.stdout.readline()
                if not line:
                    raise UserError(f"the demo did not start: {output or 'see above'}")
                output += line
            yield Demo(found[1], process.pid)
        finally:
            process.terminate()

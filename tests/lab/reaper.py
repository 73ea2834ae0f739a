"""Reliable teardown: everything that the lab creates is removed, even if the test run is killed.

Every undo step is sent to a guardian process (`tests.lab.guardian`) before the thing that it undoes is
created. The guardian acts when its pipe closes, which the kernel does for a finished, a crashed and a
SIGKILLed test run alike.

    with Reaper() as reaper:
        root = reaper.make_directory()
        server = reaper.start(["prometheus", f"--storage.tsdb.path={root}"], log=root / "log")
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.lab import guardian


class LeftBehindError(Exception):
    """Something that the lab created could not be removed."""


class Reaper:
    """Records undo steps outside this process; leaving the block executes them."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        # Isolated and without site, so that it starts quickly with only the standard library.
        self._guardian = subprocess.Popen(
            [sys.executable, "-I", "-S", guardian.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            cwd="/",
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._guardian:
            output, _ = self._guardian.communicate()
        for process in self._started:
            with process:  # closes its pipes, and waits
                pass
        left = [json.loads(line) for line in output.splitlines()]
        if self._guardian.returncode != 0:
            left.append(f"anything: the guardian ended with status {self._guardian.returncode}")
        if not left:
            return
        report = "the lab could not undo:\n" + "\n".join(left)
        if error is None:
            raise LeftBehindError(report)
        error.add_note(report)

    def will_kill(self, pid: int, grace_seconds: float = 15.0) -> None:
        """Terminate a process, or its group if it leads one, and kill it after the grace period."""
        ticks = guardian.start_ticks(pid)
        if ticks is not None:
            group = os.getpgid(pid) == pid
            self._will("kill", pid=pid, ticks=ticks, group=group, grace_seconds=grace_seconds)

    def will_remove(self, path: Path | str) -> None:
        """Unmount everything at and below a path, then delete it."""
        absolute = os.path.realpath(path)
        if len(Path(absolute).parts) <= len(("/", "tmp")):
            raise ValueError(f"{absolute} is too close to the root: a test may not delete it")
        self._will("remove", path=absolute)

    def will_rmdir_cgroup(self, name: str) -> None:
        """Kill the processes of a control group and remove it, in every hierarchy."""
        relative = name.strip("/")
        if not relative or ".." in Path(relative).parts:
            raise ValueError(f"{name!r} does not name a control group of our own")
        self._will("rmdir_cgroup", name=relative)

    def will_run(self, command: Sequence[str], *, only_if_exists: Path | str | None = None) -> None:
        """Run a command that must succeed; with a path, only if that exists at that time."""
        self._will(
            "run",
            command=list(command),
            only_if_exists=None if only_if_exists is None else os.fspath(only_if_exists),
        )

    def make_directory(self, purpose: str = "lab") -> Path:
        """Make a directory for scratch files; its path is short, because it holds sockets."""
        parent = Path(tempfile.gettempdir()).resolve()
        path = parent / f"wattpack-{purpose}-{os.urandom(4).hex()}"
        self.will_remove(path)
        path.mkdir(mode=0o700)
        return path

    def start(
        self,
        command: Sequence[str],
        *,
        log: Path | None = None,
        env: Mapping[str, str] | None = None,
        grace_seconds: float = 15.0,
    ) -> subprocess.Popen[bytes]:
        """Start a program as the leader of a new process group; its output is appended to the log."""
        with Path(log or os.devnull).open("ab") as output:
            process = subprocess.Popen(
                # It waits for a line until the guardian has its pid; if we die before, it never starts.
                ["sh", "-c", 'read -r _ && exec "$@" </dev/null', "sh", *command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=env,
                start_new_session=True,
            )
        self.adopt(process, grace_seconds)
        assert process.stdin is not None
        with process.stdin as gate:
            gate.write(b"\n")
        return process

    def adopt(self, process: subprocess.Popen[bytes], grace_seconds: float = 15.0) -> None:
        """Terminate a process that was started elsewhere, and that ends by itself if we die earlier."""
        self._started.append(process)
        self.will_kill(process.pid, grace_seconds)

    def _will(self, undo: str, **details: Any) -> None:
        # Once written, the step is in the pipe, and the guardian reads it even if we are gone.
        assert self._guardian.stdin is not None
        self._guardian.stdin.write(json.dumps({"undo": undo, "details": details}).encode() + b"\n")
        self._guardian.stdin.flush()

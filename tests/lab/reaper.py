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
    """Something that the lab made could not be undone."""


class Reaper:
    """Remembers, outside this process, how to undo what is made; leaving the block undoes it."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        # Isolated and without site: only the standard library, ready in a few hundredths of a second.
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
            left.append(f"anything: the guardian itself ended with {self._guardian.returncode}")
        if not left:
            return
        report = "the lab could not undo:\n" + "\n".join(left)
        if error is None:
            raise LeftBehindError(report)
        error.add_note(report)

    def will_kill(self, pid: int, grace_seconds: float = 15.0) -> None:
        """End a process (its group, if it leads one): SIGTERM, SIGKILL after the grace, until it is gone."""
        ticks = guardian.start_ticks(pid)
        if ticks is not None:
            group = os.getpgid(pid) == pid
            self._will("kill", pid=pid, ticks=ticks, group=group, grace_seconds=grace_seconds)

    def will_remove(self, path: Path | str) -> None:
        """Unmount everything at and below a path, then delete it."""
        absolute = os.path.realpath(path)
        if len(Path(absolute).parts) <= len(("/", "tmp")):
            raise ValueError(f"{absolute} is too near the root to be deleted by a test")
        self._will("remove", path=absolute)

    def will_rmdir_cgroup(self, name: str) -> None:
        """Kill what is left in the control group of this name and remove it, in every hierarchy there is."""
        relative = name.strip("/")
        if not relative or ".." in Path(relative).parts:
            raise ValueError(f"{name!r} does not name a control group of our own")
        self._will("rmdir_cgroup", name=relative)

    def will_run(self, command: Sequence[str], *, only_if_exists: Path | str | None = None) -> None:
        """Run a command that must succeed - given a path, only if that exists when the time comes."""
        self._will(
            "run",
            command=list(command),
            only_if_exists=None if only_if_exists is None else os.fspath(only_if_exists),
        )

    def make_directory(self, purpose: str = "lab") -> Path:
        """Make a new directory for scratch files; its path is short, since sockets live in it."""
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
        """Start a program as the leader of a group of its own; what it says goes to the end of the log."""
        with Path(log or os.devnull).open("ab") as output:
            process = subprocess.Popen(
                # Held at a gate until the guardian knows of it; if we die before, the gate closes for good.
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
        """End a process that was started elsewhere, and that ends by itself if we are killed before this."""
        self._started.append(process)
        self.will_kill(process.pid, grace_seconds)

    def _will(self, undo: str, **details: Any) -> None:
        # Once written the step is in the kernel's hands, and the guardian reads it even if we are gone.
        assert self._guardian.stdin is not None
        self._guardian.stdin.write(json.dumps({"undo": undo, "details": details}).encode() + b"\n")
        self._guardian.stdin.flush()

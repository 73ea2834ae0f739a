"""Runs a fit in a child process: started, and polled from time to time, without waiting.

A fit needs numeric libraries of a hundred megabytes, which an agent must not load. So it runs as
`python -m powermodels.fit`, started by this module's own `main`, which first limits the memory, CPU time and
priority of the child. A child that takes too long is killed.
"""

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NoReturn

import msgspec

from powermodels.models.samples import FitRequest
from powermodels.models.stored import Stored, decode
from wire.errors import UserError
from wire.messages import Gap

_MEMORY_BYTES = 1 << 30
"""Limit of address space: libraries map several times the memory that they use."""
_CPU_SECONDS = 60
_TIMEOUT_SECONDS = 120.0
_MAX_ERROR_LENGTH = 300
_WHAT = "power model"

# Isolated: neither the working directory nor the environment affects imports.
COMMAND = (sys.executable, "-I", "-m", "powermodels.learning.refit")


class Refit:
    """At most one fit at a time."""

    def __init__(self, command: tuple[str, ...] = COMMAND) -> None:
        self._command = command
        self._running: _Running | None = None

    @property
    def is_running(self) -> bool:
        return self._running is not None

    def start(self, request: FitRequest, monotonic_seconds: float) -> Stored | Gap | None:
        """Start a fit; returns a result only if it cannot be started."""
        try:
            with ExitStack() as files, _memory_file() as request_file:
                output, errors = (files.enter_context(_memory_file()) for _ in range(2))
                request_file.write(msgspec.json.encode(request))
                request_file.seek(0)
                process = subprocess.Popen(self._command, stdin=request_file, stdout=output, stderr=errors)  # noqa: S603 - ours
                files.pop_all()
        except OSError as error:
            return Gap(_WHAT, f"a fit cannot be started: {error}")
        self._running = _Running(process, output, errors, monotonic_seconds)
        return None

    def poll(self, monotonic_seconds: float) -> Stored | Gap | None:
        """The model, or the reason why there is none; None while it runs, or if there is none."""
        running = self._running
        if running is None:
            return None
        if running.process.poll() is not None:
            self._running = None
            return running.result()
        if monotonic_seconds - running.began_seconds > _TIMEOUT_SECONDS:
            self.close()
            return Gap(_WHAT, f"a fit took more than {_TIMEOUT_SECONDS:.0f} s and was killed")
        return None

    def wait(self) -> None:
        """Wait for the end of a running fit, up to its time limit."""
        if self._running is not None:
            with suppress(subprocess.TimeoutExpired):
                self._running.process.wait(_TIMEOUT_SECONDS)

    def close(self) -> None:
        """Kill a running fit."""
        if self._running is not None:
            self._running.process.kill()
            self._running.process.wait()
            self._running.result()
            self._running = None


def fit_and_wait(request: FitRequest) -> Stored:
    """Run a fit and wait for it; raises `UserError` if there is no model."""
    refit = Refit()
    fitted = refit.start(request, 0.0)
    refit.wait()
    fitted = fitted or refit.poll(2 * _TIMEOUT_SECONDS)
    assert fitted is not None, "a fit that runs so long is killed"
    if isinstance(fitted, Gap):
        raise UserError(f"no model could be fitted: {fitted.why}")
    return fitted


@dataclass(frozen=True, slots=True)
class _Running:
    process: subprocess.Popen[bytes]
    output: BinaryIO
    errors: BinaryIO
    began_seconds: float

    def result(self) -> Stored | Gap:
        model = _read_all(self.output)
        message = _read_all(self.errors).decode(errors="replace").strip()[-_MAX_ERROR_LENGTH:]
        if self.process.returncode != 0:
            return Gap(_WHAT, message or f"a fit ended with status {self.process.returncode}")
        try:
            return decode(model)
        except msgspec.MsgspecError as error:
            return Gap(_WHAT, f"a fit returned no model: {error}")


def _memory_file() -> BinaryIO:
    return os.fdopen(os.memfd_create("fit"), "w+b")


def _read_all(file: BinaryIO) -> bytes:
    with file:
        file.seek(0)
        return file.read()


def main() -> NoReturn:
    """Limit this process, then become the fit."""
    steps: tuple[Callable[[], object], ...] = (
        lambda: resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES)),
        lambda: resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS)),
        lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
        lambda: os.nice(19),
        # If memory runs out, the kernel kills this process first.
        lambda: Path("/proc/self/oom_score_adj").write_text("1000"),
    )
    for step in steps:
        # A sandbox may forbid this; then the sandbox sets the limits.
        with suppress(OSError, ValueError):
            step()
    os.execv(sys.executable, (sys.executable, "-I", "-m", "powermodels.fit"))  # noqa: S606 - ours


if __name__ == "__main__":
    main()

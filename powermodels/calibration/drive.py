"""Runs a plan: creates the load of each phase, and records load and power."""

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from powermodels.calibration.plan import Phase, Plan, busy_cores
from powermodels.common.interface import Load, Meter
from powermodels.models.samples import Sample

_TIMEOUT_SECONDS = 5.0

ReadLoad = Callable[[], tuple[float, Load]]
"""Returns the time, and the load since the last call."""


@dataclass(frozen=True, slots=True)
class LoadLimits:
    """The resources that a calibration may use."""

    cores: int
    memory_bytes: int
    folder: Path
    """Directory for the disk load."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a calibration."""

    phase: Phase
    ratio: float
    watts: float | None


def burners(phase: Phase, limits: LoadLimits) -> Iterator[tuple[str, str]]:
    """The kinds of load of a phase, each with its amount."""
    for _ in range(busy_cores(phase, limits.cores)):
        yield "cpu", str(phase.duty_ratio)
    if phase.memory:
        yield "memory", str(limits.memory_bytes)
    if phase.disk:
        yield "disk", str(limits.folder)


@contextmanager
def burning(loads: Iterator[tuple[str, str]]) -> Iterator[Sequence[subprocess.Popen[bytes]]]:
    """Create these loads while the block runs; none continues after it."""
    with ExitStack() as stack:
        started = []
        for kind, amount in loads:
            command = (sys.executable, "-I", "-m", "powermodels.calibration.burner", kind, amount)
            burner = subprocess.Popen(command, stdin=subprocess.PIPE)  # noqa: S603 - a fixed command
            stack.callback(_end, burner)
            started.append(burner)
        yield started


def _end(burner: subprocess.Popen[bytes]) -> None:
    burner.kill()
    if burner.stdin is not None:
        burner.stdin.close()
    burner.wait(_TIMEOUT_SECONDS)


class Drive:
    """One run of a plan against one meter."""

    def __init__(
        self, meter: Meter, read_load: ReadLoad, limits: LoadLimits, sleep: Callable[[float], None]
    ) -> None:
        self._meter = meter
        self._read_load = read_load
        self._limits = limits
        self._sleep = sleep

    def run(self, plan: Plan, on_progress: Callable[[Progress], None]) -> list[Sample]:
        """Run all phases; returns the samples, in groups named after the phases."""
        samples: list[Sample] = []
        for number, phase in enumerate(plan.phases):
            with burning(burners(phase, self._limits)):
                for elapsed_seconds, watts, sample in self._measure(phase, plan):
                    done_seconds = number * plan.phase_seconds + min(elapsed_seconds, plan.phase_seconds)
                    on_progress(Progress(phase, done_seconds / plan.seconds, watts))
                    if sample is not None:
                        samples.append(sample)
        return samples

    def _measure(self, phase: Phase, plan: Plan) -> Iterator[tuple[float, float | None, Sample | None]]:
        """Yield the time since the start of the phase, watts if known, and a sample if it counts."""
        began_seconds, _ = self._read_load()
        self._meter.watts(began_seconds)
        before_seconds = began_seconds
        while before_seconds - began_seconds < plan.phase_seconds:
            self._sleep(plan.sample_seconds)
            now_seconds, load = self._read_load()
            watts = self._meter.watts(now_seconds)
            settled = before_seconds - began_seconds >= plan.settle_seconds
            sample = None if watts is None or not settled else Sample(now_seconds, watts, load, phase.name)
            yield now_seconds - began_seconds, watts, sample
            before_seconds = now_seconds

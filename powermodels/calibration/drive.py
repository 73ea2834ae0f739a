"""Goes through a plan: makes each phase's load, and writes down load and watts side by side."""

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from powermodels.calibration.plan import Phase, Plan, busy_cores
from powermodels.common.interface import Load, Meter
from powermodels.models.samples import Sample

_PATIENCE_SECONDS = 5.0

Look = Callable[[], tuple[float, Load]]
"""The time, and the load since the last look."""


@dataclass(frozen=True, slots=True)
class Room:
    """What a calibration may use of the host."""

    cores: int
    memory_bytes: int
    folder: Path
    """Where the disk is written to."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a calibration is."""

    phase: Phase
    ratio: float
    watts: float | None


def burners(phase: Phase, room: Room) -> Iterator[tuple[str, str]]:
    """The kinds of load that a phase needs, each with its measure."""
    for _ in range(busy_cores(phase, room.cores)):
        yield "cpu", str(phase.duty_ratio)
    if phase.memory:
        yield "memory", str(room.memory_bytes)
    if phase.disk:
        yield "disk", str(room.folder)


@contextmanager
def burning(loads: Iterator[tuple[str, str]]) -> Iterator[Sequence[subprocess.Popen[bytes]]]:
    """Make these loads while the block runs; none of them outlives it."""
    with ExitStack() as stack:
        started = []
        for kind, measure in loads:
            command = (sys.executable, "-I", "-m", "powermodels.calibration.burner", kind, measure)
            burner = subprocess.Popen(command, stdin=subprocess.PIPE)  # noqa: S603 - ours
            stack.callback(_end, burner)
            started.append(burner)
        yield started


def _end(burner: subprocess.Popen[bytes]) -> None:
    burner.kill()
    if burner.stdin is not None:
        burner.stdin.close()
    burner.wait(_PATIENCE_SECONDS)


class Drive:
    """One run of a plan against one meter."""

    def __init__(self, meter: Meter, look: Look, room: Room, sleep: Callable[[float], None]) -> None:
        self._meter = meter
        self._look = look
        self._room = room
        self._sleep = sleep

    def run(self, plan: Plan, tell: Callable[[Progress], None]) -> list[Sample]:
        """Everything that was measured, in groups named after the phases."""
        samples: list[Sample] = []
        for number, phase in enumerate(plan.phases):
            with burning(burners(phase, self._room)):
                for elapsed_seconds, watts, sample in self._measure(phase, plan):
                    done_seconds = number * plan.phase_seconds + min(elapsed_seconds, plan.phase_seconds)
                    tell(Progress(phase, done_seconds / plan.seconds, watts))
                    if sample is not None:
                        samples.append(sample)
        return samples

    def _measure(self, phase: Phase, plan: Plan) -> Iterator[tuple[float, float | None, Sample | None]]:
        """Time into the phase, watts if there are any, and a sample if it is one to keep."""
        began_seconds, _ = self._look()
        self._meter.watts(began_seconds)
        before_seconds = began_seconds
        while before_seconds - began_seconds < plan.phase_seconds:
            self._sleep(plan.sample_seconds)
            now_seconds, load = self._look()
            watts = self._meter.watts(now_seconds)
            settled = before_seconds - began_seconds >= plan.settle_seconds
            sample = None if watts is None or not settled else Sample(now_seconds, watts, load, phase.name)
            yield now_seconds - began_seconds, watts, sample
            before_seconds = now_seconds

"""Runs a plan: phases of known load, from idle to all loads at once, with load and power recorded."""

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from powermodels.common.interface import Load, Meter
from powermodels.models.samples import Sample

_TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Phase:
    """A period with one load."""

    name: str
    cores_ratio: float = 0.0
    """Share of cores with load; at least one core unless it is 0."""
    duty_ratio: float = 1.0
    """Share of time that each of these cores is busy."""
    memory: bool = False
    disk: bool = False


# Idle comes first and last, since a machine is warmer after load. The same load is created in two ways, on
# all cores partly and on few cores fully: their power differs, and a model needs both.
_PHASES = (
    Phase("idle"),
    Phase("all cores at 10 %", 1.0, 0.10),
    Phase("all cores at 25 %", 1.0, 0.25),
    Phase("all cores at 50 %", 1.0, 0.50),
    Phase("all cores at 75 %", 1.0, 0.75),
    Phase("all cores", 1.0),
    Phase("one core", 1e-9),
    Phase("half of the cores", 0.5),
    Phase("memory", memory=True),
    Phase("disk", disk=True),
    Phase("half of the cores, memory and disk", 0.5, memory=True, disk=True),
    Phase("idle again"),
)
# Share of each phase until fans, frequencies and an averaging meter have settled.
_SETTLE_RATIO = 0.2
_SAMPLE_SECONDS = 1.0
_MIN_SAMPLES = 4


@dataclass(frozen=True, slots=True)
class Plan:
    """All phases, one after the other."""

    phases: tuple[Phase, ...]
    phase_seconds: float
    settle_seconds: float
    """Time at the start of each phase that is not recorded."""
    sample_seconds: float

    @property
    def seconds(self) -> float:
        return len(self.phases) * self.phase_seconds


def ramp(minutes: float, meter_period_seconds: float) -> Plan:
    """A plan of about `minutes`; longer if a slow meter needs it for a few values per phase."""
    phase_seconds = 60 * minutes / len(_PHASES)
    sample_seconds = max(meter_period_seconds, min(_SAMPLE_SECONDS, phase_seconds / (2 * _MIN_SAMPLES)))
    phase_seconds = max(phase_seconds, _MIN_SAMPLES * sample_seconds / (1 - _SETTLE_RATIO))
    return Plan(_PHASES, phase_seconds, _SETTLE_RATIO * phase_seconds, sample_seconds)


def busy_cores(phase: Phase, cores: int) -> int:
    """Number of cores with load in a phase."""
    return max(1, round(phase.cores_ratio * cores)) if phase.cores_ratio > 0 else 0


ReadLoad = Callable[[], tuple[float, Load]]
"""Returns the time, and the load since the last call."""


@dataclass(frozen=True, slots=True)
class LoadLimits:
    """The resources that a calibration may use."""

    cores: int
    memory_bytes: int
    folder: Path
    """Directory for the disk load."""


Show = Callable[[Phase, float, float | None], None]
"""Shows the current phase, the share of the plan that is done, and the watts if they are known."""


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

    def run(self, plan: Plan, show: Show) -> list[Sample]:
        """Run all phases; returns the samples, in groups named after the phases."""
        samples: list[Sample] = []
        for number, phase in enumerate(plan.phases):
            with burning(burners(phase, self._limits)):
                for elapsed_seconds, watts, sample in self._measure(phase, plan):
                    done_seconds = number * plan.phase_seconds + min(elapsed_seconds, plan.phase_seconds)
                    show(phase, done_seconds / plan.seconds, watts)
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

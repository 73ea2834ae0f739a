"""The plan of a calibration: phases of known load, from idle to everything at once. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of time with one load."""

    name: str
    cores_ratio: float = 0.0
    """How many of the cores are at work; at least one, if any."""
    duty_ratio: float = 1.0
    """How much of the time each of them works."""
    memory: bool = False
    disk: bool = False


# Idle comes first and last, since a machine that worked is warmer. The same load is made in two ways, all
# cores a little and few cores fully: they do not draw the same, and a model should have seen both.
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
# Of each phase, until fans, frequencies and a meter that averages have caught up.
_SETTLE_RATIO = 0.2
_SAMPLE_SECONDS = 1.0
_LEAST_SAMPLES = 4


@dataclass(frozen=True, slots=True)
class Plan:
    """All phases, one after the other."""

    phases: tuple[Phase, ...]
    phase_seconds: float
    settle_seconds: float
    """The first part of each phase, which does not count."""
    sample_seconds: float

    @property
    def seconds(self) -> float:
        return len(self.phases) * self.phase_seconds


def ramp(minutes: float, meter_period_seconds: float) -> Plan:
    """All phases in about so many minutes; in more where a slow meter needs them for a few values of each."""
    phase_seconds = 60 * minutes / len(_PHASES)
    sample_seconds = max(meter_period_seconds, min(_SAMPLE_SECONDS, phase_seconds / (2 * _LEAST_SAMPLES)))
    phase_seconds = max(phase_seconds, _LEAST_SAMPLES * sample_seconds / (1 - _SETTLE_RATIO))
    return Plan(_PHASES, phase_seconds, _SETTLE_RATIO * phase_seconds, sample_seconds)


def busy_cores(phase: Phase, cores: int) -> int:
    """How many cores a phase puts to work on a host."""
    return max(1, round(phase.cores_ratio * cores)) if phase.cores_ratio > 0 else 0

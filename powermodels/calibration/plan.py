"""The plan of a calibration: phases of known load, from idle to all loads at once. Pure."""

from dataclasses import dataclass


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

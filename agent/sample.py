"""From counters to rates: two readings in, one sample out. Pure.

A counter that went backwards was started anew; over that interval its rate is not known, and the
next one is taken from where it stands now. A container that is seen for the first time has levels
(memory) but no rates yet.
"""

from dataclasses import dataclass

from agent.readings import ContainerReading, PressureTotals, Reading
from wire.messages import Gap, Pressure
from wire.resources import Quantities


@dataclass(frozen=True, slots=True)
class ContainerSample:
    """One container over one interval."""

    id: str
    runtime: str
    cpu_seconds_total: float
    used: Quantities
    limit: Quantities
    pressure: Pressure


@dataclass(frozen=True, slots=True)
class Sample:
    """The host and its containers over one interval."""

    unix_seconds: float
    interval_seconds: float
    used: Quantities
    capacity: Quantities
    pressure: Pressure
    containers: tuple[ContainerSample, ...] = ()
    gaps: tuple[Gap, ...] = ()


def sample(previous: Reading, current: Reading) -> Sample:
    """What was used between two readings of the same host."""
    seconds = max(0.0, current.monotonic_seconds - previous.monotonic_seconds)
    before, host = previous.host, current.host
    known = {container.id: container for container in previous.containers}
    return Sample(
        unix_seconds=current.unix_seconds,
        interval_seconds=seconds,
        used=Quantities(
            cpu_cores=_cores(before.busy_seconds, host.busy_seconds, seconds, host.cores),
            memory_bytes=max(0, host.memory_total_bytes - host.memory_available_bytes),
            disk_bytes_per_second=_rate(before.disk_bytes, host.disk_bytes, seconds),
            network_bytes_per_second=_rate(before.network_bytes, host.network_bytes, seconds),
        ),
        capacity=Quantities(
            cpu_cores=float(host.cores),
            memory_bytes=host.memory_total_bytes,
            network_bytes_per_second=host.network_capacity_bytes_per_second,
        ),
        pressure=_pressure(before.pressure, host.pressure, seconds),
        containers=tuple(_container(known.get(c.id), c, host.cores) for c in current.containers),
        gaps=current.gaps,
    )


def _container(before: ContainerReading | None, now: ContainerReading, cores: int) -> ContainerSample:
    if before is None or now.cpu_seconds < before.cpu_seconds:
        # Less CPU time than before means a restart under the same id: all its counters are new.
        before = now
    seconds = now.monotonic_seconds - before.monotonic_seconds
    return ContainerSample(
        id=now.id,
        runtime=now.runtime,
        cpu_seconds_total=now.cpu_seconds,
        used=Quantities(
            cpu_cores=_cores(before.cpu_seconds, now.cpu_seconds, seconds, cores),
            memory_bytes=now.memory_working_set_bytes,
            disk_bytes_per_second=_rate(before.disk_bytes, now.disk_bytes, seconds),
            network_bytes_per_second=_rate(before.network_bytes, now.network_bytes, seconds),
        ),
        limit=Quantities(cpu_cores=now.cpu_limit_cores, memory_bytes=now.memory_limit_bytes),
        pressure=_pressure(before.pressure, now.pressure, seconds),
    )


def _rate(before: float | None, now: float | None, seconds: float) -> float | None:
    if before is None or now is None or now < before or seconds <= 0:
        return None
    return (now - before) / seconds


def _cores(before: float, now: float, seconds: float, cores: int) -> float | None:
    """CPU time per time; the kernel's clock ticks can make it look like a little more than there are."""
    rate = _rate(before, now, seconds)
    return None if rate is None else min(rate, float(cores))


def _pressure(before: PressureTotals, now: PressureTotals, seconds: float) -> Pressure:
    return Pressure(
        cpu_ratio=_ratio(before.cpu_seconds, now.cpu_seconds, seconds),
        memory_ratio=_ratio(before.memory_seconds, now.memory_seconds, seconds),
        disk_ratio=_ratio(before.disk_seconds, now.disk_seconds, seconds),
    )


def _ratio(before: float | None, now: float | None, seconds: float) -> float | None:
    rate = _rate(before, now, seconds)
    return None if rate is None else min(rate, 1.0)

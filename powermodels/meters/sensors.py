"""A meter that adds up sensors of the kernel: files with power now, or with a counter of energy.

Meters differ in the files that they find, and in which of them they add; this is the same for all. The power
of a counter is unknown for an interval without a valid difference: no reading, a decrease that is not a wrap,
an interval long enough for two wraps, or more watts than a socket can use. If it is one that is added, the
sum is unknown too, since the sum of the others would be too small.
"""

import grp
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from powermodels.common.interface import Part, Scope
from wire.messages import Gap, PowerSource

# Twice the power of the largest server CPUs today; more is an error of the counter.
MAX_DOMAIN_WATTS = 1000.0
# Above the power of any machine: an error of the sensor.
MAX_NODE_WATTS = 30_000.0

# If the range of a counter is unknown: the smallest in use, 65 kJ, wraps after this time at full power.
_LONGEST_SECONDS_WITHOUT_RANGE = 60.0
_BEYOND = 2**63


@dataclass(frozen=True, slots=True)
class Sensor:
    """A file with microwatts or, of a counter, with microjoules."""

    name: str
    file: Path
    counted: bool = True
    """Whether it is part of the sum; counted sensors do not overlap."""
    is_counter: bool = False
    range_uj: int | None = None
    """Value at which the counter wraps; None if unknown."""


@dataclass(frozen=True, slots=True)
class CounterReading:
    """A counter at one instant."""

    monotonic_seconds: float
    energy_uj: float


def watts_between(earlier: CounterReading, later: CounterReading, range_uj: int | None) -> float | None:
    """Mean watts between two readings of one counter; None if the difference is not valid."""
    seconds = later.monotonic_seconds - earlier.monotonic_seconds
    longest_seconds = (
        _LONGEST_SECONDS_WITHOUT_RANGE if range_uj is None else range_uj / 1e6 / MAX_DOMAIN_WATTS
    )
    if not 0 < seconds <= longest_seconds:
        return None
    energy_uj = later.energy_uj - earlier.energy_uj
    if energy_uj < 0:
        if range_uj is None:
            return None
        energy_uj += range_uj
    # A reset counter looks like a wrap over nearly its whole range: implausibly many watts.
    watts = energy_uj / 1e6 / seconds
    return watts if 0 <= watts <= MAX_DOMAIN_WATTS else None


def parse_micro(text: str) -> int:
    """A count of microwatts or microjoules; raises ValueError beyond 64 bits, an error of the driver."""
    count = int(text)
    if abs(count) >= _BEYOND:
        raise ValueError("the number has more than 64 bits")
    return count


def read_micro(sensor: Sensor) -> float:
    """Read the file of a sensor."""
    return parse_micro(sensor.file.read_text())


def own_group() -> str:
    """Name of the group of this process."""
    try:
        return grp.getgrgid(os.getegid()).gr_name
    except KeyError:
        return str(os.getegid())


@dataclass(eq=False, slots=True, kw_only=True)
class SensorMeter:
    """The sum of the counted sensors; the others are only listed as parts."""

    name: str
    what: str
    """Its name in gaps and descriptions."""
    source: PowerSource
    scope: Scope
    error_ratio: float
    period_seconds: float
    sensors: tuple[Sensor, ...]
    read: Callable[[Sensor], float] = read_micro
    """Reads a sensor in its unit; raises OSError or ValueError."""
    files: Path | None = None
    """A pattern of all files that need a permission; None for that of the sensor."""
    zero_reason: str = "its sensors report 0 µW, which is implausible"
    """Why a sum is 0: a running machine needs power."""
    gap: Gap | None = field(default=None, init=False)
    _last: dict[Path, CounterReading] = field(default_factory=dict, init=False)
    _watts: dict[Path, float] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        # Long before any interval: this only finds out what cannot be read.
        self.watts(float("-inf"))

    @property
    def parts(self) -> tuple[Part, ...]:
        return tuple(Part(each.name, self._watts.get(each.file), each.counted) for each in self.sensors)

    def watts(self, monotonic_seconds: float) -> float | None:
        self.gap = None
        self._watts = {}
        for sensor in self.sensors:
            watts = self._read_watts(sensor, monotonic_seconds)
            if watts is not None:
                self._watts[sensor.file] = watts
        counted = [sensor.file for sensor in self.sensors if sensor.counted]
        if not counted or not all(file in self._watts for file in counted):
            return None
        total = sum(self._watts[file] for file in counted)
        if total <= 0:
            self.gap = Gap(self.what, self.zero_reason)
            return None
        return total

    def describe(self) -> str:
        names = [sensor.name for sensor in self.sensors if sensor.counted]
        listed = ", ".join(names or [sensor.name for sensor in self.sensors])
        return f"{self.what}: {listed} ({self.scope.value}), ±{self.error_ratio:.0%}"

    def _read_watts(self, sensor: Sensor, monotonic_seconds: float) -> float | None:
        earlier = self._last.pop(sensor.file, None)
        try:
            value = self.read(sensor)
        except PermissionError:
            files = self.files or sensor.file
            command = f"sudo sh -c 'chgrp {own_group()} {files} && chmod g+r {files}'"
            self._fail(sensor, f"no permission to read {sensor.file}; to allow the agent's group: {command}")
            return None
        except (OSError, ValueError) as error:
            self._fail(sensor, f"{sensor.file} cannot be read: {error}")
            return None
        if sensor.is_counter:
            later = self._last[sensor.file] = CounterReading(monotonic_seconds, value)
            return None if earlier is None else watts_between(earlier, later, sensor.range_uj)
        if 0 <= value / 1e6 <= MAX_NODE_WATTS:
            return value / 1e6
        self._fail(sensor, f"{sensor.file} reports {value:.0f} µW, which is implausible")
        return None

    def _fail(self, sensor: Sensor, why: str) -> None:
        if sensor.counted and self.gap is None:
            self.gap = Gap(self.what, why)

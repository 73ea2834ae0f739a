"""hwmon: the power sensors of kernel drivers in /sys/class/hwmon.

A sensor does not report what it measures. For a few drivers the scope is known (`SENSOR_SCOPES`): the whole
machine, or its CPUs. All others (a rail, a voltage regulator, a graphics card) are listed by name but are not
part of the node's power, since they may overlap.

The ACPI power meter and batteries appear here as well, and are separate meters (`acpi`, `battery`).
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from powermodels.common.interface import Part, Scope
from powermodels.meters.counters import CounterReading, parse_micro, watts_between
from powermodels.meters.rapl import own_group
from wire.messages import Gap, PowerSource

ACPI_DRIVER = "power_meter"

# The few data sheets that state it give 1-5 % (INA2xx, Corsair PSUs); this is an estimate.
_ERROR_RATIO = 0.05
# Above the power of any machine: an error of the sensor.
MAX_NODE_WATTS = 30_000.0

_SENSOR = re.compile(r"(?P<kind>power|energy)(?P<number>\d+)_(?P<what>average|input)")
# Mean since the last reading, mean of the driver, power now: the first that is available.
_PREFERENCE = {("energy", "input"): 0, ("power", "average"): 1, ("power", "input"): 2}


@dataclass(frozen=True, slots=True)
class SensorScope:
    """The scope of the sensors of a driver."""

    driver: str
    label: str
    """A pattern; "" if the driver has no labels."""
    scope: Scope


SENSOR_SCOPES: tuple[SensorScope, ...] = (
    SensorScope("corsairpsu", "power total", Scope.NODE),
    SensorScope("ibmpowernv", "System", Scope.NODE),
    SensorScope("macsmc_hwmon", "Total System Power", Scope.NODE),
    # Names of the main rail on small boards of NVIDIA.
    SensorScope(r"ina\d+", "VDD_IN|POM_5V_IN", Scope.NODE),
    SensorScope("amd_energy", r"Esocket\d+", Scope.CPU),
    SensorScope("fam15h_power", "", Scope.CPU),
    SensorScope("zenpower", "SVI2_P_(Core|SoC)", Scope.CPU),
)
_SCOPES = (Scope.NODE, Scope.CPU)


@dataclass(frozen=True, slots=True)
class Device:
    """A hwmon device: the name of its driver, and the directory of its files."""

    driver: str
    folder: Path


@dataclass(frozen=True, slots=True)
class Sensor:
    """A file with watts or joules."""

    name: str
    file: Path
    is_counter: bool
    scope: Scope


def read_devices(sys: Path) -> Iterator[Device]:
    """All hwmon devices except batteries."""
    for folder in sorted((sys / "class/hwmon").glob("hwmon*")):
        if (folder / "device/subsystem").resolve().name == "power_supply":
            continue
        # Older drivers, such as ACPI, put their files into the device that hwmon links to.
        for home in (folder, folder / "device"):
            if driver := read_text(home / "name"):
                yield Device(driver, home)
                break


def read_sensors(device: Device) -> Iterator[Sensor]:
    """The power sensors of a device, one per number."""
    files: dict[str, tuple[int, Path, bool]] = {}
    for file in sorted(device.folder.glob("*_*")):
        found = _SENSOR.fullmatch(file.name)
        if found is None:
            continue
        rank = _PREFERENCE.get((found["kind"], found["what"]))
        if rank is not None and rank < files.get(found["number"], (len(_PREFERENCE),))[0]:
            files[found["number"]] = (rank, file, found["kind"] == "energy")
    for number, (_, file, is_counter) in files.items():
        kind = "energy" if is_counter else "power"
        label = read_text(device.folder / f"{kind}{number}_label") or read_text(device.folder / "label")
        name = f"{device.driver} {label or number}" if label or len(files) > 1 else device.driver
        yield Sensor(name, file, is_counter, scope_of(device.driver, label))


def scope_of(driver: str, label: str) -> Scope:
    """The scope of a sensor; PART if unknown."""
    for entry in SENSOR_SCOPES:
        if re.fullmatch(entry.driver, driver) and re.fullmatch(entry.label, label):
            return entry.scope
    return Scope.PART


def find_hwmon(sys: Path, hypervisor: str | None) -> "HwmonMeter | Gap":
    """Find the power sensors of the host, or the reason why there are none."""
    sensors = [
        sensor
        for device in read_devices(sys)
        if device.driver != ACPI_DRIVER
        for sensor in read_sensors(device)
    ]
    if sensors:
        return HwmonMeter(tuple(_with_unique_names(sensors)))
    guest = f", as in most virtual machines ({hypervisor})" if hypervisor is not None else ""
    return Gap("hwmon", f"no sensor under {sys / 'class/hwmon'} measures power{guest}")


class HwmonMeter:
    """The sensors with the largest scope; others are only listed as parts."""

    name = "hwmon"
    source = PowerSource.HWMON
    error_ratio = _ERROR_RATIO
    # Drivers report the power now, or the mean over a fraction of a second.
    period_seconds = 1.0

    def __init__(self, sensors: tuple[Sensor, ...]) -> None:
        self._sensors = sensors
        found = {sensor.scope for sensor in sensors}
        self.scope = next((scope for scope in _SCOPES if scope in found), Scope.PART)
        counts = self.scope is not Scope.PART
        self._counted = [sensor for sensor in sensors if counts and sensor.scope is self.scope]
        self._last: dict[Path, CounterReading] = {}
        self._watts: dict[Path, float] = {}
        self._gap: Gap | None = None
        for sensor in self._counted:
            self._read(sensor)

    @property
    def gap(self) -> Gap | None:
        return self._gap

    @property
    def parts(self) -> tuple[Part, ...]:
        return tuple(
            Part(each.name, self._watts.get(each.file), each in self._counted) for each in self._sensors
        )

    def watts(self, monotonic_seconds: float) -> float | None:
        self._gap = None
        self._watts = {}
        for sensor in self._sensors:
            watts = self._read_watts(sensor, monotonic_seconds)
            if watts is not None and 0 <= watts <= MAX_NODE_WATTS:
                self._watts[sensor.file] = watts
        values = [self._watts[each.file] for each in self._counted if each.file in self._watts]
        # A running machine needs power: a sum of 0 is a broken sensor.
        return sum(values) or None if len(values) == len(self._counted) else None

    def describe(self) -> str:
        names = ", ".join(sensor.name for sensor in self._counted or self._sensors)
        return f"hwmon sensors: {names} ({self.scope.value}), ±{_ERROR_RATIO:.0%}"

    def _read_watts(self, sensor: Sensor, monotonic_seconds: float) -> float | None:
        value = self._read(sensor)
        if not sensor.is_counter:
            return None if value is None else value / 1e6
        earlier = self._last.pop(sensor.file, None)
        if value is None:
            return None
        later = self._last[sensor.file] = CounterReading(monotonic_seconds, value)
        return None if earlier is None else watts_between(earlier, later, None)

    def _read(self, sensor: Sensor) -> int | None:
        value, gap = read_micro(sensor.file, "hwmon")
        if sensor in self._counted:
            self._gap = self._gap or gap
        return value


def _with_unique_names(sensors: list[Sensor]) -> Iterator[Sensor]:
    """Append the address of the device to names that occur twice, as with two sockets."""
    names = Counter(sensor.name for sensor in sensors)
    for sensor in sensors:
        address = (sensor.file.parent / "device").resolve().name
        yield replace(sensor, name=f"{sensor.name} {address}") if names[sensor.name] > 1 else sensor


def read_micro(file: Path, what: str) -> tuple[int | None, Gap | None]:
    """Read microwatts or microjoules from a file, or the reason why it cannot be read."""
    try:
        return parse_micro(file.read_text()), None
    except PermissionError:
        command = f"sudo sh -c 'chgrp {own_group()} {file} && chmod g+r {file}'"
        return None, Gap(what, f"no permission to read {file}; to allow the agent's group: {command}")
    except (OSError, ValueError) as error:
        return None, Gap(what, f"{file} cannot be read: {error}")


def read_text(file: Path) -> str:
    """The text of a file, stripped; empty if it cannot be read."""
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return ""

"""hwmon: whatever power sensors the kernel's drivers show under /sys/class/hwmon.

A sensor says how many watts, but not of what. Which ones see the whole machine, or its CPUs, is known of a
few drivers (`KNOWN`). All others (a rail, a voltage regulator, a graphics card) are shown by their names and
are no part of the node's watts: they may lie inside one another.

ACPI's power meter and the batteries appear here as well, and are meters of their own (`acpi`, `battery`).
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from powermodels.common.interface import Part, Scope
from powermodels.meters.counters import Counted, watts_between
from powermodels.meters.rapl import own_group
from wire.messages import Gap, PowerSource

ACPI_DRIVER = "power_meter"

# The few makers who state it speak of 1-5 % of the value (INA2xx data sheets, Corsair PSUs); ours is a guess.
_ERROR_RATIO = 0.05
# More than any one machine draws: a sensor's fault.
MAX_NODE_WATTS = 30_000.0

_SENSOR = re.compile(r"(?P<kind>power|energy)(?P<number>\d+)_(?P<what>average|input)")
# The mean since the last look, the driver's own mean, the power at this instant: the first that there is.
_PREFERENCE = {("energy", "input"): 0, ("power", "average"): 1, ("power", "input"): 2}


@dataclass(frozen=True, slots=True)
class Known:
    """Sensors of which it is known what they see."""

    driver: str
    label: str
    """A pattern; "" where the driver has no labels."""
    scope: Scope


KNOWN: tuple[Known, ...] = (
    Known("corsairpsu", "power total", Scope.NODE),
    Known("ibmpowernv", "System", Scope.NODE),
    Known("macsmc_hwmon", "Total System Power", Scope.NODE),
    # NVIDIA's small boards name the rail that feeds all others so.
    Known(r"ina\d+", "VDD_IN|POM_5V_IN", Scope.NODE),
    Known("amd_energy", r"Esocket\d+", Scope.CPU),
    Known("fam15h_power", "", Scope.CPU),
    Known("zenpower", "SVI2_P_(Core|SoC)", Scope.CPU),
)
_SCOPES = (Scope.NODE, Scope.CPU)


@dataclass(frozen=True, slots=True)
class Device:
    """A hwmon device: its driver's name, and the folder that its files are in."""

    driver: str
    folder: Path


@dataclass(frozen=True, slots=True)
class Sensor:
    """A file that tells watts, or joules."""

    name: str
    file: Path
    is_counter: bool
    scope: Scope


def read_devices(sys: Path) -> Iterator[Device]:
    """Every hwmon device but the batteries."""
    for folder in sorted((sys / "class/hwmon").glob("hwmon*")):
        if (folder / "device/subsystem").resolve().name == "power_supply":
            continue
        # Drivers of the older kind, ACPI's among them, put their files on the device that hwmon points to.
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
    """What a sensor sees, as far as that is known."""
    for known in KNOWN:
        if re.fullmatch(known.driver, driver) and re.fullmatch(known.label, label):
            return known.scope
    return Scope.PART


def find_hwmon(sys: Path, hypervisor: str | None) -> "HwmonMeter | Gap":
    """The host's power sensors, or why there are none."""
    sensors = [
        sensor
        for device in read_devices(sys)
        if device.driver != ACPI_DRIVER
        for sensor in read_sensors(device)
    ]
    if sensors:
        return HwmonMeter(tuple(_told_apart(sensors)))
    guest = f", as in most virtual machines ({hypervisor})" if hypervisor is not None else ""
    return Gap("hwmon", f"no sensor under {sys / 'class/hwmon'} measures power{guest}")


class HwmonMeter:
    """The sensors that see most of the machine, and all others beside them."""

    name = "hwmon"
    source = PowerSource.HWMON
    error_ratio = _ERROR_RATIO
    # What a driver shows is the power at this instant, or a mean over some fraction of a second.
    period_seconds = 1.0

    def __init__(self, sensors: tuple[Sensor, ...]) -> None:
        self._sensors = sensors
        found = {sensor.scope for sensor in sensors}
        self.scope = next((scope for scope in _SCOPES if scope in found), Scope.PART)
        counts = self.scope is not Scope.PART
        self._counted = [sensor for sensor in sensors if counts and sensor.scope is self.scope]
        self._last: dict[Path, Counted] = {}
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
            watts = self._look(sensor, monotonic_seconds)
            if watts is not None and 0 <= watts <= MAX_NODE_WATTS:
                self._watts[sensor.file] = watts
        known = [self._watts[each.file] for each in self._counted if each.file in self._watts]
        # A machine that runs draws something: a sum of nothing is a sensor that does not work.
        return sum(known) or None if len(known) == len(self._counted) else None

    def describe(self) -> str:
        names = ", ".join(sensor.name for sensor in self._counted or self._sensors)
        return f"hwmon sensors: {names} ({self.scope.value}), ±{_ERROR_RATIO:.0%}"

    def _look(self, sensor: Sensor, monotonic_seconds: float) -> float | None:
        value = self._read(sensor)
        if not sensor.is_counter:
            return None if value is None else value / 1e6
        earlier = self._last.pop(sensor.file, None)
        if value is None:
            return None
        later = self._last[sensor.file] = Counted(monotonic_seconds, value)
        return None if earlier is None else watts_between(earlier, later, None)

    def _read(self, sensor: Sensor) -> int | None:
        value, gap = read_micro(sensor.file, "hwmon")
        if sensor in self._counted:
            self._gap = self._gap or gap
        return value


def _told_apart(sensors: list[Sensor]) -> Iterator[Sensor]:
    """The same with the device's address in names that occur twice, as on two sockets."""
    names = Counter(sensor.name for sensor in sensors)
    for sensor in sensors:
        address = (sensor.file.parent / "device").resolve().name
        yield replace(sensor, name=f"{sensor.name} {address}") if names[sensor.name] > 1 else sensor


def read_micro(file: Path, what: str) -> tuple[int | None, Gap | None]:
    """A file's number of microwatts or microjoules, or why it cannot be had."""
    try:
        return int(file.read_text()), None
    except PermissionError:
        command = f"sudo sh -c 'chgrp {own_group()} {file} && chmod g+r {file}'"
        return None, Gap(what, f"no permission to read {file}; to open it for the agent's group: {command}")
    except (OSError, ValueError) as error:
        return None, Gap(what, f"{file} cannot be read: {error}")


def read_text(file: Path) -> str:
    """A file's text without its line's end, or nothing."""
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return ""

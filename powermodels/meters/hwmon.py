"""hwmon: the power sensors of kernel drivers in /sys/class/hwmon, among them the ACPI power meter.

A sensor does not report what it measures. For a few drivers the scope is known (`SENSOR_SCOPES`): the whole
machine, or its CPUs. All others (a rail, a voltage regulator, a graphics card) are listed by name but are not
part of the node's power, since they may overlap.

The ACPI power meter (device ACPI000D) is a meter of its own. On servers it is the value of the management
controller, for the whole machine, averaged over a second or more. The driver is acpi_power_meter; if the
firmware reads the value over IPMI, acpi_ipmi is required too. Batteries are listed as well; `battery` reads
them.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from powermodels.common.host_facts import read_text
from powermodels.common.interface import Scope
from powermodels.meters.sensors import Sensor, SensorMeter
from wire.messages import Gap, PowerSource
from wire.text import parse_count

_ACPI_DRIVER = "power_meter"
_ACPI = "ACPI power meter"

# The few data sheets that state it give 1-5 % (INA2xx, Corsair PSUs), firmware that reports one 1-10 %; this
# is an estimate.
_ERROR_RATIO = 0.05
# Drivers report the power now, or the mean over a fraction of a second.
_PERIOD_SECONDS = 1.0

_SENSOR = re.compile(r"(?P<kind>power|energy)(?P<number>\d+)_(?P<what>average|input)")
# Mean since the last reading, mean of the driver, power now: the first that is available.
_PREFERENCE = {("energy", "input"): 0, ("power", "average"): 1, ("power", "input"): 2}

# Patterns of the driver and of the label of a sensor ("" if the driver has no labels), and its scope.
SENSOR_SCOPES: tuple[tuple[str, str, Scope], ...] = (
    ("corsairpsu", "power total", Scope.NODE),
    ("ibmpowernv", "System", Scope.NODE),
    ("macsmc_hwmon", "Total System Power", Scope.NODE),
    # Names of the main rail on small boards of NVIDIA.
    (r"ina\d+", "VDD_IN|POM_5V_IN", Scope.NODE),
    ("amd_energy", r"Esocket\d+", Scope.CPU),
    ("fam15h_power", "", Scope.CPU),
    ("zenpower", "SVI2_P_(Core|SoC)", Scope.CPU),
)


def read_devices(sys: Path) -> Iterator[tuple[str, Path]]:
    """Driver and directory of all hwmon devices except batteries."""
    for folder in sorted((sys / "class/hwmon").glob("hwmon*")):
        if (folder / "device/subsystem").resolve().name == "power_supply":
            continue
        # Older drivers, such as ACPI, put their files into the device that hwmon links to.
        for home in (folder, folder / "device"):
            if driver := read_text(home / "name"):
                yield driver, home
                break


def read_sensors(driver: str, folder: Path) -> Iterator[tuple[Sensor, Scope]]:
    """The power sensors of a device, one per number, and their scopes."""
    files: dict[str, tuple[int, Path, bool]] = {}
    for file in sorted(folder.glob("*_*")):
        found = _SENSOR.fullmatch(file.name)
        if found is None:
            continue
        rank = _PREFERENCE.get((found["kind"], found["what"]))
        if rank is not None and rank < files.get(found["number"], (len(_PREFERENCE),))[0]:
            files[found["number"]] = (rank, file, found["kind"] == "energy")
    for number, (_, file, is_counter) in files.items():
        kind = "energy" if is_counter else "power"
        label = read_text(folder / f"{kind}{number}_label") or read_text(folder / "label")
        name = f"{driver} {label or number}" if label or len(files) > 1 else driver
        yield Sensor(name, file, is_counter=is_counter), scope_of(driver, label)


def scope_of(driver: str, label: str) -> Scope:
    """The scope of a sensor; PART if unknown."""
    for drivers, labels, scope in SENSOR_SCOPES:
        if re.fullmatch(drivers, driver) and re.fullmatch(labels, label):
            return scope
    return Scope.PART


def find_hwmon(sys: Path, hypervisor: str | None) -> SensorMeter | Gap:
    """Find the power sensors of the host, or why there are none; those with the largest scope count."""
    found = [
        pair
        for driver, folder in read_devices(sys)
        if driver != _ACPI_DRIVER
        for pair in read_sensors(driver, folder)
    ]
    if not found:
        guest = f", as in most virtual machines ({hypervisor})" if hypervisor is not None else ""
        return Gap("hwmon", f"no sensor under {sys / 'class/hwmon'} measures power{guest}")
    largest = min((scope for _, scope in found), key=lambda scope: scope.rank)
    names = Counter(sensor.name for sensor, _ in found)
    sensors = tuple(
        replace(
            sensor,
            # With the address of the device if the name is not unique, as with two sockets.
            name=sensor.name
            if names[sensor.name] == 1
            else f"{sensor.name} {(sensor.file.parent / 'device').resolve().name}",
            counted=scope is largest and scope is not Scope.PART,
        )
        for sensor, scope in found
    )
    return SensorMeter(
        name="hwmon",
        what="hwmon",
        source=PowerSource.HWMON,
        scope=largest,
        error_ratio=_ERROR_RATIO,
        period_seconds=_PERIOD_SECONDS,
        sensors=sensors,
    )


def find_acpi(sys: Path, hypervisor: str | None) -> SensorMeter | Gap:
    """Find the power meter of the firmware, or the reason why there is none."""
    folders = [folder for driver, folder in read_devices(sys) if driver == _ACPI_DRIVER]
    own = [
        (number, folder)
        for number, folder in enumerate(folders)
        if read_text(folder / "power1_is_battery") != "1"
    ]
    if not own and hypervisor is not None:
        return Gap(_ACPI, f"this is a virtual machine ({hypervisor}), whose firmware has no power meter")
    if not own:
        return Gap(
            _ACPI,
            "the firmware has none, or its driver is not loaded: `sudo modprobe acpi_ipmi acpi_power_meter`",
        )
    first = own[0][1]
    interval = read_text(first / "power1_average_interval")
    averaged_seconds = (parse_count(interval) or 0) / 1e3
    return SensorMeter(
        name="acpi",
        what=_ACPI,
        source=PowerSource.HWMON,
        scope=Scope.NODE,
        error_ratio=parse_accuracy(read_text(first / "power1_accuracy")) or _ERROR_RATIO,
        period_seconds=averaged_seconds or _PERIOD_SECONDS,
        # Others are only listed, since they may overlap with the first one.
        sensors=tuple(
            Sensor(
                read_text(folder / "power1_oem_info") or f"meter {number}",
                folder / "power1_average",
                counted=folder is first,
            )
            for number, folder in own
        ),
    )


def parse_accuracy(text: str) -> float | None:
    """Parse an accuracy: `95.5%` is an error of 4.5 %; None if invalid."""
    try:
        error_ratio = 1 - float(text.removesuffix("%")) / 100
    except ValueError:
        return None
    return error_ratio if 0 < error_ratio < 1 else None

"""The ACPI power meter (device ACPI000D): power of the machine, measured by the firmware.

On servers it is the value of the management controller, for the whole machine, averaged over a second or
more. The driver is acpi_power_meter; if the firmware reads the value over IPMI, acpi_ipmi is required too.
"""

from dataclasses import dataclass
from pathlib import Path

from powermodels.common.interface import Part, Scope
from powermodels.meters.hwmon import ACPI_DRIVER, MAX_NODE_WATTS, read_devices, read_micro, read_text
from wire.messages import Gap, PowerSource

# If the firmware reports none; others report 1-10 %.
_ERROR_RATIO = 0.05
_AVERAGED_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class AcpiSensor:
    """One power meter of the firmware."""

    name: str
    file: Path
    error_ratio: float
    averaged_seconds: float


def read_acpi_sensors(sys: Path) -> list[AcpiSensor]:
    """Read the power meters of the firmware, without batteries."""
    folders = [device.folder for device in read_devices(sys) if device.driver == ACPI_DRIVER]
    return [
        AcpiSensor(
            name=read_text(folder / "power1_oem_info") or f"meter {number}",
            file=folder / "power1_average",
            error_ratio=parse_accuracy(read_text(folder / "power1_accuracy")) or _ERROR_RATIO,
            averaged_seconds=_seconds(read_text(folder / "power1_average_interval")) or _AVERAGED_SECONDS,
        )
        for number, folder in enumerate(folders)
        if read_text(folder / "power1_is_battery") != "1"
    ]


def parse_accuracy(text: str) -> float | None:
    """Parse an accuracy: `95.5%` is an error of 4.5 %; None if invalid."""
    try:
        error_ratio = 1 - float(text.removesuffix("%")) / 100
    except ValueError:
        return None
    return error_ratio if 0 < error_ratio < 1 else None


def find_acpi(sys: Path, hypervisor: str | None) -> "AcpiMeter | Gap":
    """Find the power meter of the firmware, or the reason why there is none."""
    sensors = read_acpi_sensors(sys)
    if sensors:
        return AcpiMeter(tuple(sensors))
    if hypervisor is not None:
        return Gap(
            "ACPI power meter", f"this is a virtual machine ({hypervisor}), whose firmware has no power meter"
        )
    return Gap(
        "ACPI power meter",
        "the firmware has none, or its driver is not loaded: `sudo modprobe acpi_ipmi acpi_power_meter`",
    )


class AcpiMeter:
    """The first meter of the firmware; others are only listed as parts, since they may overlap."""

    name = "acpi"
    source = PowerSource.HWMON
    scope = Scope.NODE

    def __init__(self, sensors: tuple[AcpiSensor, ...]) -> None:
        self._sensors = sensors
        self.error_ratio = sensors[0].error_ratio
        self.period_seconds = sensors[0].averaged_seconds
        self._watts: list[float | None] = [None] * len(sensors)
        self._gap = read_micro(sensors[0].file, "ACPI power meter")[1]

    @property
    def gap(self) -> Gap | None:
        return self._gap

    @property
    def parts(self) -> tuple[Part, ...]:
        pairs = zip(self._sensors, self._watts, strict=True)
        return tuple(Part(sensor.name, watts, sensor is self._sensors[0]) for sensor, watts in pairs)

    def watts(self, monotonic_seconds: float) -> float | None:  # noqa: ARG002 - the firmware averages by itself
        readings = [read_micro(sensor.file, "ACPI power meter") for sensor in self._sensors]
        self._watts = [_plausible(value) for value, _ in readings]
        self._gap = readings[0][1]
        if self._gap is None and self._watts[0] is None:
            self._gap = Gap(
                "ACPI power meter", f"the firmware reports {readings[0][0]} µW, which is implausible"
            )
        return self._watts[0]

    def describe(self) -> str:
        return f"ACPI power meter: {self._sensors[0].name} ({self.scope.value}), ±{self.error_ratio:.0%}"


def _plausible(microwatts: int | None) -> float | None:
    """Convert to watts; firmware without a value reports 0 or all ones."""
    return microwatts / 1e6 if microwatts is not None and 0 < microwatts / 1e6 <= MAX_NODE_WATTS else None


def _seconds(milliseconds: str) -> float | None:
    return int(milliseconds) / 1e3 if milliseconds.isdecimal() else None

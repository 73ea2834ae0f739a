"""Batteries: on a laptop that runs on battery, their discharge is the power of the whole machine.

While it is plugged in, the meter has no value and a gap.
"""

from collections.abc import Iterator
from pathlib import Path

from powermodels.common.interface import Part, Scope
from powermodels.meters.hwmon import read_text
from wire.messages import Gap, PowerSource

# Embedded controllers measure voltage and current to about 1 % each, and round both; this is an estimate.
_ERROR_RATIO = 0.05
# They measure every few seconds: 5 s is common, up to 60 s occur.
_PERIOD_SECONDS = 10.0
# Above the power of any laptop battery.
_MAX_WATTS = 500.0


def read_batteries(sys: Path) -> Iterator[Path]:
    """Directories of the batteries of the machine, without those of mice and other devices."""
    for folder in sorted((sys / "class/power_supply").glob("*")):
        if read_text(folder / "type") == "Battery" and read_text(folder / "scope") != "Device":
            yield folder


def read_discharge_watts(battery: Path) -> float | None:
    """Discharge power of a battery now, 0 if it does not discharge; None if unknown."""
    if read_text(battery / "status") != "Discharging":
        return 0.0
    power_uw = _number(battery / "power_now")
    current_ua, voltage_uv = _number(battery / "current_now"), _number(battery / "voltage_now")
    if power_uw is not None:
        watts = power_uw / 1e6
    elif current_ua is not None and voltage_uv is not None:
        watts = current_ua / 1e6 * voltage_uv / 1e6
    else:
        return None
    # Some drivers report discharge as negative.
    return abs(watts) if abs(watts) <= _MAX_WATTS else None


def find_battery(sys: Path, hypervisor: str | None) -> "BatteryMeter | Gap":  # noqa: ARG001 - the table's form
    """Find the batteries of the host, or the reason why there are none."""
    batteries = tuple(read_batteries(sys))
    return BatteryMeter(batteries) if batteries else Gap("battery", "this machine has no battery")


class BatteryMeter:
    """The total discharge power of all batteries."""

    name = "battery"
    # The kernel also lists batteries as hwmon sensors.
    source = PowerSource.HWMON
    scope = Scope.NODE
    error_ratio = _ERROR_RATIO
    period_seconds = _PERIOD_SECONDS

    def __init__(self, batteries: tuple[Path, ...]) -> None:
        self._batteries = batteries
        self._watts: list[float | None] = []
        self._read()

    @property
    def gap(self) -> Gap | None:
        if None in self._watts:
            return Gap("battery", f"{self._batteries[self._watts.index(None)]} does not report its power")
        if sum(filter(None, self._watts)) <= 0:
            return Gap(
                "battery", "the machine is plugged in; batteries measure its power only while it is not"
            )
        return None

    @property
    def parts(self) -> tuple[Part, ...]:
        pairs = zip(self._batteries, self._watts, strict=True)
        return tuple(Part(battery.name, watts, counted=True) for battery, watts in pairs)

    def watts(self, monotonic_seconds: float) -> float | None:  # noqa: ARG002 - the controller averages by itself
        self._read()
        return sum(filter(None, self._watts)) if self.gap is None else None

    def describe(self) -> str:
        names = ", ".join(battery.name for battery in self._batteries)
        return f"battery discharge: {names} ({self.scope.value}), ±{_ERROR_RATIO:.0%}"

    def _read(self) -> None:
        self._watts = [read_discharge_watts(battery) for battery in self._batteries]


def _number(file: Path) -> int | None:
    try:
        return int(read_text(file))
    except ValueError:
        return None

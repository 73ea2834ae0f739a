"""Batteries: on a laptop that runs on battery, their discharge is the power of the whole machine.

While it is plugged in, the meter has no value and a gap.
"""

from pathlib import Path

from powermodels.common.host_facts import read_text
from powermodels.common.interface import Scope
from powermodels.meters.sensors import Sensor, SensorMeter, parse_micro
from wire.messages import Gap, PowerSource

# Embedded controllers measure voltage and current to about 1 % each, and round both; this is an estimate.
_ERROR_RATIO = 0.05
# They measure every few seconds: 5 s is common, up to 60 s occur.
_PERIOD_SECONDS = 10.0
# Above the power of any laptop battery.
_MAX_UW = 500e6


def find_battery(sys: Path, hypervisor: str | None) -> SensorMeter | Gap:  # noqa: ARG001 - the table's form
    """Find the batteries of the host, without those of mice and other devices, or why there are none."""
    batteries = tuple(
        Sensor(folder.name, folder)
        for folder in sorted((sys / "class/power_supply").glob("*"))
        if read_text(folder / "type") == "Battery" and read_text(folder / "scope") != "Device"
    )
    if not batteries:
        return Gap("battery", "this machine has no battery")
    return SensorMeter(
        name="battery",
        what="battery",
        # The kernel also lists batteries as hwmon sensors.
        source=PowerSource.HWMON,
        scope=Scope.NODE,
        error_ratio=_ERROR_RATIO,
        period_seconds=_PERIOD_SECONDS,
        sensors=batteries,
        read=_read_discharge_uw,
        zero_reason="the machine is plugged in; batteries measure its power only while it is not",
    )


def _read_discharge_uw(battery: Sensor) -> float:
    """Discharge power of a battery now; 0 if it does not discharge."""
    folder = battery.file
    if read_text(folder / "status") != "Discharging":
        return 0.0
    try:
        if power := read_text(folder / "power_now"):
            power_uw: float = parse_micro(power)
        else:
            current_ua, voltage_uv = (
                parse_micro(read_text(folder / name)) for name in ("current_now", "voltage_now")
            )
            power_uw = current_ua / 1e6 * voltage_uv
    except ValueError:
        raise ValueError("it does not report its power") from None
    # Some drivers report discharge as negative.
    if abs(power_uw) > _MAX_UW:
        raise ValueError(f"it reports {power_uw:.0f} µW, which is implausible")
    return abs(power_uw)

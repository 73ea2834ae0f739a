from pathlib import Path

import pytest

from powermodels.common.interface import Part, Scope
from powermodels.meters.hwmon import find_acpi, parse_accuracy
from powermodels.meters.sensors import SensorMeter
from tests.powermodels.sysfs import forbid, write_files
from wire.messages import Gap


def firmware_meter(sys: Path, number: int = 0, **files: object) -> Path:
    """The driver is of the older kind: its files lie on the device, not on hwmon's own folder."""
    return write_files(
        sys / f"class/hwmon/hwmon{number}/device",
        {"name": "power_meter", "power1_average": 241_000_000, "power1_is_battery": 0, **files},
    )


def meter_under(sys: Path) -> SensorMeter:
    meter = find_acpi(sys, None)
    assert isinstance(meter, SensorMeter)
    return meter


def test_the_firmwares_figure_is_the_whole_machine(tmp_path: Path) -> None:
    firmware_meter(tmp_path, power1_accuracy="97.0%", power1_average_interval=1000, power1_oem_info="System")
    meter = meter_under(tmp_path)
    assert meter.watts(0) == 241
    assert (meter.scope, meter.gap) == (Scope.NODE, None)
    assert meter.error_ratio == pytest.approx(0.03)
    assert meter.period_seconds == 1
    assert meter.describe() == "ACPI power meter: System (the whole machine), ±3%"


def test_second_meter_is_only_listed(tmp_path: Path) -> None:
    firmware_meter(tmp_path, 0)
    firmware_meter(tmp_path, 1, power1_average=80_000_000)
    meter = meter_under(tmp_path)
    assert meter.watts(0) == 241
    assert meter.parts == (Part("meter 0", 241.0, counted=True), Part("meter 1", 80.0, counted=False))


@pytest.mark.parametrize("microwatts", [0, -1, 0xFFFFFFFF * 1000])
def test_firmware_without_a_figure_is_not_believed(tmp_path: Path, microwatts: int) -> None:
    firmware_meter(tmp_path, power1_average=microwatts)
    meter = meter_under(tmp_path)
    assert meter.watts(0) is None
    assert meter.gap is not None
    assert f"{microwatts} µW" in meter.gap.why


def test_unreadable_meter_is_a_gap_and_recovers(tmp_path: Path) -> None:
    folder = firmware_meter(tmp_path)
    forbid(folder / "power1_average")
    meter = meter_under(tmp_path)
    assert meter.gap is not None
    assert "chmod g+r" in meter.gap.why
    (folder / "power1_average").unlink()
    write_files(folder, {"power1_average": 100_000_000})
    assert meter.watts(3) == 100
    assert meter.gap is None


def test_a_meter_of_a_battery_is_none_of_the_machine(tmp_path: Path) -> None:
    firmware_meter(tmp_path, power1_is_battery=1)
    gap = find_acpi(tmp_path, None)
    assert isinstance(gap, Gap)
    assert "modprobe acpi_ipmi acpi_power_meter" in gap.why


def test_a_guest_has_none(tmp_path: Path) -> None:
    gap = find_acpi(tmp_path, "KVM")
    assert isinstance(gap, Gap)
    assert "KVM" in gap.why


@pytest.mark.parametrize("text", ["", "100.0%", "0.0%", "-3%", "good"])
def test_invalid_accuracy_is_ignored(text: str) -> None:
    assert parse_accuracy(text) is None

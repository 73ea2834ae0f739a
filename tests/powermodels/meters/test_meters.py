from pathlib import Path

from powermodels.meters import METERS, find_meters
from tests.lab.powercap import PowercapTree, constant, intel
from tests.powermodels.sysfs import write_files


def hwmon(sys: Path, **files: object) -> None:
    write_files(sys / "class/hwmon/hwmon0", files)


def names(sys: Path) -> list[str]:
    return [meter.name for meter in find_meters(sys)[0]]


def test_a_meter_of_the_whole_machine_comes_before_one_of_its_cpu(tmp_path: Path) -> None:
    sys = PowercapTree(tmp_path, intel(constant(80))).sys
    assert names(sys) == ["rapl"]
    write_files(sys / "class/power_supply/BAT0", {"type": "Battery", "status": "Charging"})
    assert names(sys) == ["battery", "rapl"]
    hwmon(sys, name="amdgpu", power1_average=5_000_000)
    assert names(sys) == ["battery", "rapl", "hwmon"]
    hwmon(sys, name="corsairpsu", power1_average=5_000_000, power1_label="power total")
    assert names(sys) == ["hwmon", "battery", "rapl"]


def test_of_two_that_see_alike_the_better_one_comes_first(tmp_path: Path) -> None:
    write_files(tmp_path / "class/power_supply/BAT0", {"type": "Battery", "status": "Discharging"})
    meter = {"name": "power_meter", "power1_average": 9_000_000}
    write_files(tmp_path / "class/hwmon/hwmon0", {**meter, "power1_accuracy": "98.0%"})
    assert names(tmp_path) == ["acpi", "battery"]
    write_files(tmp_path / "class/hwmon/hwmon0", {"power1_accuracy": "80.0%"})
    assert names(tmp_path) == ["battery", "acpi"]


def test_missing_meter_has_a_reason(tmp_path: Path) -> None:
    meters, gaps = find_meters(tmp_path)
    assert not meters
    assert len(gaps) == len(METERS)
    assert {gap.what for gap in gaps} >= {"RAPL", "ACPI power meter", "hwmon", "battery", "IPMI"}
    assert all(gap.why for gap in gaps)

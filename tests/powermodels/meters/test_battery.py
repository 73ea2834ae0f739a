from pathlib import Path

import pytest

from powermodels.common.interface import Scope
from powermodels.meters.battery import find_battery
from powermodels.meters.sensors import SensorMeter
from tests.powermodels.sysfs import write_files
from wire.messages import Gap


def battery(sys: Path, /, name: str = "BAT0", **files: object) -> Path:
    described = {"type": "Battery", "status": "Discharging", **files}
    return write_files(sys / "class/power_supply" / name, described)


def meter_under(sys: Path) -> SensorMeter:
    meter = find_battery(sys, None)
    assert isinstance(meter, SensorMeter)
    return meter


def test_what_the_batteries_give_is_what_the_machine_draws(tmp_path: Path) -> None:
    battery(tmp_path, "BAT0", power_now=7_500_000)
    battery(tmp_path, "BAT1", current_now=-500_000, voltage_now=12_000_000)
    meter = meter_under(tmp_path)
    assert meter.watts(0) == pytest.approx(13.5)
    assert [(part.name, part.watts) for part in meter.parts] == [("BAT0", 7.5), ("BAT1", pytest.approx(6))]
    assert (meter.scope, meter.gap) == (Scope.NODE, None)


def test_one_of_two_at_work_is_enough(tmp_path: Path) -> None:
    battery(tmp_path, "BAT0", power_now=7_500_000)
    battery(tmp_path, "BAT1", power_now=0, status="Not charging")
    assert meter_under(tmp_path).watts(0) == 7.5


def test_plugged_in_battery_has_a_gap(tmp_path: Path) -> None:
    folder = battery(tmp_path, power_now=30_000_000, status="Charging")
    meter = meter_under(tmp_path)
    assert meter.gap is not None
    assert meter.watts(0) is None
    assert "plugged in" in meter.gap.why
    write_files(folder, {"status": "Discharging"})
    assert meter.watts(3) == 30
    assert meter.gap is None


@pytest.mark.parametrize("files", [{}, {"current_now": 5}, {"power_now": "?"}, {"power_now": 10**12}])
def test_battery_without_power_is_named_in_the_gap(tmp_path: Path, files: dict[str, object]) -> None:
    folder = write_files(battery(tmp_path), files)
    meter = meter_under(tmp_path)
    assert meter.watts(0) is None
    assert meter.gap is not None
    assert meter.gap.why.startswith(f"{folder} cannot be read: it ")


def test_a_mouses_battery_and_the_mains_are_not_the_machines(tmp_path: Path) -> None:
    battery(tmp_path, "hidpp_battery_0", scope="Device", power_now=1)
    write_files(tmp_path / "class/power_supply/AC", {"type": "Mains", "online": 1})
    assert find_battery(tmp_path, None) == Gap("battery", "this machine has no battery")

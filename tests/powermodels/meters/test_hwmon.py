from pathlib import Path

import pytest

from powermodels.common.interface import Part, Scope
from powermodels.meters.hwmon import find_hwmon
from powermodels.meters.sensors import SensorMeter
from tests.powermodels.sysfs import forbid, write_files
from wire.messages import Gap, PowerSource


def device(sys: Path, number: int, **files: object) -> Path:
    return write_files(sys / f"class/hwmon/hwmon{number}", files)


def meter_under(sys: Path) -> SensorMeter:
    meter = find_hwmon(sys, None)
    assert isinstance(meter, SensorMeter)
    return meter


def test_a_power_supply_that_measures_is_the_whole_machine(tmp_path: Path) -> None:
    device(
        tmp_path,
        0,
        name="corsairpsu",
        power1_input=187_500_000,
        power1_label="power total",
        power2_input=120_000_000,
        power2_label="power +12v",
    )
    meter = meter_under(tmp_path)
    assert (meter.scope, meter.source, meter.gap) == (Scope.NODE, PowerSource.HWMON, None)
    assert meter.watts(0) == 187.5
    assert meter.parts == (
        Part("corsairpsu power total", 187.5, counted=True),
        Part("corsairpsu power +12v", 120.0, counted=False),
    )
    assert "corsairpsu power total (the whole machine)" in meter.describe()


def test_sensor_of_unknown_scope_is_only_listed(tmp_path: Path) -> None:
    device(tmp_path, 0, name="amdgpu", power1_average=31_000_000, power1_label="PPT")
    device(tmp_path, 1, name="ina226", power1_input=4_000_000)
    meter = meter_under(tmp_path)
    assert meter.scope is Scope.PART
    assert meter.watts(0) is None
    assert meter.parts == (Part("amdgpu PPT", 31.0, counted=False), Part("ina226", 4.0, counted=False))


def test_the_rail_that_feeds_a_board_is_the_whole_machine(tmp_path: Path) -> None:
    device(tmp_path, 0, name="ina226", power1_input=4_000_000, label="VDD_CPU")
    device(tmp_path, 1, name="ina226", power1_input=9_000_000, label="VDD_IN")
    meter = meter_under(tmp_path)
    assert meter.scope is Scope.NODE
    assert meter.watts(0) == 9


def test_sockets_are_added_and_have_unique_names(tmp_path: Path) -> None:
    for number in range(2):
        folder = device(tmp_path, number, name="fam15h_power", power1_input=50_000_000 * (number + 1))
        address = tmp_path / f"devices/0000:00:1{number}.4"
        address.mkdir(parents=True)
        (folder / "device").symlink_to(address)
    meter = meter_under(tmp_path)
    assert meter.scope is Scope.CPU
    assert meter.watts(0) == 150
    assert [part.name for part in meter.parts] == ["fam15h_power 0000:00:10.4", "fam15h_power 0000:00:11.4"]


def test_a_counter_gives_the_mean_since_the_last_look_and_wins_over_an_instant(tmp_path: Path) -> None:
    folder = device(tmp_path, 0, name="amd_energy", energy1_input=10**15, energy1_label="Esocket0")
    device(tmp_path, 0, energy2_input=10**12, energy2_label="Ecore000", power1_input=1)
    meter = meter_under(tmp_path)
    assert meter.watts(0) is None
    write_files(folder, {"energy1_input": 10**15 + 300_000_000})
    assert meter.watts(3) == pytest.approx(100)
    write_files(folder, {"energy1_input": 5})
    assert meter.watts(6) is None
    write_files(folder, {"energy1_input": 5 + 150_000_000})
    assert meter.watts(9) == pytest.approx(50)


def test_a_machine_that_draws_nothing_is_a_sensor_that_does_not_work(tmp_path: Path) -> None:
    device(tmp_path, 0, name="corsairpsu", power1_input=0, power1_label="power total")
    meter = meter_under(tmp_path)
    assert meter.watts(0) is None
    assert meter.gap is not None
    assert "0 µW" in meter.gap.why


@pytest.mark.parametrize("nonsense", ["", "much", "99999999999999"])
def test_nonsense_is_not_passed_on(tmp_path: Path, nonsense: str) -> None:
    device(tmp_path, 0, name="corsairpsu", power1_input=nonsense, power1_label="power total")
    assert meter_under(tmp_path).watts(0) is None


def test_a_forbidden_file_is_a_gap_with_the_command_that_opens_it(tmp_path: Path) -> None:
    folder = device(tmp_path, 0, name="amd_energy", energy1_input=5, energy1_label="Esocket0")
    forbid(folder / "energy1_input")
    meter = meter_under(tmp_path)
    assert meter.gap is not None
    assert f"{folder}/energy1_input && chmod g+r {folder}/energy1_input'" in meter.gap.why
    (folder / "energy1_input").unlink()
    write_files(folder, {"energy1_input": 0})
    meter.watts(0)
    assert meter.gap is None


def test_batteries_and_the_firmwares_meter_are_left_to_their_own_meters(tmp_path: Path) -> None:
    battery = device(tmp_path, 0, name="BAT0", power1_input=9_000_000)
    (battery / "device").mkdir()
    (tmp_path / "class/power_supply").mkdir()
    (battery / "device/subsystem").symlink_to(tmp_path / "class/power_supply")
    device(tmp_path, 1, name="power_meter", power1_average=120_000_000)
    device(tmp_path, 2, name="coretemp", temp1_input=40_000)
    assert find_hwmon(tmp_path, None) == Gap(
        "hwmon", f"no sensor under {tmp_path}/class/hwmon measures power"
    )


def test_guest_gap_names_the_hypervisor(tmp_path: Path) -> None:
    gap = find_hwmon(tmp_path, "KVM")
    assert isinstance(gap, Gap)
    assert gap.why.endswith("as in most virtual machines (KVM)")

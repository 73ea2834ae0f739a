from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from powermodels.common.interface import Scope
from powermodels.meters.rapl import find_rapl, read_domains
from powermodels.meters.sensors import CounterReading, SensorMeter, watts_between
from tests.lab.powercap import Curve, Fault, Machine, PowercapTree, amd, constant, intel, steps
from wire.messages import Gap

RANGE_UJ = 262_143_328_850
RAMP = Curve(((0.0, 40.0), (60.0, 180.0), (120.0, 60.0)))


def meter_of(tree: PowercapTree) -> SensorMeter:
    meter = find_rapl(tree.sys, None)
    assert isinstance(meter, SensorMeter)
    return meter


def metered_joules(tree: PowercapTree, meter: SensorMeter, at_seconds: Iterable[float]) -> float:
    """The energy by the meter's word, over readings at these times; every interval must have one."""
    joules = 0.0
    times = [0.0, *at_seconds]
    assert meter.watts(times[0]) is None
    for earlier, later in pairwise(times):
        tree.advance(later)
        watts = meter.watts(later)
        assert watts is not None
        joules += watts * (later - earlier)
    return joules


def reason(meter: SensorMeter) -> str:
    assert meter.gap is not None
    return meter.gap.why


def every_3_seconds(until_seconds: int = 120) -> range:
    return range(3, until_seconds + 1, 3)


@pytest.mark.parametrize(
    ("machine", "counted"),
    [
        pytest.param(intel(RAMP), ["intel-rapl:0"], id="desktop: core and uncore lie inside"),
        pytest.param(
            intel(RAMP, constant(90)),
            ["intel-rapl:0", "intel-rapl:0:0", "intel-rapl:1", "intel-rapl:1:0"],
            id="two sockets with dram",
        ),
        pytest.param(
            intel(RAMP, constant(90), dies=2),
            [f"intel-rapl:{die}{dram}" for die in range(4) for dram in ("", ":0")],
            id="two dies each",
        ),
        pytest.param(intel(RAMP, psys=constant(300)), ["intel-rapl:0"], id="psys left aside"),
        pytest.param(intel(RAMP, mmio=True), ["intel-rapl:0"], id="mmio shows it twice"),
        pytest.param(amd(RAMP, constant(70)), ["intel-rapl:0", "intel-rapl:1"], id="AMD"),
    ],
)
def test_energy_is_that_of_packages_and_memory(tmp_path: Path, machine: Machine, counted: list[str]) -> None:
    tree = PowercapTree(tmp_path, machine)
    joules = metered_joules(tree, meter_of(tree), every_3_seconds())
    assert joules == pytest.approx(sum(tree.joules(zone) for zone in counted), rel=0.005)


def test_a_single_domain_wraps_while_its_neighbours_go_on(tmp_path: Path) -> None:
    tree = PowercapTree(
        tmp_path,
        intel(RAMP, constant(150)),
        registers_uj={"intel-rapl:1": RANGE_UJ - 1_000_000_000, "intel-rapl:0": 5_000_000},
    )
    joules = metered_joules(tree, meter_of(tree), every_3_seconds())
    assert int((tree.sys / "class/powercap/intel-rapl:1/energy_uj").read_text()) < RANGE_UJ / 2
    assert joules == pytest.approx(sum(map(tree.joules, tree.zones)), rel=0.005)


def test_mmio_is_used_where_it_is_all_there_is(tmp_path: Path) -> None:
    machine = {"intel-rapl-mmio": intel(RAMP, mmio=True)["intel-rapl-mmio"]}
    tree = PowercapTree(tmp_path, machine)
    joules = metered_joules(tree, meter_of(tree), every_3_seconds())
    assert joules == pytest.approx(tree.joules("intel-rapl-mmio:0"), rel=0.005)


def test_a_reset_is_a_gap_and_no_spike(tmp_path: Path) -> None:
    tree = PowercapTree(tmp_path, intel(constant(80), constant(80)), registers_uj={"intel-rapl:0": 10**10})
    meter = meter_of(tree)
    meter.watts(0)
    tree.advance(3)
    assert meter.watts(3) == pytest.approx(192, rel=0.005)
    tree.reset("intel-rapl:0")
    tree.advance(6)
    assert meter.watts(6) is None
    assert meter.gap is None
    tree.advance(9)
    assert meter.watts(9) == pytest.approx(192, rel=0.005)


@pytest.mark.parametrize("keep_registers", [True, False])
def test_after_a_long_sleep_nothing_is_made_up(tmp_path: Path, keep_registers: bool) -> None:  # noqa: FBT001 - pytest's parameter
    tree = PowercapTree(tmp_path, intel(constant(80)))
    meter = meter_of(tree)
    meter.watts(0)
    tree.suspend(8 * 3600, keep_registers=keep_registers)
    assert meter.watts(8 * 3600) is None
    tree.advance(8 * 3600 + 3)
    assert meter.watts(8 * 3600 + 3) == pytest.approx(80, rel=0.005)


def test_an_unreadable_range_costs_the_interval_of_the_wrap_only(tmp_path: Path) -> None:
    tree = PowercapTree(tmp_path, intel(constant(100)), registers_uj={"intel-rapl:0": RANGE_UJ - 450_000_000})
    tree.fail("intel-rapl:0", "max_energy_range_uj", Fault.EACCES)
    meter = meter_of(tree)
    readings = []
    for seconds in range(0, 13, 3):
        tree.advance(seconds)
        readings.append(meter.watts(seconds))
    assert readings == [None, pytest.approx(100), None, pytest.approx(100), pytest.approx(100)]


@pytest.mark.parametrize(
    ("fault", "advice"),
    [
        (Fault.EACCES, "sudo sh -c 'chgrp "),
        (Fault.EIO, "cannot be read"),
        (Fault.ENOENT, "cannot be read"),
    ],
)
def test_lost_counter_is_a_gap_and_recovers(tmp_path: Path, fault: Fault, advice: str) -> None:
    tree = PowercapTree(tmp_path, intel(constant(80), constant(60)))
    meter = meter_of(tree)
    truth = 1.2 * (80 + 60)
    meter.watts(0)
    tree.advance(3)
    assert meter.watts(3) == pytest.approx(truth, rel=0.005)
    tree.fail("intel-rapl:1:0", "energy_uj", fault)
    tree.advance(6)
    assert meter.watts(6) is None
    assert advice in reason(meter)
    tree.heal("intel-rapl:1:0", "energy_uj")
    tree.advance(9)
    assert meter.watts(9) is None
    assert meter.gap is None
    tree.advance(12)
    assert meter.watts(12) == pytest.approx(truth, rel=0.005)


def test_no_permission_from_the_start_is_a_gap_with_the_command_that_opens_it(tmp_path: Path) -> None:
    tree = PowercapTree(tmp_path, intel(constant(80)))
    tree.fail("intel-rapl:0", "energy_uj", Fault.EACCES)
    meter = meter_of(tree)
    files = f"{tree.sys}/class/powercap/intel-rapl*:*/energy_uj"
    assert f"{files} && chmod g+r {files}'" in reason(meter)
    tree.heal("intel-rapl:0", "energy_uj")
    assert metered_joules(tree, meter, every_3_seconds()) == pytest.approx(80 * 120, rel=0.005)
    assert meter.gap is None


def test_a_step_in_power_is_the_mean_of_its_interval(tmp_path: Path) -> None:
    tree = PowercapTree(tmp_path, intel(steps((0, 20), (2, 80))))
    meter = meter_of(tree)
    meter.watts(0)
    tree.advance(3)
    assert meter.watts(3) == pytest.approx(40, rel=0.005)


def test_scope_is_what_is_counted(tmp_path: Path) -> None:
    assert meter_of(PowercapTree(tmp_path / "a", amd(RAMP))).scope is Scope.CPU
    server = meter_of(PowercapTree(tmp_path / "b", intel(RAMP, RAMP)))
    assert server.scope is Scope.CPU_AND_MEMORY
    assert "package-1 dram" in server.describe()


def test_missing_zones_are_a_gap_with_a_reason(tmp_path: Path) -> None:
    assert read_domains(tmp_path) == ()
    assert find_rapl(tmp_path, "KVM") == Gap(
        "RAPL", "this is a virtual machine (KVM), which hides the CPU's energy counters"
    )
    gap = find_rapl(tmp_path, None)
    assert isinstance(gap, Gap)
    assert "modprobe intel_rapl_msr" in gap.why


def test_overlapping_zones_are_listed_and_not_added(tmp_path: Path) -> None:
    tree = PowercapTree(tmp_path, intel(constant(80), psys=constant(130)))
    meter = meter_of(tree)
    meter.watts(0)
    tree.advance(3)
    assert meter.watts(3) == pytest.approx(80, rel=0.005)
    assert {part.name: part.watts for part in meter.parts} == {
        "package-0": pytest.approx(80, rel=0.005),
        "package-0 core": pytest.approx(48, rel=0.005),
        "package-0 uncore": pytest.approx(8, rel=0.005),
        "psys": pytest.approx(130, rel=0.005),
    }
    assert [part.name for part in meter.parts if part.counted] == ["package-0"]


@pytest.mark.parametrize("zone", ["intel-rapl:1", "intel-rapl:0:0"])
def test_failed_uncounted_zone_does_not_affect_the_sum(tmp_path: Path, zone: str) -> None:
    tree = PowercapTree(tmp_path, intel(constant(80), psys=constant(130)))
    tree.fail(zone, "energy_uj", Fault.EACCES)
    meter = meter_of(tree)
    assert metered_joules(tree, meter, every_3_seconds()) == pytest.approx(80 * 120, rel=0.005)
    assert meter.gap is None


def test_while_one_socket_is_lost_the_others_go_on_by_themselves(tmp_path: Path) -> None:
    tree = PowercapTree(tmp_path, intel(constant(80), constant(60)))
    meter = meter_of(tree)
    meter.watts(0)
    tree.fail("intel-rapl:1", "energy_uj", Fault.EACCES)
    tree.advance(3)
    assert meter.watts(3) is None
    assert {part.name: part.watts for part in meter.parts} == {
        "package-0": pytest.approx(80, rel=0.005),
        "package-0 dram": pytest.approx(16, rel=0.005),
        "package-1": None,
        "package-1 dram": pytest.approx(12, rel=0.005),
    }


@given(st.integers(2 * 10**10, 2**50), st.data(), st.floats(0, 999), st.floats(0.5, 10))
def test_wherever_a_counter_stands_the_watts_are_right(
    range_uj: int, data: st.DataObject, watts: float, seconds: float
) -> None:
    start_uj = data.draw(st.integers(0, range_uj))
    end_uj = (start_uj + int(watts * seconds * 1e6)) % range_uj
    reading = watts_between(
        CounterReading(100.0, start_uj), CounterReading(100.0 + seconds, end_uj), range_uj
    )
    assert reading == pytest.approx(watts, rel=0.005, abs=0.001)


def test_an_interval_in_which_a_counter_may_wrap_twice_is_not_trusted() -> None:
    earlier = CounterReading(0.0, 5)
    assert watts_between(earlier, CounterReading(60.0, 60_000_005), 65_532_610_987) == pytest.approx(1.0)
    assert watts_between(earlier, CounterReading(70.0, 60_000_005), 65_532_610_987) is None


@given(st.integers(0, 2**50), st.integers(0, 2**50), st.floats(-10, 1e6), st.none() | st.integers(1, 2**50))
def test_no_two_readings_give_an_impossible_number(
    earlier_uj: int, later_uj: int, seconds: float, range_uj: int | None
) -> None:
    watts = watts_between(CounterReading(0.0, earlier_uj), CounterReading(seconds, later_uj), range_uj)
    assert watts is None or 0 <= watts <= 1000

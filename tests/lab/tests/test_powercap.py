import errno
import stat
import subprocess
import sys
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lab.powercap import (
    AMD_RANGE_UJ,
    INTEL_RANGE_UJ,
    SERVER_DRAM_RANGE_UJ,
    Curve,
    Fault,
    PowercapTree,
    amd,
    constant,
    intel,
    steps,
)
from tests.lab.waiting import eventually


def read(tree: PowercapTree, zone: str, file: str = "energy_uj") -> str:
    return (tree.sys / "class/powercap" / zone / file).read_text()


def energy_uj(tree: PowercapTree, zone: str) -> int:
    return int(read(tree, zone))


def listing(root: Path) -> list[str]:
    """Every entry with its mode, links with their targets; as `find` would print it."""
    lines = []
    for path in root.rglob("*"):
        where = str(path.relative_to(root))
        if path.is_symlink():
            lines.append(f"{where} -> {path.readlink()}")
        elif path.is_file():
            lines.append(f"{where} {stat.S_IMODE(path.stat().st_mode):o}")
    return sorted(lines)


# --- Curves ---------------------------------------------------------------------------------


def test_a_ramp_is_integrated_exactly() -> None:
    ramp = Curve(((10.0, 20.0), (20.0, 120.0)))
    assert ramp.watts(0) == 20
    assert ramp.watts(15) == 70
    assert ramp.watts(99) == 120
    assert ramp.joules(0, 10) == 200
    assert ramp.joules(10, 20) == 700
    assert ramp.joules(15, 25) == 5 * (70 + 120) / 2 + 600


def test_a_step_counts_on_both_sides() -> None:
    curve = steps((0.0, 10.0), (5.0, 100.0), (6.0, 30.0))
    assert [curve.watts(at) for at in (0, 4.9, 5, 5.5, 6, 60)] == [10, 10, 100, 100, 30, 30]
    assert curve.joules(0, 5) == 50
    assert curve.joules(5, 6) == 100
    assert curve.joules(4, 7) == 140


def test_a_curve_that_goes_back_in_time_is_refused() -> None:
    with pytest.raises(ValueError, match="order of time"):
        Curve(((1.0, 5.0), (0.0, 5.0)))


whole = st.integers(0, 500)
curves = st.lists(st.tuples(whole, whole), min_size=1, max_size=8).map(
    lambda points: Curve(tuple((float(at), float(watts)) for at, watts in sorted(points, key=lambda p: p[0])))
)


@given(curve=curves, times=st.lists(whole, min_size=2, max_size=6).map(sorted))
def test_energy_adds_up_over_any_cuts(curve: Curve, times: list[int]) -> None:
    parts = [curve.joules(start, end) for start, end in pairwise(times)]
    assert sum(parts) == pytest.approx(curve.joules(times[0], times[-1]), rel=1e-12)


@given(curve=curves, end=whole)
def test_energy_is_the_area_under_the_watts(curve: Curve, end: int) -> None:
    # Corners lie on whole seconds, so a line within each second has its mean in the middle.
    area = sum(Fraction(curve.watts(second + 0.5)) for second in range(end))
    assert curve.joules(0, end) == pytest.approx(float(area), rel=1e-9)


# --- Layout ---------------------------------------------------------------------------------


def device_listing(path: str, parent: str | None, constraints: int) -> list[str]:
    """What the kernel puts into one device of the class."""
    depth = "../" * (path.count("/") + 1)
    lines = [
        f"{path}/enabled 644",
        f"{path}/power/control 644",
        f"{path}/power/runtime_status 444",
        f"{path}/subsystem -> {depth}class/powercap",
        f"{path}/uevent 644",
    ]
    if parent is not None:
        lines += [
            f"{path}/device -> ../../{parent}",
            f"{path}/energy_uj 400",
            f"{path}/max_energy_range_uj 444",
            f"{path}/name 444",
        ]
    for number in range(constraints):
        lines += [
            f"{path}/constraint_{number}_max_power_uw 444",
            f"{path}/constraint_{number}_name 444",
            f"{path}/constraint_{number}_power_limit_uw 644",
            f"{path}/constraint_{number}_time_window_us 644",
        ]
    return sorted(lines)


def test_a_desktop_is_laid_out_as_the_kernel_does(tmp_path: Path) -> None:
    tree = PowercapTree(tmp_path, intel(constant(50), psys=constant(80), mmio=True))
    rapl = "devices/virtual/powercap/intel-rapl"
    mmio = "devices/virtual/powercap/intel-rapl-mmio"
    assert listing(tree.sys) == sorted(
        [
            f"class/powercap/intel-rapl -> ../../{rapl}",
            f"class/powercap/intel-rapl:0 -> ../../{rapl}/intel-rapl:0",
            f"class/powercap/intel-rapl:0:0 -> ../../{rapl}/intel-rapl:0/intel-rapl:0:0",
            f"class/powercap/intel-rapl:0:1 -> ../../{rapl}/intel-rapl:0/intel-rapl:0:1",
            f"class/powercap/intel-rapl:1 -> ../../{rapl}/intel-rapl:1",
            f"class/powercap/intel-rapl-mmio -> ../../{mmio}",
            f"class/powercap/intel-rapl-mmio:0 -> ../../{mmio}/intel-rapl-mmio:0",
            *device_listing(rapl, None, 0),
            *device_listing(f"{rapl}/intel-rapl:0", "intel-rapl", 2),
            *device_listing(f"{rapl}/intel-rapl:0/intel-rapl:0:0", "intel-rapl:0", 1),
            *device_listing(f"{rapl}/intel-rapl:0/intel-rapl:0:1", "intel-rapl:0", 1),
            *device_listing(f"{rapl}/intel-rapl:1", "intel-rapl", 2),
            *device_listing(mmio, None, 0),
            *device_listing(f"{mmio}/intel-rapl-mmio:0", "intel-rapl-mmio", 2),
        ]
    )
    for link in tree.sys.rglob("*"):
        assert link.exists(), f"{link} leads nowhere"


def names_and_ranges(tree: PowercapTree) -> dict[str, tuple[str, int]]:
    return {
        zone: (read(tree, zone, "name").strip(), int(read(tree, zone, "max_energy_range_uj")))
        for zone in tree.zones
    }


def test_two_sockets_have_dram(tmp_path: Path) -> None:
    assert names_and_ranges(PowercapTree(tmp_path, intel(constant(90), constant(70)))) == {
        "intel-rapl:0": ("package-0", INTEL_RANGE_UJ),
        "intel-rapl:0:0": ("dram", SERVER_DRAM_RANGE_UJ),
        "intel-rapl:1": ("package-1", INTEL_RANGE_UJ),
        "intel-rapl:1:0": ("dram", SERVER_DRAM_RANGE_UJ),
    }


def test_psys_comes_between_the_packages(tmp_path: Path) -> None:
    tree = PowercapTree(tmp_path, intel(constant(90), constant(70), psys=constant(300)))
    assert [read(tree, f"intel-rapl:{index}", "name") for index in range(3)] == [
        "package-0\n",
        "psys\n",
        "package-1\n",
    ]


def test_dies_are_packages_of_their_own(tmp_path: Path) -> None:
    tree = PowercapTree(tmp_path, intel(constant(100), constant(60), dies=2))
    tree.advance(10)
    assert {
        read(tree, zone, "name").strip(): tree.joules(zone) for zone in tree.zones if zone.count(":") == 1
    } == {"package-0-die-0": 500, "package-0-die-1": 500, "package-1-die-0": 300, "package-1-die-1": 300}


def test_amd_uses_the_same_tree(tmp_path: Path) -> None:
    tree = PowercapTree(tmp_path, amd(constant(90)))
    assert names_and_ranges(tree) == {
        "intel-rapl:0": ("package-0", AMD_RANGE_UJ),
        "intel-rapl:0:0": ("core", AMD_RANGE_UJ),
    }
    assert not list((tree.sys / "class/powercap/intel-rapl:0").glob("constraint_*"))


def test_ranges_are_those_seen_on_real_machines() -> None:
    assert (INTEL_RANGE_UJ, SERVER_DRAM_RANGE_UJ, AMD_RANGE_UJ) == (
        262_143_328_850,
        65_712_999_613,
        65_532_610_987,
    )


# --- Counters -------------------------------------------------------------------------------


def test_counters_follow_the_curve(tmp_path: Path) -> None:
    tree = PowercapTree(tmp_path, intel(Curve(((0.0, 10.0), (10.0, 30.0)))))
    tree.advance(5)
    assert energy_uj(tree, "intel-rapl:0") == 75_000_000
    tree.advance(20)
    assert energy_uj(tree, "intel-rapl:0") == 500_000_000
    assert tree.joules("intel-rapl:0") == 500
    assert tree.joules("intel-rapl:0:0") == pytest.approx(300)


def test_many_small_steps_lose_nothing(tmp_path: Path) -> None:
    tree = PowercapTree(tmp_path, intel(constant(1 / 3)))
    for millisecond in range(1, 301):
        tree.advance(millisecond / 1000)
    assert energy_uj(tree, "intel-rapl:0") == 100_000


def test_one_domain_wraps_alone(tmp_path: Path) -> None:
    tree = PowercapTree(
        tmp_path,
        intel(constant(100), constant(100)),
        ranges_uj={"intel-rapl:0:0": 49_999_999},
        registers_uj={"intel-rapl:0:0": 40_000_000},
    )
    assert energy_uj(tree, "intel-rapl:0:0") == 40_000_000
    assert read(tree, "intel-rapl:0:0", "max_energy_range_uj") == "49999999\n"
    tree.advance(0.499_999_95)
    assert energy_uj(tree, "intel-rapl:0:0") == 49_999_999
    tree.advance(0.5)
    assert energy_uj(tree, "intel-rapl:0:0") == 0
    tree.advance(6)
    assert energy_uj(tree, "intel-rapl:0:0") == (40_000_000 + 120_000_000) % 50_000_000
    assert energy_uj(tree, "intel-rapl:0") == 600_000_000
    assert tree.joules("intel-rapl:0:0") == 120


def test_a_reset_starts_from_zero_and_the_truth_goes_on(tmp_path: Path) -> None:
    tree = PowercapTree(tmp_path, intel(constant(10)))
    tree.advance(5)
    tree.reset("intel-rapl:0")
    assert energy_uj(tree, "intel-rapl:0") == 0
    assert energy_uj(tree, "intel-rapl:0:0") == 30_000_000
    tree.advance(6)
    assert energy_uj(tree, "intel-rapl:0") == 10_000_000
    assert tree.joules("intel-rapl:0") == 60


@pytest.mark.parametrize(("keep_registers", "shown_uj"), [(True, 80_000_000), (False, 30_000_000)])
def test_nothing_is_counted_while_suspended(tmp_path: Path, *, keep_registers: bool, shown_uj: int) -> None:
    tree = PowercapTree(tmp_path, intel(steps((0.0, 10.0), (50.0, 99.0), (60.0, 30.0))))
    tree.advance(5)
    tree.suspend(95, keep_registers=keep_registers)
    assert tree.joules("intel-rapl:0") == 50
    tree.advance(101)
    assert energy_uj(tree, "intel-rapl:0") == shown_uj
    assert tree.joules("intel-rapl:0") == 80


def test_time_does_not_go_back(tmp_path: Path) -> None:
    tree = PowercapTree(tmp_path, intel(constant(10)))
    tree.advance(5)
    with pytest.raises(ValueError, match="cannot go back"):
        tree.advance(4)


def test_settings_for_a_zone_that_is_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="intel-rapl:7"):
        PowercapTree(tmp_path, intel(constant(10)), ranges_uj={"intel-rapl:7": 5})


# --- Faults and real time -------------------------------------------------------------------


@pytest.mark.parametrize("fault", list(Fault))
@pytest.mark.parametrize("file", ["energy_uj", "max_energy_range_uj"])
def test_fault_is_real_even_for_root(tmp_path: Path, file: str, fault: Fault) -> None:
    tree = PowercapTree(tmp_path, intel(constant(10)))
    before = read(tree, "intel-rapl:0", "max_energy_range_uj")
    tree.fail("intel-rapl:0", file, fault)
    tree.advance(1)
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the number below is the point
        read(tree, "intel-rapl:0", file)
    assert caught.value.errno == getattr(errno, fault.name)
    assert energy_uj(tree, "intel-rapl:0:0") == 6_000_000
    tree.advance(2)
    tree.heal("intel-rapl:0", file)
    assert energy_uj(tree, "intel-rapl:0") == 20_000_000
    assert read(tree, "intel-rapl:0", "max_energy_range_uj") == before


def test_a_fault_may_turn_into_another(tmp_path: Path) -> None:
    tree = PowercapTree(tmp_path, intel(constant(10)))
    tree.fail("intel-rapl:0", "energy_uj", Fault.EACCES)
    tree.fail("intel-rapl:0", "energy_uj", Fault.ENOENT)
    with pytest.raises(FileNotFoundError):
        read(tree, "intel-rapl:0")
    tree.heal("intel-rapl:0", "energy_uj")
    assert energy_uj(tree, "intel-rapl:0") == 0


def test_live_follows_the_clock_it_is_given(tmp_path: Path) -> None:
    tree = PowercapTree(tmp_path, intel(constant(10)))
    tree.advance(100)
    now = 5_000.0
    with tree.live(clock=lambda: now, period_seconds=0.001):
        now += 3
        eventually(lambda: energy_uj(tree, "intel-rapl:0") == 1_030_000_000, 5)
    assert tree.joules("intel-rapl:0") == 1030


READER = """
import pathlib, sys
path = pathlib.Path(sys.argv[1])
before = int(path.read_text())
while (now := int(path.read_text())) < before + 500_000:
    assert now >= before
print("seen")
"""


def test_another_process_sees_whole_rising_numbers(tmp_path: Path) -> None:
    tree = PowercapTree(tmp_path, intel(constant(5)), registers_uj={"intel-rapl:0": 99_999_000})
    path = tree.sys / "class/powercap/intel-rapl:0/energy_uj"
    with tree.live(period_seconds=0.001):
        seen = subprocess.run(
            [sys.executable, "-c", READER, str(path)], capture_output=True, text=True, timeout=30, check=True
        )
    assert seen.stdout == "seen\n"

"""pyRAPL's way of reading against ours, on the same counters.

Its `Sensor.energy()` gives the raw counters of `intel-rapl:N` (package) and its dram zone by socket, as
`(package 0, dram 0, package 1, dram 1, ...)` in microjoules, and a measurement is the difference of two.
"""

import sys as python
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from agent.config import PowerConfig
from agent.sampling.power import PowerSampler
from powermodels.meters.rapl import find_pyrapl, find_rapl, meter_through
from powermodels.meters.sensors import SensorMeter
from tests.lab.powercap import Curve, Machine, PowercapTree, constant, intel
from wire.messages import Gap

RAMP = Curve(((0.0, 40.0), (60.0, 180.0)))
ONE_SOCKET = intel(RAMP, psys=constant(300))
TWO_SOCKETS = intel(RAMP, constant(90))


def energies(tree: PowercapTree, sockets: int) -> Sequence[float]:
    """What pyRAPL's sensor gives for this tree."""
    result = [-1.0] * (2 * sockets)
    for socket in range(sockets):
        zone = tree.sys / f"class/powercap/intel-rapl:{socket}"
        result[2 * socket] = float((zone / "energy_uj").read_text())
        dram = zone / f"intel-rapl:{socket}:0"
        if (dram / "name").read_text() == "dram\n":
            result[2 * socket + 1] = float((dram / "energy_uj").read_text())
    return result


@pytest.mark.parametrize(("machine", "sockets"), [(ONE_SOCKET, 1), (TWO_SOCKETS, 2)])
def test_both_ways_give_the_same_watts(tmp_path: Path, machine: Machine, sockets: int) -> None:
    tree = PowercapTree(tmp_path, machine)
    ours = find_rapl(tree.sys, None)
    assert isinstance(ours, SensorMeter)
    theirs = meter_through(lambda: energies(tree, sockets), tree.sys)
    for seconds in range(0, 61, 3):
        before = energies(tree, sockets)
        tree.advance(seconds)
        after = energies(tree, sockets)
        our_watts, their_watts = ours.watts(seconds), theirs.watts(seconds)
        if seconds:
            difference = sum(b - a for a, b in zip(before, after, strict=True) if a >= 0)
            assert our_watts == their_watts == pytest.approx(difference / 1e6 / 3)


def test_a_wrap_that_would_be_negative_to_pyrapl_is_put_right(tmp_path: Path) -> None:
    tree = PowercapTree(tmp_path, ONE_SOCKET, registers_uj={"intel-rapl:0": 262_143_328_850 - 60_000_000})
    meter = meter_through(lambda: energies(tree, 1), tree.sys)
    before = energies(tree, 1)
    meter.watts(0)
    tree.advance(3)
    assert energies(tree, 1)[0] < before[0]
    assert meter.watts(3) == pytest.approx(tree.joules("intel-rapl:0") / 3, rel=0.005)


def test_missing_or_failing_pyrapl_is_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(python.modules, "pyRAPL", None)
    assert find_pyrapl(tmp_path, None) == Gap("pyRAPL", "it is not installed: pip install 'wattpack[pyrapl]'")

    class CannotError(Exception):
        pass

    def refuse() -> None:
        raise CannotError("no counters")

    monkeypatch.setitem(python.modules, "pyRAPL", SimpleNamespace(Sensor=refuse, PyRAPLException=CannotError))
    gap = find_pyrapl(tmp_path, None)
    assert isinstance(gap, Gap)
    assert "no counters" in gap.why


def test_what_pyrapl_gives_is_metered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = PowercapTree(tmp_path, TWO_SOCKETS)
    sensor = SimpleNamespace(energy=lambda: energies(tree, 2))
    library = SimpleNamespace(Sensor=lambda: sensor, PyRAPLException=OSError)
    monkeypatch.setitem(python.modules, "pyRAPL", library)
    meter = find_pyrapl(tree.sys, None)
    assert isinstance(meter, SensorMeter)
    meter.watts(0)
    tree.advance(3)
    assert meter.watts(3) == pytest.approx(sum(map(tree.joules, tree.zones)) / 3, rel=0.005)


def test_the_agent_s_meter_reads_through_pyrapl_if_that_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = PowercapTree(tmp_path, TWO_SOCKETS)
    calls = []

    def read() -> Sequence[float]:
        calls.append("pyRAPL")
        return energies(tree, 2)

    library = SimpleNamespace(Sensor=lambda: SimpleNamespace(energy=read), PyRAPLException=OSError)
    monkeypatch.setitem(python.modules, "pyRAPL", library)

    def sampler(reader: str) -> PowerSampler:
        return PowerSampler(PowerConfig(rapl_reader=reader), tmp_path / "proc", tree.sys)

    assert "pyRAPL" not in [gap.what for gap in sampler("kernel").gaps]
    assert calls == []
    through = sampler("pyrapl")
    through.begin(0.0)
    assert calls
    monkeypatch.setitem(python.modules, "pyRAPL", None)
    missing = [gap for gap in sampler("pyrapl").gaps if gap.what == "pyRAPL"]
    assert [gap.why for gap in missing] == ["it is not installed: pip install 'wattpack[pyrapl]'"]

"""`wattpack power doctor`, on hosts of the lab."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.lab.powercap import Fault, PowercapTree, constant, intel
from tests.powermodels.sysfs import write_files
from wattpack.cli import main


@pytest.fixture
def tree(tmp_path: Path) -> PowercapTree:
    return PowercapTree(tmp_path / "powercap", intel(constant(80), constant(60), psys=constant(200)))


def doctor(tree: PowercapTree, *arguments: str) -> int:
    settings = ("--set", f"host.root={tree.host_root()}", "--set", "docker.socket=/nowhere/docker.sock")
    with tree.live():
        return main(["power", "doctor", *settings, *arguments])


@pytest.mark.slow
def test_doctor_shows_the_meter_in_use_with_its_parts(
    tree: PowercapTree, capsys: pytest.CaptureFixture[str]
) -> None:
    write_files(tree.sys / "class/power_supply/BAT0", {"type": "Battery", "status": "Charging"})
    assert doctor(tree) == 0
    shown = capsys.readouterr().out
    assert "✓ rapl" in shown
    assert "W  psys" in shown
    assert "✗ battery          the machine is plugged in" in shown
    assert "container names" in shown


@pytest.mark.slow
def test_doctor_prints_the_command_that_enables_a_meter(
    tree: PowercapTree, capsys: pytest.CaptureFixture[str]
) -> None:
    tree.fail("intel-rapl:0", "energy_uj", Fault.EACCES)
    assert doctor(tree) == 0
    shown = capsys.readouterr().out
    assert "✗ rapl" in shown
    (command,) = [line.strip() for line in shown.splitlines() if "sudo sh -c" in line]
    assert command.startswith("sudo sh -c 'chgrp ")
    assert command.endswith("energy_uj'")
    assert "No meter answers, so all watts are estimated by this model." in shown


@pytest.mark.slow
def test_doctor_as_json(tree: PowercapTree, capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor(tree, "--json") == 0
    findings = json.loads(capsys.readouterr().out)
    meters = {meter["name"]: meter for meter in findings["meters"]}
    assert findings["measured"]
    assert meters["rapl"]["state"] == "used"
    assert meters["rapl"]["watts"] == pytest.approx(168, rel=0.2)
    assert meters["rapl"]["parts"].keys() == {
        "package-0",
        "package-0 dram",
        "package-1",
        "package-1 dram",
        "psys",
    }
    assert {"ACPI power meter", "hwmon", "battery", "IPMI"} <= meters.keys()
    assert meters["battery"] == {
        "name": "battery",
        "state": "absent",
        "reason": "this machine has no battery",
    }
    assert findings["model"]
    assert any(gap["what"] == "container names" for gap in findings["missing"])


@pytest.mark.slow
def test_doctor_compares_with_pyrapl(
    tree: PowercapTree, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    zones = [tree.sys / f"class/powercap/intel-rapl:{name}/energy_uj" for name in ("0", "0:0", "2", "2:0")]
    sensor = SimpleNamespace(energy=lambda: [float(zone.read_text()) for zone in zones])
    monkeypatch.setitem(
        sys.modules, "pyRAPL", SimpleNamespace(Sensor=lambda: sensor, PyRAPLException=RuntimeError)
    )
    assert doctor(tree) == 0
    assert "it agrees with our reading of the same counters" in capsys.readouterr().out

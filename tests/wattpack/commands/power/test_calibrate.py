"""`wattpack power calibrate`, on this machine's real load and a meter of the lab."""

import json
from pathlib import Path
from statistics import fmean

import psutil
import pytest

from powermodels.estimator import Estimator
from powermodels.models.stored import load
from tests.lab.powercap import PowercapTree, constant, intel
from tests.processes import wattpack
from wattpack.cli import main
from wire.messages import PowerSource

RECORDING = "workload,timestamp,watts,cpu_idle\n" + "".join(
    f"{'web' if number % 2 else 'batch'},{10 * number},{100 + number},{100 - number}\n"
    for number in range(80)
)


def test_calibrate_without_a_meter_names_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "state/model.json"
    (tmp_path / "proc").symlink_to("/proc")
    assert main(["power", "calibrate", "--set", f"host.root={tmp_path}", "--out", str(out)]) == 2
    output = capsys.readouterr().err
    assert output.count("\n") == 1
    assert "no power meter answers on this host" in output
    assert "'wattpack power doctor'" in output
    assert "--from FILE" in output
    assert not out.parent.exists()


@pytest.mark.slow
def test_calibrate_fits_a_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.csv").write_text(RECORDING)
    out = tmp_path / "model.json"
    arguments = [
        "power",
        "calibrate",
        "--from",
        str(tmp_path / "run.csv"),
        "--out",
        str(out),
        "--kind",
        "linear",
    ]
    assert main([*arguments, "--recorded-here"]) == 0
    shown = capsys.readouterr().out
    assert "restart the agent to use it" in shown
    assert "█ model" in shown
    assert "error " in shown
    assert load(out).origin.training.samples == 80


@pytest.mark.slow
def test_foreign_recording_is_no_model_of_this_host(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.csv").write_text(RECORDING)
    foreign = ["power", "calibrate", "--from", str(tmp_path / "run.csv"), "--kind", "linear"]
    assert main(foreign) == 2
    assert "add --recorded-here if it is" in capsys.readouterr().err
    out = tmp_path / "model.json"
    assert main([*foreign, "--out", str(out)]) == 0
    assert "the agent does not use it" in capsys.readouterr().out
    estimator = Estimator.for_host(Path("/proc"), Path("/sys"), model_path=out)
    assert estimator.model.source is PowerSource.PRIOR
    assert any("is the model of another machine" in gap.why for gap in estimator.gaps)


def test_calibrate_checks_the_output_file_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.csv").write_text(RECORDING)
    (tmp_path / "file").write_text("in the way")
    arguments = [
        "power",
        "calibrate",
        "--from",
        str(tmp_path / "run.csv"),
        "--out",
        str(tmp_path / "file/model.json"),
    ]
    assert main(arguments) == 2
    assert "choose another file with --out" in capsys.readouterr().err


@pytest.mark.lab
@pytest.mark.slow
def test_calibrate_ramp_with_a_live_meter(tmp_path: Path) -> None:
    tree = PowercapTree(tmp_path / "powercap", intel(constant(80)))
    out = tmp_path / "state/model.json"
    with tree.live():
        ended = wattpack(
            "power",
            "calibrate",
            "--set",
            f"host.root={tree.host_root()}",
            "--out",
            str(out),
            "--minutes",
            "0.2",
        ).run(timeout_seconds=240)
    assert ended.returncode == 0, ended.stderr
    assert "all cores at 50 %" in ended.stdout
    recorded = [
        json.loads(line) for line in (tmp_path / "state/model.recording.jsonl").read_text().splitlines()
    ]
    head, samples = recorded[0], recorded[1:]
    assert head["metered"] == "CPU"
    assert {sample["group"] for sample in samples} >= {"idle", "all cores", "memory", "disk", "idle again"}
    # The lab's meter moves in steps: one short sample may be off, all together are not.
    assert fmean(sample["watts"] for sample in samples) == pytest.approx(80, rel=0.05)
    by_group = {
        group: max(sample["load"]["cpu_ratio"] for sample in samples if sample["group"] == group)
        for group in ("idle again", "all cores")
    }
    assert by_group["all cores"] > 0.5, "the load is really made"
    model = load(out)
    assert model.origin.metered == "CPU"
    burners = [each for each in psutil.process_iter(["cmdline"]) if _is_burner(each)]
    assert not burners


def _is_burner(process: psutil.Process) -> bool:
    return "powermodels.calibration.burner" in (process.info["cmdline"] or ())

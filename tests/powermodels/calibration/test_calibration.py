import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from math import sqrt
from pathlib import Path

import pytest

from powermodels.calibration.drive import (
    Drive,
    LoadLimits,
    burners,
    burning,
    busy_cores,
    ramp,
)
from powermodels.calibration.plot import text_plot
from powermodels.calibration.recording import (
    CalibrationRecording,
    RecordingHeader,
    read_recording,
    write_recording,
)
from powermodels.common.interface import Load
from powermodels.learning.refit import fit_and_wait
from powermodels.meters.rapl import find_rapl
from powermodels.meters.sensors import SensorMeter
from powermodels.models.samples import Sample
from tests.lab.powercap import PowercapTree, constant, intel
from wire.errors import UserError
from wire.resources import Quantities

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
HEAD = RecordingHeader(host="here", meter="RAPL", metered="CPU", scaling=Quantities(cpu_cores=2.0), made=NOW)


def watts_at(load: Load) -> float:
    return 30 + 40 * load.cpu_ratio + 20 * sqrt(load.cpu_ratio)


def samples() -> tuple[Sample, ...]:
    loads = [Load(step / 20, 0.3) for step in range(21)]
    return tuple(
        Sample(1.0 * number, watts_at(load), load, f"phase {number // 3}")
        for number, load in enumerate(loads)
    )


class World:
    """A host at half load with a meter at 75 W, on a simulated clock."""

    def __init__(self, folder: Path) -> None:
        self.seconds = 0.0
        self.tree = PowercapTree(folder, intel(constant(75)))
        meter = find_rapl(self.tree.sys, None)
        assert isinstance(meter, SensorMeter)
        self.meter = meter

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        self.tree.advance(self.seconds)

    def read_load(self) -> tuple[float, Load]:
        return self.seconds, Load(0.5, 0.2)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_plan_has_the_requested_length_and_starts_and_ends_idle() -> None:
    plan = ramp(5, 0.0)
    assert plan.seconds == pytest.approx(300)
    assert plan.sample_seconds == 1
    assert plan.phases[0].cores_ratio == plan.phases[-1].cores_ratio == 0
    assert any(phase.memory for phase in plan.phases)
    assert any(phase.disk for phase in plan.phases)
    assert max(phase.cores_ratio * phase.duty_ratio for phase in plan.phases) == 1


@pytest.mark.parametrize(("minutes", "period"), [(5, 10.0), (0.1, 0.0), (60, 0.0), (0.1, 60.0)])
def test_every_phase_has_room_for_a_few_samples(minutes: float, period: float) -> None:
    plan = ramp(minutes, period)
    assert plan.sample_seconds >= period
    assert (plan.phase_seconds - plan.settle_seconds) / plan.sample_seconds >= 3.9
    assert plan.seconds >= 60 * minutes - 1e-9


def test_a_phase_puts_at_least_one_core_to_work() -> None:
    counts = {phase.name: busy_cores(phase, 4) for phase in ramp(1, 0.0).phases}
    assert counts["idle"] == counts["memory"] == 0
    assert counts["one core"] == 1
    assert counts["half of the cores"] == 2
    assert counts["all cores"] == 4


def test_a_run_measures_every_phase_and_leaves_out_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[list[tuple[str, str]]] = []
    monkeypatch.setattr("powermodels.calibration.drive.subprocess.Popen", _recording_popen(made))
    world = World(tmp_path)
    plan = ramp(2, 0.0)
    done: list[float] = []
    drive = Drive(world.meter, world.read_load, LoadLimits(2, 4096, tmp_path), world.sleep)
    taken = drive.run(plan, lambda _phase, ratio, _watts: done.append(ratio))
    assert {sample.group for sample in taken} == {phase.name for phase in plan.phases}
    assert all(sample.watts == pytest.approx(75, rel=0.005) for sample in taken)
    of_one = [sample for sample in taken if sample.group == "idle"]
    assert len(of_one) == (plan.phase_seconds - plan.settle_seconds) / plan.sample_seconds
    assert done[-1] == 1
    assert done == sorted(done)
    kinds = [arguments[0] for arguments in made[0]]
    assert kinds.count("memory") == kinds.count("disk") == 2


def _recording_popen(made: list[list[tuple[str, str]]]) -> Callable[..., object]:
    made.append([])

    class Idle:
        stdin = None

        def __init__(self, command: tuple[str, ...], **_: object) -> None:
            made[0].append((command[-2], command[-1]))

        def kill(self) -> None:
            pass

        def wait(self, _: float) -> None:
            pass

    return Idle


@pytest.mark.slow
def test_burners_burn_and_end_with_the_block(tmp_path: Path) -> None:
    phase = next(phase for phase in ramp(1, 0.0).phases if phase.memory and phase.disk and phase.cores_ratio)
    limits = LoadLimits(cores=2, memory_bytes=8 << 20, folder=tmp_path)
    kinds = [kind for kind, _ in burners(phase, limits)]
    assert kinds == ["cpu", "memory", "disk"]
    with burning(burners(phase, limits)) as started:
        pids = [burner.pid for burner in started]
        assert all(alive(pid) for pid in pids)
        for pid in pids:
            _wait_for_cpu_time(pid)
    assert not any(alive(pid) for pid in pids)
    assert not list(tmp_path.iterdir()), "what was written has no name"


def _wait_for_cpu_time(pid: int) -> None:
    """A burner does something: until then this does not return."""
    while True:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        if int(fields[11]) + int(fields[12]) > 10:
            return


PARENT = """
import sys
from pathlib import Path
from powermodels.calibration.drive import burning
with burning(iter([("cpu", "0.1"), ("cpu", "0.1")])) as started:
    print(*(burner.pid for burner in started), flush=True)
    sys.stdin.read()
"""


def test_burners_end_when_their_parent_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        watches = [os.pidfd_open(int(text)) for text in parent.stdout.readline().split()]
        os.kill(parent.pid, signal.SIGKILL)
    for watch in watches:
        ended, _, _ = select.select([watch], [], [], 10)
        os.close(watch)
        assert ended


def test_a_recording_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "deep/run.jsonl"
    write_recording(path, CalibrationRecording(HEAD, samples()))
    read = read_recording(path, NOW)
    assert read == CalibrationRecording(HEAD, samples())
    request = read.request("linear")
    assert (request.host, request.metered, request.kind) == ("here", "CPU", "linear")


def test_csv_recording_is_of_an_unknown_machine(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text("workload,timestamp,watts,cpu_idle\nweb,10,150,40\n")
    read = read_recording(path, NOW)
    assert read.head.host == "unknown"
    assert read.of_host("this one").request("linear").host == "this one"
    assert read.samples[0].load.cpu_ratio == pytest.approx(0.6)


@pytest.mark.parametrize("text", ["", "{}", '{"version": 1}\n', "no JSON\n{}"])
def test_what_is_no_recording_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(text)
    with pytest.raises(UserError, match=r"run\.jsonl is not a recording"):
        read_recording(path, NOW)
    with pytest.raises(UserError, match="cannot read"):
        read_recording(tmp_path / "none.jsonl", NOW)


def test_unwritable_recording_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match="choose another path"):
        write_recording(tmp_path / "file/run.jsonl", CalibrationRecording(HEAD, samples()))


@pytest.mark.slow
def test_fit_to_a_recording_and_its_plot() -> None:
    recorded = CalibrationRecording(HEAD, samples())
    model = fit_and_wait(recorded.request("curve"))
    assert model.terms(Load(0.33)).watts == pytest.approx(watts_at(Load(0.33)), rel=0.02)
    lines = text_plot(recorded.samples, model)
    assert max(map(len, lines)) <= 72
    assert any("█" in line for line in lines)

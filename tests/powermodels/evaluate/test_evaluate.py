import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from bench.power.prior import cores_exponent_errors, evaluate_prior, table_without
from bench.power.published_curves import CURVES
from bench.power.report import AccuracyReport, main, page
from powermodels.common.interface import Load
from powermodels.evaluate.contenders import BASELINES, MODELS, Contender
from powermodels.evaluate.run import Score, blind20, evaluate, mean_score, metered, score, unseen
from powermodels.models.prior import CORES_EXPONENT, GENERATIONS
from powermodels.models.published_machines import MACHINES
from powermodels.models.samples import Sample
from tests.powermodels.fits import metered as metered_samples
from wattpack.cli import main as wattpack

DOCS = Path(__file__).parents[3] / "docs"


def test_scores_of_known_errors() -> None:
    got = score([100.0, 200.0, 200.0, 100.0], [110.0, 190.0, 200.0, 100.0], 200.0)
    assert got == Score(mape=3.75, mae=5.0, p95=10.0, dynamic_range=3.54)
    assert mean_score([got, Score(0.25, 1.0, 0.0, 0.46)]) == Score(2.0, 3.0, 5.0, 2.0)


class Spy:
    """Records the order of observations and predictions."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def make(self, others: Sequence[Sample], first: Sequence[Sample]) -> Contender:
        self.calls.append(f"created {len(others)} {len(first)}")
        return self

    def observe(self, sample: Sample) -> None:
        self.calls.append(f"learned {sample.watts:.0f}")

    def blind_watts(self, load: Load) -> float:
        self.calls.append(f"predicted {load.cpu_ratio}")
        return 0.0

    next_watts = blind_watts


OTHERS = [Sample(0.0, 100.0, Load(0.0))] * 3
WORKLOAD = [Sample(float(index), 100.0 + index, Load(index / 10)) for index in range(5)]


def test_unseen_protocol_never_shows_watts_to_the_model() -> None:
    spy = Spy()
    predictions = unseen(spy.make, OTHERS, WORKLOAD)
    assert spy.calls == [
        "created 3 0",
        "predicted 0.0",
        "predicted 0.1",
        "predicted 0.2",
        "predicted 0.3",
        "predicted 0.4",
    ]
    assert [measured for measured, _ in predictions] == [100, 101, 102, 103, 104]


def test_blind20_learns_from_the_first_fifth_and_predicts_the_rest() -> None:
    spy = Spy()
    predictions = blind20(spy.make, OTHERS, WORKLOAD)
    assert spy.calls == [
        "created 3 1",
        "learned 100",
        "predicted 0.1",
        "predicted 0.2",
        "predicted 0.3",
        "predicted 0.4",
    ]
    assert len(predictions) == 4


def test_metered_protocol_predicts_before_it_learns() -> None:
    spy = Spy()
    metered(spy.make, OTHERS, WORKLOAD[:3])
    assert spy.calls == [
        "created 3 0",
        "learned 100",
        "predicted 0.1",
        "learned 101",
        "predicted 0.2",
        "learned 102",
    ]


@pytest.fixture
def recordings(tmp_path: Path) -> list[Path]:
    """Two small machines of four workloads, with known power and a little noise."""
    paths = []
    for machine in range(2):
        lines = ["workload,timestamp,watts,cpu_idle,cpu_wio,bytes_read,bytes_in"]
        for seed, workload in enumerate(("micro_disk", "web", "batch", "cache")):
            samples = metered_samples(60, workload, seed=10 * machine + seed, noise_ratio=0.02)
            lines += [
                f"{s.group},{s.seconds},{s.watts},{100 - 100 * s.load.cpu_ratio},0,"
                f"{(s.load.disk_ratio or 0.0) * 1e9},{(s.load.network_ratio or 0.0) * 2.5e9}"
                for s in samples
            ]
        path = tmp_path / f"machine{machine}.csv"
        path.write_text("\n".join(lines))
        paths.append(path)
    return paths


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["unseen", "blind20"])
def test_our_model_finds_a_machine_of_its_own_kind(recordings: list[Path], protocol: str) -> None:
    evaluation = evaluate(recordings, protocol)
    assert evaluation.mean.mape < 1.5
    assert evaluation.outside_bounds == 0
    for result in evaluation.files.values():
        assert (result.stated is not None) == (protocol == "unseen")
    for baseline in ("two-point line", "least squares on utilisation", "cubic TDP formula", "persistence"):
        assert evaluation.baselines[baseline].mean.mape > 2 * evaluation.mean.mape


@pytest.mark.slow
def test_the_command_prints_the_agreed_json(
    recordings: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert wattpack(["power", "evaluate", *map(str, recordings), "--protocol", "metered", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert list(printed["files"]) == ["machine0", "machine1"]
    workloads = printed["files"]["machine0"]["workloads"]
    assert list(workloads) == ["micro_disk", "web", "batch", "cache"]
    assert set(workloads["web"]) == {"mape", "mae", "p95", "dynamic_range"}
    real = [workloads[name]["mape"] for name in ("web", "batch", "cache")]
    assert printed["files"]["machine0"]["mean"]["mape"] == pytest.approx(sum(real) / 3, abs=0.01)
    of_files = [printed["files"][name]["mean"]["mape"] for name in printed["files"]]
    assert printed["mean"]["mape"] == pytest.approx(sum(of_files) / 2, abs=0.01)
    assert set(printed["baselines"]) == set(BASELINES)


@pytest.mark.slow
def test_every_model_can_be_evaluated(recordings: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    for model in MODELS:
        assert (
            wattpack(["power", "evaluate", str(recordings[0]), "--protocol", "blind20", "--model", model])
            == 0
        )
        assert f"{model}, mean of all machines" in capsys.readouterr().out


def test_recordings_that_cannot_be_evaluated_are_errors(
    recordings: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    single = tmp_path / "single.csv"
    single.write_text("workload,timestamp,watts,cpu_idle\n" + "web,1,100,50\n" * 20)
    for files, message in (
        ([single], "needs at least two workloads of 10 samples or more"),
        ([recordings[0], recordings[0]], "two recordings are called machine0"),
    ):
        assert wattpack(["power", "evaluate", *map(str, files), "--protocol", "unseen"]) == 2
        assert message in capsys.readouterr().err


def test_page_is_generated_from_its_numbers() -> None:
    stored = msgspec.json.decode((DOCS / "power-accuracy.json").read_bytes(), type=AccuracyReport)
    assert (DOCS / "power-accuracy.md").read_text(encoding="utf-8") == page(stored)


def test_the_page_s_prior_is_the_present_one() -> None:
    stored = msgspec.json.decode((DOCS / "power-accuracy.json").read_bytes(), type=AccuracyReport)
    assert stored.prior == evaluate_prior()


@pytest.mark.slow
def test_a_report_is_written_from_recordings(recordings: list[Path], tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    assert main([str(folder), *map(str, recordings)]) == 0
    stored = msgspec.json.decode((folder / "power-accuracy.json").read_bytes(), type=AccuracyReport)
    assert (folder / "power-accuracy.md").read_text(encoding="utf-8") == page(stored)
    assert list(stored.protocols) == ["unseen", "blind20", "metered"]
    assert main([str(folder)]) == 2
    assert main([str(folder), str(tmp_path / "none.csv")]) == 2


def test_the_prior_keeps_its_bound_on_machines_left_out_of_its_table() -> None:
    result = evaluate_prior()
    assert result.mean <= 15
    assert result.mean < result.straight_line < result.cubic


def test_evaluated_machine_is_left_out_of_the_table() -> None:
    for curve in CURVES:
        rows = [machine for machines in MACHINES.values() for machine in machines]
        left = [machine for machines in table_without(curve.source).values() for machine in machines]
        assert len(rows) == len(left) + 1
        row = next(machine for machine in rows if machine.source == curve.source)
        assert (row.idle_watts, row.max_watts) == (curve.watts[0], curve.watts[-1])
        assert (row.sockets, row.cores) == (curve.facts.sockets, curve.facts.cores)


def test_every_generation_has_machines_and_every_machine_a_generation() -> None:
    assert {generation.name for generation in GENERATIONS} == set(MACHINES)
    assert all(MACHINES.values())


def test_the_exponent_of_cores_is_close_to_the_best() -> None:
    errors = cores_exponent_errors((0.0, 0.5, 0.6, CORES_EXPONENT, 0.7, 0.8, 1.0))
    assert errors[CORES_EXPONENT] <= min(errors.values()) + 0.5

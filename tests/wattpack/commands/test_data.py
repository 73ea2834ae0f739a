"""`wattpack data`, and commands with data sets: what is here, and what is not."""

import json
import shutil
from pathlib import Path

import pytest

from powermodels.fit.arrays import by_group
from powermodels.fit.recording import read_recording
from replay.sources import FORMATS, read_trace
from tests.samples import write_sample
from wattpack.cli import main
from wattpack.datasets.catalogue import DATASETS, RECORDING, require
from wattpack.datasets.traces import trace_file

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def nothing_is_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("WATTPACK_DATA", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(name="sample", scope="module")
def write_one_sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "sample"
    write_sample(folder)
    return folder


@pytest.fixture
def hosts(tmp_path: Path) -> Path:
    """The hosts of the PlanetLab scenarios, but few of them: a sample has few machines."""
    text = (ROOT / "scenarios" / "planetlab-hosts.toml").read_text(encoding="utf-8")
    file = tmp_path / "planetlab-hosts.toml"
    file.write_text(text.replace("count = 400", "count = 20"), encoding="utf-8")
    return file


@pytest.mark.slow
def test_it_lists_every_set_with_its_terms_and_where_it_is(
    sample: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "--data", str(sample)]) == 0
    shown = capsys.readouterr().out
    for each in DATASETS.values():
        assert each.name in shown
        assert each.source.licence in shown
        assert each.source.url in shown
        assert all(command in shown for command in each.used_by)
    assert f"  present\n      at {sample / 'planetlab/20110303'}\n" in shown
    assert "  absent\n      put it at" in shown  # what CloudSim gave cannot be generated


@pytest.mark.slow
def test_json_lists_the_same(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "--data", str(sample), "--json"]) == 0
    sets = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
    assert set(sets) == set(DATASETS)
    assert sets["planetlab-20110303"]["path"] == str(sample / "planetlab" / "20110303")
    assert sets["planetlab-cloudsim-reference"]["path"] is None


@pytest.mark.slow
@pytest.mark.parametrize("name", [each.name for each in DATASETS.values() if each.format in FORMATS])
def test_every_trace_has_a_sample_that_its_reader_takes(sample: Path, name: str) -> None:
    found = require(name, [sample])
    workload = read_trace(trace_file(found), ())
    assert found.is_published
    assert workload.size > 1
    assert workload.duration_seconds >= 3600


@pytest.mark.slow
@pytest.mark.parametrize("name", [each.name for each in DATASETS.values() if each.format == RECORDING])
def test_every_machine_has_a_sample_that_can_be_evaluated(sample: Path, name: str) -> None:
    workloads = by_group(read_recording(require(name, [sample]).path).samples)
    assert {"micro_disk", "data_caching"} <= set(workloads)
    assert all(len(samples) >= 10 for samples in workloads.values())


@pytest.mark.slow
def test_replay_of_a_scenario_takes_its_data_set_from_the_folder(
    sample: Path, hosts: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = shutil.copy(ROOT / "scenarios" / "planetlab-20110309.toml", hosts.parent)
    monkeypatch.setenv("WATTPACK_DATA", str(sample))
    assert main(["replay", str(scenario), "--policies", "first-fit", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["policies"]["first-fit"]["placed"] == 60


@pytest.mark.slow
def test_replay_takes_a_data_set_for_a_trace(
    sample: Path, hosts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--hosts", str(hosts), "--policies", "first-fit", "--data", str(sample), "--json"]
    assert main(["replay", "--trace", "planetlab-20110303", *arguments]) == 0
    assert json.loads(capsys.readouterr().out)["policies"]["first-fit"]["placed"] == 60


def test_absent_data_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(ROOT / "scenarios" / "planetlab-20110303.toml")]) == 2
    assert main(["power", "evaluate", "--protocol", "unseen"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[2].split(" is not installed")[0] for line in lines] == [
        " the data set planetlab-20110303",
        " the data set opteron-6140",
    ]
    assert all("put it at data/" in line for line in lines)


def test_evaluate_takes_a_name_and_refuses_an_unknown_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["power", "evaluate", "nothing.csv", "--protocol", "unseen"]) == 2
    assert "no recording nothing.csv" in capsys.readouterr().err


@pytest.mark.slow
def test_evaluate_reads_every_installed_machine(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["power", "evaluate", "--protocol", "unseen", "--data", str(sample), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["files"]) == 5

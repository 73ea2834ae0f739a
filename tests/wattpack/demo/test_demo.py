"""`wattpack demo` as a person runs it."""

import json
import re
import signal
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.lab.waiting import eventually
from tests.processes import free_port, wattpack
from wattpack.cli import main

SMALL = ("--port", "0", "--nodes", "8", "--containers", "60", "--days", "2")


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=20) as answer:  # noqa: S310 - loopback, our own
        return json.loads(answer.read())


@pytest.mark.slow
def test_a_demo_shows_a_cluster_with_a_past_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with wattpack("demo", *SMALL).running() as process:
        assert process.stdout is not None
        output = ""
        while "Ctrl-C" not in output:
            line = process.stdout.readline()
            assert line, output
            output += line
        found = re.search(r"page +(http://\S+)", output)
        assert found is not None, output
        url = found[1]
        nodes = get(f"{url}/v1/nodes")["nodes"]
        assert [each["state"] for each in nodes].count("up") == 7
        assert {each["state"] for each in nodes} == {"up", "down"}
        assert sum(each["joules"] for each in get(f"{url}/v1/energy?by=day")["accounts"]) > 1e6
        decisions = eventually(
            lambda: [each for each in get(f"{url}/v1/decisions")["decisions"] if each["outcome"] == "done"],
            60,
        )
        assert decisions[0]["driver"] == "demo"
        assert {each["state"] for each in decisions[0]["steps"]} == {"verified"}
        alerts = get(f"{url}/v1/alerts?state=open")["alerts"]
        assert {"node", "quiet"} <= {each["kind"] for each in alerts}
        assert list(tmp_path.iterdir())
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_demo_keeps_its_history_only_in_an_empty_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "kept"
    with wattpack("demo", *SMALL, "--keep", str(folder)).running() as process:
        assert process.stdout is not None
        assert any("Ctrl-C" in line for line in iter(process.stdout.readline, ""))
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert (folder / "collector.db").exists()
    assert main(["demo", *SMALL, "--keep", str(folder)]) == 2
    assert capsys.readouterr().err == (
        f"wattpack: --keep {folder}: name an empty directory, or one that does not exist yet\n"
    )
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "notes").touch()
    assert main(["demo", *SMALL, "--keep", str(taken)]) == 2
    assert [each.name for each in taken.iterdir()] == ["notes"]


@pytest.mark.slow
def test_a_port_in_use_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with free_port() as (port, _):
        done = wattpack("demo", "--port", str(port), "--keep", str(tmp_path / "kept")).run()
    assert done.returncode == 2
    assert done.stderr.startswith(f"wattpack: port {port} is in use: ")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--nodes", "0"), "--nodes 0: use a number from 1 to 1000"),
        (("--containers", "50001"), "--containers 50001: use a number from 1 to 50000"),
        (("--days", "-1"), "--days -1: use a number from 0 to 366"),
        (("--port", "70000"), "--port 70000: use a number from 0 to 65535"),
    ],
)
def test_a_size_that_is_not_possible_is_refused_in_one_sentence(
    options: tuple[str, str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", *options]) == 2
    assert capsys.readouterr().err == f"wattpack: {sentence}\n"

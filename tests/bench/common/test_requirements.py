"""The needs of a benchmark are checked before it starts; missing ones are left out and listed."""

import io
import json
from pathlib import Path

import pytest

from bench.__main__ import main
from bench.common import requirements
from bench.common.progress import Progress
from bench.common.requirements import Need, check
from wire.errors import UserError

COMPARES = """
from bench.common.results import Figure, Result
from bench.common.requirements import Need, is_left_out
def add_arguments(parser): pass
def needs(options): return [Need("peer", lambda: "peer is not installed", "peer")]
def run(options, progress):
    figures = [Figure(name="ours", value=1, unit="")]
    if not is_left_out(options, "peer"):
        figures.append(Figure(name="theirs", value=2, unit=""))
    return Result(tuple(figures))
"""


@pytest.fixture(autouse=True)
def nothing_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "install_packages", lambda _: None)


def test_missing_peer_leaves_its_comparison_out_and_is_reported_first_and_in_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bench_compares.py").write_text(COMPARES)
    monkeypatch.syspath_prepend(tmp_path)
    output = io.StringIO()
    assert main(["compares"], {"compares": ("bench_compares", "Compares.")}, Progress(output)) == 0
    assert "compares: left out: peer: peer is not installed" in output.getvalue()
    result = json.loads(capsys.readouterr().out)
    assert list(result["figures"]) == ["ours"]
    assert result["left_out"] == {"peer": "peer is not installed"}


def test_a_benchmark_does_not_start_without_its_requirements() -> None:
    with pytest.raises(UserError, match="engine: needs root; disk: is full"):
        check([Need("engine", lambda: "needs root"), Need("disk", lambda: "is full")], print)


def test_missing_packages_are_installed_first(monkeypatch: pytest.MonkeyPatch) -> None:
    installed: list[str] = []
    monkeypatch.setattr(requirements, "install_packages", installed.extend)
    need = Need("peer", lambda: None if installed else "absent", "peer", ("peer-core", "peer-plugins"))
    assert check([need], print) == {}
    assert installed == ["peer-core", "peer-plugins"]


def test_an_installation_that_fails_leaves_the_comparison_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: object) -> None:
        raise UserError("no mirror: see to it")

    monkeypatch.setattr(requirements, "install_packages", fails)
    output: list[str] = []
    assert check([Need("peer", lambda: "absent", "peer", ("peer",))], output.append) == {"peer": "absent"}
    assert output == ["not installed: no mirror: see to it", "left out: peer: absent"]

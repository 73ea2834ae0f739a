import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.__main__ import main
from bench.common.progress import Progress

Benchmarks = dict[str, tuple[str, str]]

GOOD = """
from bench.common.results import Figure, Result
def add_arguments(parser): parser.add_argument("--size", type=int, default=3)
def run(options, progress):
    print("noise")
    return Result((Figure(name="size", value=options.size, unit="", at_most=5),), {"size": options.size})
"""
LACKING = """
from wire.errors import UserError
def add_arguments(parser): pass
def run(options, progress): raise UserError("no engine here: install it")
"""


@pytest.fixture
def benchmarks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Benchmarks:
    (tmp_path / "bench_good.py").write_text(GOOD)
    (tmp_path / "bench_bad.py").write_text(GOOD.replace("default=3", "default=7"))
    (tmp_path / "bench_lacking.py").write_text(LACKING)
    monkeypatch.syspath_prepend(tmp_path)
    return {name: (f"bench_{name}", f"A {name} one.") for name in ("good", "bad", "lacking")}


def test_the_list_has_a_line_per_benchmark_and_imports_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([], {"one": ("no.such.module", "Does one."), "eleven": ("nor.this", "Does more.")}) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["one     Does one.", "eleven  Does more."]
    assert lines[2].startswith("all ")


def test_stdout_gets_one_json_object_only(benchmarks: Benchmarks, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["good", "--size", "4"], benchmarks, Progress(io.StringIO())) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {
        "benchmark": "good",
        "settings": {"size": 4},
        "figures": {"size": {"value": 4, "unit": "", "bound": {"at_most": 5}, "ok": True}},
        "left_out": {},
        "ok": True,
    }
    assert captured.err == "noise\n"


def test_on_a_terminal_json_is_printed_only_if_requested(
    benchmarks: Benchmarks, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    output = io.StringIO()
    assert main(["good"], benchmarks, Progress(output)) == 0
    assert capsys.readouterr().out == ""
    assert "size        3  at most 5  ok" in output.getvalue()
    assert main(["good", "--json"], benchmarks, Progress(io.StringIO())) == 0
    assert json.loads(capsys.readouterr().out)["benchmark"] == "good"
    assert main(["all", "--json"], benchmarks, Progress(io.StringIO())) == 2
    assert json.loads(capsys.readouterr().out)["benchmarks"]["good"]["ok"]


def test_a_missed_bound_is_status_1(benchmarks: Benchmarks, capsys: pytest.CaptureFixture[str]) -> None:
    output = io.StringIO()
    assert main(["bad"], benchmarks, Progress(output)) == 1
    assert json.loads(capsys.readouterr().out)["ok"] is False
    assert "bad: 1 bound missed\n" in output.getvalue()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["goood"], "bench: there is no benchmark 'goood': did you mean good?\n"),
        (["zzz"], "bench: there is no benchmark 'zzz': ./dev bench lists all benchmarks\n"),
        (["lacking"], "bench: no engine here: install it\n"),
        (
            ["good", "--size", "x"],
            "bench: argument --size: invalid int value: 'x': see ./dev bench good --help\n",
        ),
        (
            ["all", "--size", "4"],
            "bench: all takes no options: leave out --size 4, or run one benchmark with them\n",
        ),
    ],
)
def test_an_error_is_status_2_and_one_sentence(
    benchmarks: Benchmarks, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    assert main(arguments, benchmarks, Progress(io.StringIO())) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", sentence)


def test_all_runs_what_it_can_and_lists_the_rest(
    benchmarks: Benchmarks, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["all"], benchmarks, Progress(io.StringIO())) == 2
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is False
    assert {name: entry["ok"] for name, entry in report["benchmarks"].items()} == {
        "good": True,
        "bad": False,
        "lacking": False,
    }
    assert report["benchmarks"]["lacking"]["not_run"] == "no engine here: install it"


@pytest.mark.parametrize(("chosen", "status"), [({"good"}, 0), ({"good", "bad"}, 1)])
def test_the_status_of_all_is_that_of_the_worst(
    benchmarks: Benchmarks, capsys: pytest.CaptureFixture[str], chosen: set[str], status: int
) -> None:
    few = {name: entry for name, entry in benchmarks.items() if name in chosen}
    assert main(["all"], few, Progress(io.StringIO())) == status
    assert json.loads(capsys.readouterr().out)["ok"] is (status == 0)


def test_the_real_command_lists() -> None:
    listed = subprocess.run(
        [sys.executable, "-m", "bench"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert "\nall " in listed.stdout

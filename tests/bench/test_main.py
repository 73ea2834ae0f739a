import io
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from bench.__main__ import main
from bench.common.progress import Progress
from bench.common.results import Figure, Result

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


# --- Figures --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "at_most", "at_least", "ok"),
    [
        (1.0, None, None, True),
        (None, None, None, True),
        (1.5, 1.5, None, True),
        (1.6, 1.5, None, False),
        (1.5, None, 1.5, True),
        (1.4, None, 1.5, False),
        (3.0, 4.0, 2.0, True),
        (5.0, 4.0, 2.0, False),
        (None, 4.0, None, False),
        (math.nan, 4.0, None, False),
        (math.inf, None, 4.0, True),
    ],
)
def test_a_figure_keeps_its_bounds_or_not(
    value: float | None,
    at_most: float | None,
    at_least: float | None,
    ok: bool,  # noqa: FBT001 - a column of the table above
) -> None:
    figure = Figure(name="x", value=value, unit="s", at_most=at_most, at_least=at_least)
    assert figure.ok is ok
    assert Result((figure,)).ok is ok
    json.dumps(figure.as_json(), allow_nan=False)


def test_figure_is_printed_with_its_bound() -> None:
    figure = Figure(name="cpu", value=2.13456, unit="%", at_most=1.5)
    assert str(figure) == "cpu: 2.135 % (at most 1.5)"
    assert figure.as_json() == {"value": 2.13456, "unit": "%", "bound": {"at_most": 1.5}, "ok": False}
    assert str(Figure(name="p99", value=None, unit="s", at_least=1)) == "p99: not measured (at least 1)"
    assert Figure(name="seen", value=3, unit="").as_json()["bound"] is None


def test_a_result_without_figures_proves_nothing() -> None:
    assert not Result(()).ok


def test_two_figures_of_one_name_would_hide_each_other() -> None:
    with pytest.raises(ValueError, match="share a name"):
        Result((Figure(name="x", value=1, unit=""), Figure(name="x", value=2, unit="")))


# --- The command ----------------------------------------------------------------------------


def test_listing_names_each_with_a_line_and_imports_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([], {"one": ("no.such.module", "Does one."), "eleven": ("nor.this", "Does more.")}) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["one     Does one.", "eleven  Does more."]
    assert lines[2].startswith("all ")


def test_one_object_is_all_that_stdout_gets(
    benchmarks: Benchmarks, capsys: pytest.CaptureFixture[str]
) -> None:
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


def test_a_missed_bound_is_status_1_and_named(
    benchmarks: Benchmarks, capsys: pytest.CaptureFixture[str]
) -> None:
    output = io.StringIO()
    assert main(["bad"], benchmarks, Progress(output)) == 1
    assert json.loads(capsys.readouterr().out)["ok"] is False
    assert "bad: bound missed: size: 7" in output.getvalue()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["goood"], "bench: there is no benchmark 'goood': did you mean good?\n"),
        (["zzz"], "bench: there is no benchmark 'zzz': ./dev bench lists those there are\n"),
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
def test_what_cannot_run_is_status_2_and_one_sentence(
    benchmarks: Benchmarks, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    assert main(arguments, benchmarks, Progress(io.StringIO())) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", sentence)


def test_all_runs_what_is_possible_and_lists_the_rest(
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
def test_all_is_as_good_as_its_worst(
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
    assert listed.stdout.splitlines()[-1].startswith("all ")


# --- Progress -------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_elsewhere_than_on_a_terminal_lines_come_now_and_then() -> None:
    stream, clock = io.StringIO(), Clock()
    Progress(stream, clock=clock, sleep=clock.sleep).wait("measuring", 25)
    assert stream.getvalue().splitlines() == [
        "measuring: 0 of 25 s",
        "measuring: 10 of 25 s",
        "measuring: 20 of 25 s",
    ]
    assert clock.now == 25


def test_on_a_terminal_one_line_is_redrawn() -> None:
    stream, clock = Terminal(), Clock()
    with Progress(stream, clock=clock).track("containers", 4) as show:
        show(2)
        show(4)
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert f"[{'#' * 15}{'.' * 15}] containers: 2 of 4" in text
    assert text.endswith(f"[{'#' * 30}] containers: 4 of 4\n")

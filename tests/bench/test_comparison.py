import io
import json
from pathlib import Path

import pytest

from bench.__main__ import main
from bench.common.progress import Progress

STUB = """#!/bin/sh
echo "$@" >arguments
echo '{"benchmark": "sizes", "figures": {"size": {"value": 4.0}, "dropped": {"value": 1.0}}, "ok": true}'
exit 1
"""
BENCHMARK = """
from bench.common.results import Figure, Result
def add_arguments(parser): parser.add_argument("--size", type=int, default=3)
def run(options, progress):
    return Result((Figure(name="size", value=options.size, unit=""), Figure(name="new", value=2.0, unit="")))
"""
BENCHMARKS = {"sizes": ("bench_sizes", "Sizes.")}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "bench_sizes.py").write_text(BENCHMARK)
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "dev").write_text(STUB)
    (folder / "dev").chmod(0o755)
    return folder


def test_a_comparison_runs_both_checkouts_with_the_same_options(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = io.StringIO()
    arguments = ["sizes", "--compare", str(checkout), "--size", "6", "--json"]
    assert main(arguments, BENCHMARKS, Progress(output)) == 0
    assert (checkout / "arguments").read_text() == "bench sizes --size 6\n"
    compared = json.loads(capsys.readouterr().out)["compared_with"]
    assert compared == {
        "checkout": str(checkout),
        "figures": {
            "size": {"other": 4.0, "this": 6, "ratio": 1.5},
            "new": {"other": None, "this": 2.0, "ratio": None},
            "dropped": {"other": 1.0, "this": None, "ratio": None},
        },
    }
    assert output.getvalue().splitlines()[-4:] == [
        "figure   other  this  ratio",
        "size         4     6    1.5",
        "new          -     2      -",
        "dropped      1     -      -",
    ]


@pytest.mark.parametrize(
    "printed",
    ["[]", "\\377", '{"figures": []}', '{"figures": {"size": 4}}', '{"figures": {"size": {"value": "4"}}}'],
)
def test_a_checkout_that_prints_something_else_is_an_error(
    checkout: Path, capsys: pytest.CaptureFixture[str], printed: str
) -> None:
    (checkout / "dev").write_text(f"#!/bin/sh\nprintf '{printed}'\n")
    assert main(["sizes", "--compare", str(checkout)], BENCHMARKS, Progress(io.StringIO())) == 2
    assert "ended with status 0 and no result" in capsys.readouterr().err


def test_an_abbreviated_option_is_an_error(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sizes", "--comp", str(checkout)], BENCHMARKS, Progress(io.StringIO())) == 2
    assert "unrecognized arguments: --comp" in capsys.readouterr().err


def test_a_checkout_without_a_result_is_an_error(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (checkout / "dev").write_text("#!/bin/sh\nexit 2\n")
    assert main(["sizes", "--compare", str(checkout)], BENCHMARKS, Progress(io.StringIO())) == 2
    (checkout / "dev").unlink()
    assert main(["sizes", "--compare", str(checkout)], BENCHMARKS, Progress(io.StringIO())) == 2
    assert main(["all", "--compare", str(checkout)], BENCHMARKS, Progress(io.StringIO())) == 2
    without_result, without_dev, with_all = capsys.readouterr().err.splitlines()
    assert f"./dev bench sizes in {checkout} ended with status 2 and no result" in without_result
    assert f"{checkout} has no ./dev" in without_dev
    assert with_all == "bench: --compare is for one benchmark: name it instead of all"

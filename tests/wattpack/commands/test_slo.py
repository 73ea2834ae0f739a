import gzip
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.collector.builders import Client, collecting, settings
from tests.collector.features.promises.test_routes import run_two_services
from tests.replay.test_lifecycles import HEADER, LINES
from tests.wattpack.commands.test_hint import complained, printed
from wattpack.cli import main

LOG = "\n".join([HEADER, *LINES, "1100,waiting,prod-1-x,prod-1,,"])


@pytest.fixture
async def collector() -> AsyncIterator[Client]:
    async with collecting(settings()) as client:
        yield client


@pytest.mark.parametrize("is_gzip", [False, True])
def test_a_recorded_log_is_summed_up_as_json(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    is_gzip: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(gzip.compress(LOG.encode()) if is_gzip else LOG.encode())
    assert main(["services", "slo", "--from", str(path), "--seconds", "90", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "classes": {
            "free": {
                "controllers": 1,
                "mean_availability": pytest.approx(60 / 90),
                "min_availability": pytest.approx(60 / 90),
                "max_availability": pytest.approx(60 / 90),
            }
        },
        "preemptions": 1,
    }


def test_a_recorded_log_is_shown_as_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log.csv"
    path.write_text(LOG)
    assert main(["services", "slo", "--from", str(path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "CLASS  CONTROLLERS     MEAN   LOWEST  HIGHEST",
        "free             1   70.00%   70.00%   70.00%",
        "prod             1  100.00%  100.00%  100.00%",
        "whole log: 1 preemption; the log has 8 events of 3 pods",
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot read the log"),
        (b"\x1f\x8bnot gzip", "cannot read the log"),
        (gzip.compress(LOG.encode())[:-20], "cannot read the log"),
        (b"\xff\xfe\x00", "cannot read the log"),
        (b"", "has no column 'unix_second'"),
        (f"{HEADER}\n1,flying,p,c,,".encode(), "log.csv: line 2 of the log is invalid"),
    ],
)
def test_a_log_that_cannot_be_read_is_an_error_of_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, message: str
) -> None:
    path = tmp_path / "log.csv"
    if content is not None:
        path.write_bytes(content)
    assert main(["services", "slo", "--from", str(path)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


def test_one_class_of_a_recorded_log_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log.csv"
    path.write_text(LOG)
    assert main(["services", "slo", "--from", str(path), "--class", "prod", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert list(shown["classes"]) == ["prod"]
    assert shown["preemptions"] == 0
    assert main(["services", "slo", "--from", str(path), "--class", "gold"]) == 2
    assert "use one of free, prod" in capsys.readouterr().err


@pytest.mark.parametrize("seconds", ["0", "-3", "nan", "soon"])
def test_seconds_of_a_recorded_log_are_above_0(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["services", "slo", "--from", "log.csv", f"--seconds={seconds}"])
    assert f"'{seconds}' is not a number above 0" in capsys.readouterr().err


async def test_promises_of_a_collector_are_a_table(
    collector: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "No service has a promise" in await printed(collector, capsys, "services", "slo")
    await run_two_services(collector)
    header, shop, store, *_ = (await printed(collector, capsys, "services", "slo")).splitlines()
    assert header.split()[:4] == ["SERVICE", "CLASS", "MODE", "PROMISED"]
    assert "90.00%" in shop
    assert "breaks in" in shop
    assert store.split()[0] == "store"
    listed = json.loads(await printed(collector, capsys, "services", "slo", "--json", "--class", "bronze"))
    assert [each["service"] for each in listed] == ["store"]
    assert "--from" in await complained(collector, capsys, "services", "slo", "--seconds", "5")

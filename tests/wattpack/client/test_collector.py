"""The commands that list what a collector knows, asked of a real one."""

import asyncio
import json
from pathlib import Path

import pytest

from collector.serve.web.scopes import Scope
from tests.collector.builders import START, collecting, container, partial_report, report, settings
from tests.collector.serve.web.test_auth import add
from wattpack.cli import main
from wire.messages import Alert, Event, EventKind
from wire.resources import Resource


async def printed(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = await asyncio.to_thread(main, words)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["status"], ["1 up", "50.0 W ±1.5 at the wall = idle 30.0", "CPU at 97 %", "wattpack plan"]),
        (["nodes"], ["NODE", "alpha", "25%", "underused"]),
        (["nodes", "--state", "down"], ["No matching nodes"]),
        (["containers"], ["web", "shop", "2.50", "47.7 MiB"]),
        (["containers", "--limit", "1"], ["... and 1 more"]),
        (["containers", "--service", "none"], ["No matching containers"]),
        (["alerts"], ["alpha", "cpu", "open", "CPU at 97 %"]),
        (["alerts", "--kind", "quiet"], ["No open alerts match."]),
        (["services", "slo", "--class", "none"], ["No service has the class 'none'."]),
        (["energy"], ["No data from"]),
        (["hint", "what-if", "shop", "--times", "2"], ["no estimate", "shop uses", "at the wall"]),
    ],
)
async def test_list_commands_print_tables(
    words: list[str], expected: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    async with collecting(settings(tmp_path / "history.db")) as collector:
        await collector.send(
            report(containers=[container(), container("db", power=None)]),
            partial_report(
                sequence=2,
                alerts=(Alert(Resource.CPU, START, "CPU at 97 %"),),
                events=(Event(EventKind.JOINED, START),),
            ),
        )
        status, out, err = await printed(capsys, *words, "--collector", collector.url)
        assert (status, err) == (0, "")
        for text in expected:
            assert text in out
        status, out, _ = await printed(capsys, *words, "--json", "--collector", collector.url)
        assert status == 0
        json.loads(out)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["energy", "--by", "planet"], "--by planet: use node, container"),
        (["energy", "--start", "soon"], "--start soon: use a time"),
        (["energy", "--start", "2026-05-02", "--end", "2026-05-01"], "is not before the end"),
        (["nodes", "--token-file", "/does/not/exist"], "cannot read the token file"),
        (["nodes", "--collector", "ftp://there"], "use a URL such as"),
    ],
)
async def test_invalid_arguments_are_user_errors(
    words: list[str], expected: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    async with collecting(settings(tmp_path / "history.db")) as collector:
        where = [] if "--collector" in words else ["--collector", collector.url]
        status, out, err = await printed(capsys, *words, *where)
        assert (status, out) == (2, "")
        assert expected in err


async def test_token_file_option(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(add(tmp_path / "tokens.jsonl", Scope.READ, "me"), encoding="utf-8")
    async with collecting(settings(tokens=tmp_path / "tokens.jsonl")) as collector:
        words = ("nodes", "--collector", collector.url)
        status, _, err = await printed(capsys, *words)
        assert status == 2
        assert "requires a token" in err
        assert "is running" not in err
        status, _, _ = await printed(capsys, *words, "--token-file", str(secret))
        assert status == 0


_ASKING = [
    "alerts",
    "containers",
    "control history",
    "control pause",
    "control resume",
    "control room",
    "deploy service",
    "deploy stack",
    "energy",
    "hint app",
    "hint container",
    "hint what-if",
    "nodes",
    "plan",
    "services",
    "services slo",
    "status",
    "top",
]
_WITHOUT_A_LIST = ("control pause", "control resume", "control room", "deploy", "hint app", "plan", "top")


@pytest.mark.parametrize("command", _ASKING)
def test_commands_that_ask_a_collector_share_their_options(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([*command.split(), "--help"])
    shown = capsys.readouterr().out
    options = ["--collector URL", "--token-file FILE", "--ca-file FILE", "--json", "WATTPACK_COLLECTOR"]
    listed = ["--limit N"] * (not command.startswith(_WITHOUT_A_LIST))
    assert all(option in shown for option in (*options, *listed))


async def test_address_from_the_environment(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with collecting(settings(tmp_path / "history.db")) as collector:
        await collector.send(report())
        monkeypatch.setenv("WATTPACK_COLLECTOR", collector.url)
        for command in ("nodes", "status", "plan", "top", "control history", "control pause"):
            status, out, err = await printed(capsys, *command.split(), "--json")
            assert (status, err) == (0, ""), command
            json.loads(out)


@pytest.mark.parametrize("limit", ["0", "-1", "few"])
def test_limit_is_a_number_above_0(limit: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["nodes", f"--limit={limit}"])
    assert ended.value.code == 2
    assert "is not a number above 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("nodes", "No nodes have reported yet. Start an agent on each host with: wattpack agent\n"),
        ("containers", "No running containers. 'wattpack nodes' shows which nodes report.\n"),
        ("services", "No known services. Services come from"),
        ("alerts", "No open alerts.\n"),
        ("services slo", "No service has a promise. "),
        ("control history", "No decisions.\n"),
    ],
)
async def test_empty_lists_are_sentences(
    command: str, expected: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    async with collecting(settings(tmp_path / "history.db")) as collector:
        status, out, _ = await printed(capsys, *command.split(), "--collector", collector.url)
        assert status == 0
        assert out.startswith(expected)


async def test_unreachable_collector_is_a_user_error(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = await printed(capsys, "status", "--collector", "http://127.0.0.1:1")
    assert status == 2
    assert "http://127.0.0.1:1 does not answer (connection refused)" in err
    assert "check that it is running" in err

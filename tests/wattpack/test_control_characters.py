"""Names from other machines do not reach the terminal as they are."""

import asyncio

import pytest

from tests.collector.builders import collecting, container, report, settings
from wattpack.cli import main

EVIL = "web\x1b[2J\x9b31m\u202e\r\nnode9"


@pytest.mark.parametrize("command", ["containers", "nodes", "services", "status", "alerts"])
async def test_no_command_prints_a_control_character(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with collecting(settings()) as collector:
        await collector.send(
            report("evil\x1b]0;title\x07", containers=[container(EVIL, service=EVIL, image=EVIL)])
        )
        printed = ""
        for options in ([], ["--json"]):
            arguments = [command, *options, "--collector", collector.url]
            assert await asyncio.to_thread(main, arguments) == 0
            printed = capsys.readouterr().out
            assert printed
            assert all(line.isprintable() for line in printed.splitlines())
            assert "\r" not in printed
    if command == "containers":
        assert "web\\u001b[2J" in printed

import codecs
import json
import os
import re
import signal
import subprocess
import sys
import termios
import urllib.request
from pathlib import Path
from typing import IO, Any

import pytest

from tests.lab.waiting import eventually
from tests.processes import wattpack
from tests.wattpack.commands.fake_terminal import FakeTerminal

pytestmark = pytest.mark.slow

ANY_PORT = ("--set", "collector.http.listen=127.0.0.1:0", "--set", "agent.http.listen=127.0.0.1:0")


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - loopback, our own
        body = answer.read()
    return json.loads(body) if "json" in answer.headers["Content-Type"] else body.decode()


def addresses(output: IO[str]) -> tuple[str, str]:
    """The collector's and the agent's, read off what a person would see."""
    collector = agent = ""
    for line in output:
        if found := re.search(r"^  collector (http://\S+)", line):
            collector = found[1]
        if found := re.search(r"^  agent +(http://\S+)/metrics", line):
            agent = found[1]
            break
    return collector, agent


def test_up_shows_watts_and_stops_on_ctrl_c(tmp_path: Path) -> None:
    up = wattpack("up", "--data", str(tmp_path), *ANY_PORT, "--set", "agent.sampling.interval_seconds=0.3")
    with up.running() as process:
        assert process.stdout is not None
        collector, agent = addresses(process.stdout)
        (node,) = eventually(lambda: get(f"{collector}/v1/nodes")["nodes"], 20)
        assert node["state"] == "up"
        assert node["power"]["watts"] > 0
        assert "wattpack_node_power_watts" in get(f"{agent}/metrics")
        assert "wattpack_collector_reports_total" in get(f"{collector}/metrics")
        assert any(line.startswith("POWER ") for line in process.stdout)
        (account,) = eventually(lambda: get(f"{collector}/v1/energy")["accounts"], 30)
        assert account["joules"] > 0
        process.send_signal(signal.SIGINT)
        assert process.stdout.read().endswith("stopping\n")
        assert process.wait(10) == 0


def test_up_prints_found_and_missing_sources(tmp_path: Path) -> None:
    up = wattpack(
        "up", "--data", str(tmp_path), *ANY_PORT, "--set", f"agent.docker.socket={tmp_path}/absent.sock"
    )
    with up.running() as process:
        assert process.stdout is not None
        output = ""
        while "Ctrl-C" not in output:
            output += process.stdout.readline()
    assert re.search(r"^  found ", output, re.MULTILINE)
    assert f"container names: no Docker engine listens at {tmp_path}/absent.sock" in output


def test_up_on_a_narrow_terminal_shows_its_table_once(tmp_path: Path) -> None:
    screen, decoder = FakeTerminal(80), codecs.getincrementaldecoder("utf-8")()
    ours, terminal = os.openpty()
    termios.tcsetwinsize(terminal, (24, 80))
    options = ["--data", str(tmp_path), *ANY_PORT, "--set", "agent.sampling.interval_seconds=0.3"]
    command = [sys.executable, "-m", "wattpack", "up", *options]
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal) as process:
        os.close(terminal)
        drawn = 0
        try:
            while drawn < 4:
                text = decoder.decode(os.read(ours, 65_536)).replace("\r", "")
                drawn += text.count(" wall, ")
                screen.write(text)
        finally:
            process.terminate()
            os.close(ours)
    assert len(re.findall(r"^POWER ", screen.text, re.MULTILINE)) == 1, screen.text


def test_up_with_an_unwritable_data_folder_is_a_user_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ended: subprocess.CompletedProcess[str] = wattpack(
        "up", "--data", str(tmp_path / "file"), *ANY_PORT
    ).run()
    assert ended.returncode == 2
    assert ended.stderr.startswith("wattpack: ")
    assert len(ended.stderr.splitlines()) == 1


def test_up_set_requires_a_role() -> None:
    ended = wattpack("up", "--set", "node=x").run()
    assert ended.returncode == 2
    assert "start with agent. or collector." in ended.stderr

"""The agent as systemd runs it: the real command, listed by real signals, received on a real socket."""

import re
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.waiting import eventually
from tests.processes import wattpack
from tests.wattpack.service.notify_socket import NotifySocket, notify_socket


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NotifySocket]:
    with notify_socket(tmp_path) as receiver:
        monkeypatch.setenv("NOTIFY_SOCKET", receiver.environment["NOTIFY_SOCKET"])
        monkeypatch.setenv("WATCHDOG_USEC", "1000000")
        yield receiver


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    file = tmp_path / "agent.toml"
    file.write_text(f"""\
node = "before"
sampling.interval_seconds = 0.2
docker.socket = ""
http.listen = "127.0.0.1:0"
collector.enabled = false
storage.directory = "{tmp_path}"
""")
    return file


def logged(agent: subprocess.Popen[str], pattern: str) -> str:
    """Read what the agent says until a line matches; gives the match's group."""
    assert agent.stdout is not None
    lines = []
    for line in agent.stdout:
        lines.append(line)
        if found := re.search(pattern, line):
            return found[1]
    raise AssertionError(f"it ended without a word like {pattern!r}:\n{''.join(lines)}")


def started(agent: subprocess.Popen[str], node: str) -> str:
    """Wait until the agent serves, by that name; gives the address of its metrics."""
    return logged(agent, rf"node {node}, metrics at (http://\S+)$")


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - loopback, our own
        text: str = answer.read().decode()
        return text


@pytest.mark.slow
def test_sighup_applies_the_changed_file(settings: Path, systemd: NotifySocket) -> None:
    with wattpack("agent", "--config", str(settings)).running() as agent:
        url = started(agent, "before")
        eventually(lambda: "wattpack_node_cpu" in get(url), 10)
        eventually(lambda: any("WATCHDOG=1\nSTATUS=sampling" in word for word in systemd.received()), 10)
        settings.write_text(settings.read_text().replace("before", "after"))
        agent.send_signal(signal.SIGHUP)
        url = started(agent, "after")
        eventually(lambda: "wattpack_node_cpu" in get(url), 10)
        received = systemd.received()
        reloading = next(index for index, word in enumerate(received) if word.startswith("RELOADING=1"))
        assert "READY=1" in received[reloading:]
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(5) == 0
    assert systemd.received()[-1] == "STOPPING=1"


@pytest.mark.slow
def test_sighup_with_an_invalid_file_changes_nothing(settings: Path, systemd: NotifySocket) -> None:
    with wattpack("agent", "--config", str(settings)).running() as agent:
        url = started(agent, "before")
        settings.write_text("sampling.interval = 1\n")
        agent.send_signal(signal.SIGHUP)
        reason = logged(agent, r"agent: the new settings are rejected, the previous ones stay in use: (.*)$")
        assert reason == (
            f"{settings}, line 1: unknown key 'sampling.interval': did you mean 'sampling.interval_seconds'?"
        )
        systemd.received()
        eventually(lambda: any("WATCHDOG=1" in word for word in systemd.received()), 10)
        assert "wattpack_node_cpu" in get(url)

import os
import socket
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.wattpack.service.notify_socket import NotifySocket, notify_socket
from wattpack.service import runner as under_test
from wattpack.service.runner import Watchdog, notify, reloading


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[NotifySocket]:
    with notify_socket(tmp_path) as receiver:
        yield receiver


def test_notify_sends_the_state(systemd: NotifySocket) -> None:
    notify("READY=1", systemd.environment)
    assert systemd.received() == ["READY=1"]


def test_notify_with_an_abstract_socket() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(f"\0wattpack-test-{id(channel)}")
        notify("STOPPING=1", {"NOTIFY_SOCKET": f"@wattpack-test-{id(channel)}"})
        assert channel.recv(100) == b"STOPPING=1"


def test_notify_without_a_socket() -> None:
    notify("READY=1", {})
    notify("READY=1", {"NOTIFY_SOCKET": "vsock:2:1"})


def test_notify_ignores_a_missing_receiver(tmp_path: Path) -> None:
    notify("WATCHDOG=1", {"NOTIFY_SOCKET": str(tmp_path / "gone")})


@pytest.mark.slow
def test_notify_does_not_wait_for_a_full_receiver(
    systemd: NotifySocket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(under_test, "_SEND_SECONDS", 0.001)
    for _ in range(1000):  # far more than the kernel keeps for it
        notify("WATCHDOG=1", systemd.environment)
    assert 0 < len(systemd.received()) < 1000


def test_reloading_sends_the_monotonic_time(systemd: NotifySocket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", systemd.environment["NOTIFY_SOCKET"])
    reloading()
    (message,) = systemd.received()
    state, since = message.splitlines()
    assert state == "RELOADING=1"
    name, usec = since.split("=")
    assert name == "MONOTONIC_USEC"
    assert time.monotonic() - 10 < int(usec) / 1e6 <= time.monotonic()


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_watchdog_limits_messages_per_timeout(systemd: NotifySocket) -> None:
    clock = Clock()
    environment = {**systemd.environment, "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}
    watchdog = Watchdog(3.0, environment=environment, monotonic=clock)
    assert systemd.received() == ["WATCHDOG_USEC=30000000"]
    fed = []
    for _ in range(101):
        watchdog.progress("well")
        fed += [clock.now for _ in systemd.received()]
        clock.now += 3.0
    gaps = {after - before for before, after in pairwise(fed)}
    assert gaps == {12.0}
    assert len(fed) == 26


def test_watchdog_without_progress_sends_nothing(systemd: NotifySocket) -> None:
    clock = Clock()
    Watchdog(3.0, environment={**systemd.environment, "WATCHDOG_USEC": "30000000"}, monotonic=clock)
    systemd.received()
    clock.now += 1000
    assert systemd.received() == []


def test_watchdog_timeout_is_extended_for_slow_work(systemd: NotifySocket) -> None:
    clock = Clock()
    environment = {**systemd.environment, "WATCHDOG_USEC": "30000000"}
    watchdog = Watchdog(300.0, environment=environment, monotonic=clock)
    assert systemd.received() == ["WATCHDOG_USEC=1200000000"]
    watchdog.progress("sampling")
    assert systemd.received() == ["WATCHDOG=1\nSTATUS=sampling"]


@pytest.mark.parametrize("unit", [{}, {"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}])
def test_without_a_watchdog_only_the_status_is_sent(systemd: NotifySocket, unit: dict[str, str]) -> None:
    watchdog = Watchdog(3.0, environment={**systemd.environment, **unit})
    watchdog.progress("sampling")
    assert systemd.received() == ["WATCHDOG=1\nSTATUS=sampling"]

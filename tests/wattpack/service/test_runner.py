"""A service in this process, asked by real signals."""

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

import pytest

from tests.waiting import until
from tests.wattpack.service.notify_socket import NotifySocket, notify_socket
from wattpack.service.runner import Work, _Lines, keep_running
from wire.errors import UserError


class Service:
    """Something that runs with the settings of the moment, and writes down what became of it."""

    def __init__(self) -> None:
        self.file = "first"
        self.refused = {"impossible"}
        self.log: list[str] = []
        self.breaks = asyncio.Event()
        self.slow: set[str] = set()

    def load(self) -> str:
        if self.file == "unreadable":
            raise UserError("line 1 is wrong")
        return self.file

    @asynccontextmanager
    async def start(self, settings: str) -> AsyncIterator[Work]:
        if settings in self.refused:
            raise UserError(f"{settings} cannot be")
        if settings in self.slow:
            self.log.append(f"?{settings}")
            try:
                await asyncio.Event().wait()
            finally:
                self.log.append(f"!{settings}")
        self.log.append(f"+{settings}")
        work = asyncio.create_task(self._work())
        try:
            yield work
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            self.log.append(f"-{settings}")

    async def _work(self) -> None:
        await self.breaks.wait()
        raise RuntimeError("broken")

    async def until(self, *log: str) -> None:
        await until(lambda: self.log == list(log))


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NotifySocket]:
    with notify_socket(tmp_path) as receiver:
        monkeypatch.setenv("NOTIFY_SOCKET", receiver.environment["NOTIFY_SOCKET"])
        yield receiver


def received(systemd: NotifySocket) -> list[str]:
    return [message.splitlines()[0] for message in systemd.received()]


@asynccontextmanager
async def running(service: Service) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(keep_running(service.load, service.start))
    try:
        await service.until(f"+{service.file}")
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().remove_signal_handler(number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_service_stops_on_a_signal(number: signal.Signals, systemd: NotifySocket) -> None:
    service = Service()
    async with running(service) as task:
        os.kill(os.getpid(), number)
        await asyncio.wait_for(task, 10)
    assert service.log == ["+first", "-first"]
    assert received(systemd) == ["READY=1", "STOPPING=1"]


@pytest.mark.parametrize("at_reload", [False, True])
async def test_a_signal_stops_a_service_that_still_starts(at_reload: bool, systemd: NotifySocket) -> None:  # noqa: FBT001 - a parameter
    service = Service()
    service.slow = {"second" if at_reload else "first"}
    task = asyncio.create_task(keep_running(service.load, service.start))
    if at_reload:
        await service.until("+first")
        service.file = "second"
        os.kill(os.getpid(), signal.SIGHUP)
    await until(lambda: service.log and service.log[-1].startswith("?"))
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(task, 10)
    assert service.log[-1] == f"!{service.file}"
    assert received(systemd) == [*(["READY=1", "RELOADING=1"] * at_reload), "STOPPING=1"]


async def test_sighup_reloads_a_service_that_still_starts(
    systemd: NotifySocket, caplog: pytest.LogCaptureFixture
) -> None:
    service = Service()
    service.slow = {"first"}
    task = asyncio.create_task(keep_running(service.load, service.start))
    await service.until("?first")
    service.file = "unreadable"
    os.kill(os.getpid(), signal.SIGHUP)
    await until(lambda: caplog.messages)
    assert service.log == ["?first"]
    service.file = "second"
    os.kill(os.getpid(), signal.SIGHUP)
    await service.until("?first", "!first", "+second")
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(task, 10)
    assert received(systemd) == ["READY=1", "STOPPING=1"]


async def test_sighup_reloads_the_settings(systemd: NotifySocket) -> None:
    service = Service()
    async with running(service):
        service.file = "second"
        os.kill(os.getpid(), signal.SIGHUP)
        await service.until("+first", "-first", "+second")
    assert received(systemd) == ["READY=1", "RELOADING=1", "READY=1"]


async def test_invalid_new_settings_change_nothing(
    systemd: NotifySocket, caplog: pytest.LogCaptureFixture
) -> None:
    service = Service()
    async with running(service):
        service.file = "unreadable"
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: caplog.messages)
        assert service.log == ["+first"]
        assert caplog.messages == [
            "the new settings are rejected, the previous ones stay in use: line 1 is wrong"
        ]
        service.file = "third"
        os.kill(os.getpid(), signal.SIGHUP)
        await service.until("+first", "-first", "+third")
    assert received(systemd) == ["READY=1", "RELOADING=1", "READY=1", "RELOADING=1", "READY=1"]


async def test_failed_restart_falls_back_to_the_previous_settings(
    systemd: NotifySocket, caplog: pytest.LogCaptureFixture
) -> None:
    service = Service()
    async with running(service):
        service.file = "impossible"
        os.kill(os.getpid(), signal.SIGHUP)
        await service.until("+first", "-first", "+first")
    assert caplog.messages == [
        "the new settings are rejected, the previous ones stay in use: impossible cannot be"
    ]
    assert received(systemd) == ["READY=1", "RELOADING=1", "READY=1"]


async def test_failed_first_start_ends_the_service() -> None:
    service = Service()
    service.file = "impossible"
    with pytest.raises(UserError, match="impossible cannot be"):
        await keep_running(service.load, service.start)


async def test_failed_work_ends_the_service() -> None:
    service = Service()
    async with running(service) as task:
        service.breaks.set()
        with pytest.raises(RuntimeError, match="broken"):
            await asyncio.wait_for(task, 10)


@pytest.mark.parametrize("for_journal", [True, False])
def test_a_message_is_one_line_without_control_characters(for_journal: bool) -> None:  # noqa: FBT001 - a parameter
    lines = _Lines("collector", for_journal=for_journal)
    name = "web\x1b[2J\nwattpack: all is well"
    error = ValueError(name)
    failed = logging.LogRecord(
        "x", logging.ERROR, "x", 1, "node %s failed", (name,), (ValueError, error, None)
    )
    first, *rest = lines.format(failed).splitlines()
    assert "node web\\u001b[2J\\nwattpack: all is well failed" in first
    assert rest[0].startswith("ValueError: web\\u001b[2J")
    assert all(line.replace("\t", "").isprintable() for line in (first, *rest))


def test_log_lines_have_the_time_unless_the_journal_adds_it() -> None:
    record = logging.LogRecord("x", logging.INFO, "x.py", 1, "node %s is up", ("web1",), None)
    plain = _Lines("agent", for_journal=False).format(record)
    at, _, rest = plain.partition(" ")
    assert datetime.fromisoformat(at).timestamp() == pytest.approx(record.created, abs=0.001)
    assert rest == "agent: node web1 is up"
    assert _Lines("agent", for_journal=True).format(record) == "<6>node web1 is up"

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from collector.common.errors import HistoryUnavailable
from collector.history.sqlite.history import History, open_sqlite
from tests.collector.builders import collecting, report, settings
from tests.wattpack.service.notify_socket import NotifySocket, notify_socket
from wattpack.commands.collector import _running, feed_watchdog
from wattpack.service.runner import Watchdog, keep_running


async def fed(systemd: NotifySocket, check: Callable[[], Awaitable[None]], times: int) -> list[str]:
    """What the watchdog hears while so many checks are made, one after the other."""
    made = 0
    waits = asyncio.Event()

    async def counting() -> None:
        nonlocal made
        made += 1
        if made > times:
            waits.set()
            await asyncio.Event().wait()
        await check()

    watchdog = Watchdog(environment={**systemd.environment, "WATCHDOG_USEC": "3000"})
    systemd.received()
    feeding = asyncio.create_task(feed_watchdog(watchdog, counting, "well"))
    await asyncio.wait_for(waits.wait(), 10)
    feeding.cancel()
    with suppress(asyncio.CancelledError):
        await feeding
    return systemd.received()


async def works() -> None:
    pass


async def full() -> None:
    raise HistoryUnavailable("the disk is full")


@pytest.mark.parametrize(
    ("check", "status"), [(works, "well"), (full, "cannot store reports: the disk is full")]
)
async def test_responding_writer_feeds_the_watchdog(
    tmp_path: Path, check: Callable[[], Awaitable[None]], status: str
) -> None:
    with notify_socket(tmp_path) as systemd:
        assert await fed(systemd, check, 3) == [f"WATCHDOG=1\nSTATUS={status}"] * 3


async def test_hung_writer_does_not_feed_the_watchdog(tmp_path: Path) -> None:
    with notify_socket(tmp_path) as systemd:
        assert await fed(systemd, works, 0) == []


def left_open(folder: Path) -> list[Path]:
    """What SQLite keeps beside a file that is in use."""
    return list(folder.glob("*.db-*"))


@pytest.mark.slow
async def test_sigterm_during_a_restore_ends_the_collector_and_closes_its_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = settings(tmp_path / "history.db")
    async with collecting(config) as collector:
        await collector.send(report())
    restoring = asyncio.Event()

    async def load_forever(*_given: object) -> None:
        restoring.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(History, "load_usage", load_forever)
    with notify_socket(tmp_path) as systemd:
        monkeypatch.setenv("NOTIFY_SOCKET", systemd.environment["NOTIFY_SOCKET"])
        monkeypatch.setenv("WATCHDOG_USEC", "30000")
        running = asyncio.create_task(keep_running(lambda: config, _running))
        await asyncio.wait_for(restoring.wait(), 10)
        systemd.received()
        await asyncio.sleep(0.1)
        assert "WATCHDOG=1\nSTATUS=restoring its state" in systemd.received()
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(running, 5)
        assert "STOPPING=1" in systemd.received()
    assert left_open(tmp_path) == []
    async with open_sqlite(config.history) as history:
        assert len((await history.load_state()).reports) == 1


@pytest.mark.slow
async def test_a_collector_that_is_ready_says_so_in_its_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    received: list[str] = []
    with notify_socket(tmp_path) as systemd:
        monkeypatch.setenv("NOTIFY_SOCKET", systemd.environment["NOTIFY_SOCKET"])
        running = asyncio.create_task(keep_running(lambda: settings(tmp_path / "history.db"), _running))
        while "READY=1" not in received:
            await asyncio.sleep(0.01)
            received += systemd.received()
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(running, 5)
    statuses = [each for each in received[: received.index("READY=1")] if "STATUS=" in each]
    assert "STATUS=listening on http://" in statuses[-1]

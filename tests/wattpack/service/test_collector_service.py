import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from collector.common.errors import HistoryUnavailable
from tests.wattpack.service.notify_socket import NotifySocket, notify_socket
from wattpack.commands.collector import feed_watchdog
from wattpack.service.runner import Watchdog


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

import asyncio
import logging

import pytest

from collector.common.errors import HistoryUnavailable
from collector.common.periodic import in_background, repeat


class Stopped(BaseException):
    """Ends a loop that never ends by itself."""


async def test_work_is_repeated_and_a_failure_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    runs: list[int] = []
    pauses: list[float] = []

    async def work() -> None:
        runs.append(len(runs))
        if len(runs) == 1:
            raise HistoryUnavailable("disk full")
        if len(runs) == 2:
            raise ValueError("a bug")

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise Stopped

    with caplog.at_level(logging.WARNING), pytest.raises(Stopped):
        await repeat(work, 5, "tidying", sleep=sleep)
    assert (runs, pauses) == ([0, 1, 2], [5, 5, 5])
    expected, unexpected = caplog.records
    assert expected.getMessage() == "tidying failed: disk full; next try in 5 s"
    assert (expected.exc_info, unexpected.exc_info is not None) == (None, True)


async def test_the_interval_can_count_from_the_start_of_a_run() -> None:
    pauses = []

    async def work() -> None:
        await asyncio.sleep(0.05)

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        raise Stopped

    for seconds in (10.0, 0.01):
        with pytest.raises(Stopped):
            await repeat(work, seconds, "pulling", from_start=True, sleep=sleep)
    assert 0 < pauses[0] < 10
    assert pauses[1] == 0


async def test_tasks_end_with_the_block() -> None:
    ended = []

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(True)

    async with in_background(work(), work()):
        await asyncio.sleep(0)
    assert ended == [True, True]

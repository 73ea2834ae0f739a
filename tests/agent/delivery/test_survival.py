"""An hour without the collector, and an agent that is killed again and again: nothing is lost or doubled."""

import asyncio
import random
import sqlite3
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from collector.config import CollectorConfig, HistoryConfig
from collector.config import HttpConfig as CollectorHttp
from collector.main import running
from tests.agent.fake_collector import FakeCollector, accept, serving_reports, status
from tests.agent.reporting_process import reports_of
from tests.processes import free_port

TICKS = 1200  # an hour of samples
KILLS = 5


@asynccontextmanager
async def reporting_agent(
    spool: Path, url: str, boot: str, first_tick: int, last_tick: int
) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.agent.reporting_process"),
        *(str(spool), url, boot, str(first_tick), str(last_tick)),
        stdout=PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def stored(process: Process) -> tuple[int, int] | None:
    """The tick and the number of the next report that is stored; None when the process has died."""
    assert process.stdout is not None
    line = await process.stdout.readline()
    if not line.endswith(b"\n"):
        return None
    tick, sequence = line.split()
    return int(tick), int(sequence)


async def hour_of_deaths(spool: Path, url: str) -> dict[str, tuple[int, int]]:
    """Let an hour go by in which the agent is killed; per boot its first tick and the last report stored."""
    chance = random.Random()  # noqa: S311 - not a secret
    boots: dict[str, tuple[int, int]] = {}
    tick = 0
    for number in range(KILLS):
        boot, first_tick, sequence = f"boot{number}", tick, 0
        async with reporting_agent(spool, url, boot, first_tick, TICKS) as process:
            until_tick = first_tick + TICKS / KILLS * chance.uniform(0.5, 0.9)
            while tick < until_tick:
                known = await stored(process)
                assert known is not None, "it was not killed yet"
                tick, sequence = known
            # Anywhere within what it does next.
            await asyncio.sleep(chance.uniform(0.0, 0.02))
            process.kill()
            while (known := await stored(process)) is not None:
                tick, sequence = known
        boots[boot] = (first_tick, sequence)
        tick += 1
    boots["last"] = (tick, 0)
    return boots


@pytest.mark.slow
async def test_after_an_hour_without_the_collector_every_report_is_there_exactly_once(tmp_path: Path) -> None:
    spool, history = tmp_path / "spool.db", tmp_path / "history.db"
    with free_port() as (port, _):
        pass
    url = f"http://127.0.0.1:{port}"
    boots = await hour_of_deaths(spool, url)

    config = CollectorConfig(
        http=CollectorHttp(listen=f"127.0.0.1:{port}"), history=HistoryConfig(path=str(history))
    )
    async with running(config), reporting_agent(spool, url, "last", boots["last"][0], TICKS) as process:
        await process.communicate()
        assert process.returncode == 0

    with sqlite3.connect(history) as connection:
        rows = connection.execute(
            "SELECT name, sequence, at FROM reports JOIN boots ON boots.id = boot_id ORDER BY reports.id"
        ).fetchall()
    connection.close()
    assert list(dict.fromkeys(boot for boot, _, _ in rows)) == list(boots), (
        "those of earlier boots came first"
    )
    for boot, (first_tick, at_least) in boots.items():
        came = [(sequence, at) for of, sequence, at in rows if of == boot]
        expected = [(report.sequence, report.at) for _, report in reports_of(boot, first_tick, TICKS)]
        assert len(came) >= at_least, "what was stored is not lost"
        assert came == expected[: len(came)], "in order, without a hole, each once"
    last = [report for _, report in reports_of("last", boots["last"][0], TICKS)]
    assert len([boot for boot, _, _ in rows if boot == "last"]) == len(last)
    assert len(rows) > 100


@pytest.mark.slow
async def test_an_agent_killed_while_it_delivers_begins_again_where_it_was(tmp_path: Path) -> None:
    spool = tmp_path / "spool.db"
    expected = [report for _, report in reports_of("only", 0, TICKS)]
    receiver = FakeCollector()
    async with serving_reports(receiver) as settings:
        receiver.otherwise = status(503)
        async with reporting_agent(spool, settings.url, "only", 0, TICKS) as process:
            for _ in expected:
                assert await stored(process) is not None
            victim = process

            def take_some_and_kill(sequences: list[int]) -> web.Response:
                # Its receipt will never be read.
                if len(receiver.reports) > 30:
                    victim.kill()
                return accept(sequences)

            def small_batches_only(sequences: list[int]) -> web.Response:
                return take_some_and_kill(sequences) if len(sequences) <= 13 else status(413)(sequences)

            receiver.otherwise = small_batches_only
            await process.communicate()
            assert process.returncode == -9
        assert 30 < len(receiver.reports) < len(expected)

        receiver.otherwise = accept
        async with reporting_agent(spool, settings.url, "next", TICKS, TICKS) as process:
            await process.communicate()
            assert process.returncode == 0
    assert [report for key, report in receiver.reports.items() if key[1] == "only"] == expected
    again = [key for key, times in receiver.times_taken.items() if times > 1]
    assert 1 <= len(again) <= 13, "only the batch without a receipt came twice"

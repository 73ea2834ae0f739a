"""Damage of the file, and a file that is taken away."""

import logging
import os
import shutil
import sqlite3
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import aiohttp
import pytest

from collector import config
from collector.common.errors import HistoryUnavailable
from collector.history.interface import GroupBy
from collector.history.sqlite.files import connection
from collector.history.sqlite.files.damage import count_wrong_rows
from collector.history.sqlite.history import History, open_sqlite
from collector.main import running
from collector.runtime.retention import check_history
from tests.collector.builders import START, Clock, collecting, container, report
from tests.collector.builders import settings as collector_settings
from wattpack.cli import main
from wire.messages import encode

HOUR = 3600.0
PAGE = 4096


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[History]:
    async with open_sqlite(config.HistoryConfig(path=str(path))) as history:
        yield history


async def fill(path: Path, reports: int = 300) -> None:
    async with opened(path) as history:
        for number in range(1, reports + 1):
            at = START + 60.0 * number
            containers = [container(f"c{place}", cpu_seconds_total=number) for place in range(10)]
            await history.add(
                [report(node, sequence=number, at=at, containers=containers) for node in ("a", "b")], at
            )
        await history.apply_retention(START + 60.0 * reports)


def damage(path: Path, place: int, size: int = PAGE) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        file.write(os.urandom(size))


async def test_repair_leaves_out_a_row_without_its_checksum(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    await fill(path)
    with closing(sqlite3.connect(path)) as old:
        old.execute("UPDATE node_rollups SET joules = 1234.56789 WHERE step = 3600 AND node_id = 1")
        old.commit()
        old.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before, after = struct.pack(">d", 1234.56789), struct.pack(">d", 9234.56789)
    path.write_bytes(path.read_bytes().replace(before, after))
    connection.repair_file(str(path)).close()
    with closing(sqlite3.connect(path)) as new:
        assert not count_wrong_rows(new)
        hourly = "SELECT DISTINCT node_id FROM node_rollups WHERE step = 3600"
        assert new.execute(hourly).fetchall() == [(2,)]


@pytest.mark.slow
async def test_a_damaged_page_costs_its_own_rows_and_the_collector_goes_on(tmp_path: Path) -> None:
    whole = tmp_path / "whole.db"
    await fill(whole, 120)
    kept = []
    for place in range(6):
        path = tmp_path / f"history-{place}.db"
        shutil.copy(whole, path)
        damage(path, int(path.stat().st_size * (0.1 + 0.15 * place)) // PAGE * PAGE)
        async with opened(path) as history:
            assert await history.add([report("a", sequence=5000)], START + 8 * HOUR) == [True]
            await history.load_state()
            await history.energy(START, START + 9 * HOUR, GroupBy.NODE)
        with closing(sqlite3.connect(path)) as after:
            assert after.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            kept += after.execute("SELECT count(*) FROM container_samples").fetchone()
    # A page that leads to others can cost more.
    assert sorted(kept)[1] > 0.95 * 120 * 2 * 10


@pytest.mark.slow
async def test_damage_that_is_found_while_it_runs_is_shown_and_repaired_by_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "history.db"
    await fill(path)
    damage(path, 40 * PAGE)
    # As with a file that is too large to be checked at the start.
    with monkeypatch.context() as patch:
        patch.setattr(connection, "find_damage", lambda *_: None)
        async with opened(path) as history:
            await history.apply_retention(START + 6 * HOUR)
            assert history.stats().damage
    async with opened(path) as history:
        await history.apply_retention(START + 6 * HOUR)
        assert not history.stats().damage


@pytest.mark.slow
async def test_repair_finds_damage_and_mends_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "history.db"
    await fill(path)
    command = ["admin", "repair", "--file", str(path)]
    assert main(command) == 0
    assert "has no damage" in capsys.readouterr().out
    damage(path, 40 * PAGE)
    assert main([*command, "--check"]) == 1
    assert "is damaged" in capsys.readouterr().out
    assert main(command) == 0
    assert main([*command, "--check"]) == 0
    assert "The damaged file is" in caplog.text
    async with opened(path) as history:
        assert history.stats().reports > 300


@pytest.mark.slow
async def test_an_account_that_changed_on_disk_is_found_by_its_checksum_and_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    path = tmp_path / "history.db"
    await fill(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE node_rollups SET joules = 1234.56789 WHERE step = 3600")
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    # Another number, and no structure is harmed.
    before, after = struct.pack(">d", 1234.56789), struct.pack(">d", 9234.56789)
    assert before in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(before, after))
    async with running(collector_settings(path), clock=Clock(START + 6 * HOUR)) as collector:
        core = collector.core
        await core.history.apply_retention(core.clock())
        wrong_rows = core.history.stats().wrong_rows
        assert wrong_rows > 0
        await check_history(core)
        async with aiohttp.ClientSession() as http:
            async with http.get(f"{collector.address.url}/readyz") as answer:
                [problem] = (await answer.json())["problems"]
            async with http.get(f"{collector.address.url}/metrics") as answer:
                metrics = await answer.text()
    assert f"{wrong_rows} rows of the energy accounts did not match the checksum" in problem
    assert f"wattpack_collector_history_wrong_rows_total {float(wrong_rows)}" in metrics
    assert "do not have their checksum" in caplog.text
    with closing(sqlite3.connect(path)) as connection:
        assert not count_wrong_rows(connection)


@pytest.mark.parametrize("what", ["delete", "replace", "truncate"])
async def test_nothing_is_acknowledged_into_a_file_that_is_gone(tmp_path: Path, what: str) -> None:
    path = tmp_path / "history.db"
    await fill(path, 30)
    async with collecting(collector_settings(path)) as collector:
        await collector.send(report("a", sequence=1000))
        if what == "delete":
            path.unlink()
        elif what == "replace":
            path.rename(tmp_path / "elsewhere.db")
            path.write_bytes(b"")
        else:
            os.truncate(path, PAGE)
        status, answer = await collector.post(encode([report("a", sequence=1001)]))
        assert status == 503, answer
        word = {"delete": "deleted", "replace": "replaced", "truncate": "truncated"}[what]
        assert f"was {word} while the collector runs" in answer["detail"]
        assert (await collector.ask("/readyz"))[0] == 503


async def test_a_deleted_file_that_is_put_back_is_used_again(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    async with opened(path) as history:
        await history.add([report(sequence=1)], START)
        path.rename(tmp_path / "elsewhere.db")
        with pytest.raises(HistoryUnavailable, match="deleted"):
            await history.add([report(sequence=2)], START)
        (tmp_path / "elsewhere.db").rename(path)
        assert await history.add([report(sequence=2)], START) == [True]

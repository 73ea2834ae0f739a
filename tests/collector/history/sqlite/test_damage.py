"""Damage of the file, and a file that is taken away."""

import os
import shutil
import sqlite3
import struct
import time
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import aiohttp
import pytest

from bench.damage import damage_files
from collector import config
from collector.common.errors import HistoryUnavailable
from collector.history.interface import GroupBy
from collector.history.sqlite.files import connection
from collector.history.sqlite.files.connection import open_for_writing
from collector.history.sqlite.files.damage import FileWatch, damage_marker, find_damage
from collector.history.sqlite.files.salvage import _open, _TableCopy
from collector.history.sqlite.history import History, open_sqlite
from collector.main import running
from collector.runtime.retention import check_history
from tests.collector.builders import JSON, START, Clock, collecting, container, report
from tests.collector.builders import settings as collector_settings
from wattpack.cli import main
from wire.errors import UserError
from wire.messages import encode

HOUR = 3600.0
PAGE = 4096
_ADD_BUCKET = "INSERT INTO container_rollups (step, bucket, container_id, seconds) VALUES (300, ?, ?, 300.0)"


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


@pytest.mark.slow
async def test_every_damaged_history_starts_and_what_it_says_of_its_loss_is_true(tmp_path: Path) -> None:
    tally = await damage_files(tmp_path, files=60, seed=7)
    assert not tally.wrong, tally.wrong[0]
    assert not tally.refused
    assert tally.repaired > 30
    assert tally.kept > 0.7 * tally.had


async def test_a_value_that_changed_on_disk_is_not_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "history.db"
    async with opened(path) as history:
        for sequence in range(1, 5):
            web = container("web", cpu_seconds_total=1234.56789 + sequence)
            await history.add([report(sequence=sequence, containers=[web])], START)
    before, after = struct.pack(">d", 1236.56789), struct.pack(">d", 9236.56789)
    assert before in path.read_bytes()
    # Another number, and no structure is harmed.
    path.write_bytes(path.read_bytes().replace(before, after))
    async with opened(path) as history:
        kept = [each.report.sequence for each in await history.load_reports(0.0)]
    assert kept == [1, 3, 4]
    assert "kept 3 of 4 reports" in caplog.text
    assert "The damaged file is" in caplog.text


def test_rows_are_checked_by_the_values_that_they_have(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    with closing(open_for_writing(str(path))) as source:
        for container_id in range(3):
            source.execute(_ADD_BUCKET, (6_000_005, container_id))
        source.commit()
        source.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    image, key = bytearray(path.read_bytes()), (300 << 24 | 6_000_005).to_bytes(5)
    # The last row: its place is now wrong for its bucket, and a search for the right bucket finds it.
    image[image.index(key) + 3] ^= 1
    path.write_bytes(image)
    with closing(_open(str(path))) as source, closing(open_for_writing(":memory:")) as target:
        rows = _TableCopy(source, target, "container_rollups")
        rows.copy_both_ends("step = 300 AND bucket = 6000005", "container_id")
        found = target.execute("SELECT bucket, container_id FROM container_rollups").fetchall()
    assert found == [(6_000_005, 0), (6_000_005, 1)]


@pytest.mark.parametrize("share", [0.5, 0.95, 0.0])
async def test_a_file_that_was_cut_starts_with_what_is_left(
    tmp_path: Path, share: float, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "history.db"
    await fill(path, 40)
    os.truncate(path, int(path.stat().st_size * share) // PAGE * PAGE)
    async with opened(path) as history:
        assert f"kept {history.stats().reports} of 80 reports" in caplog.text
        assert await history.add([report("a", sequence=5000)], START + 8 * HOUR) == [True]


async def test_the_end_of_the_log_that_is_lost_is_noticed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, copy = tmp_path / "history.db", tmp_path / "copy.db"
    async with opened(path) as history:
        for sequence in range(1, 9):
            await history.add([report(sequence=sequence)], START)
        for suffix in ("", "-wal", ".counts"):
            shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
    os.truncate(f"{copy}-wal", os.stat(f"{copy}-wal").st_size - 5 * PAGE)  # noqa: PTH116 - not in a loop
    async with opened(copy) as history:
        kept = history.stats().reports
    assert 0 < kept < 8
    assert "commits are missing" in caplog.text
    assert f"kept {kept} of 8 reports" in caplog.text


async def test_a_read_that_meets_damage_ends_acknowledgements_and_the_next_start_repairs_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "history.db"
    await fill(path, 100)
    with closing(sqlite3.connect(path)) as other:
        (page,) = other.execute("SELECT rootpage FROM sqlite_master WHERE name = 'events_at'").fetchone()
    body = encode([report("a", sequence=1001)])
    async with (
        running(collector_settings(path), clock=Clock()) as collector,
        aiohttp.ClientSession(collector.address.url) as http,
    ):
        damage(path, (page - 1) * PAGE)
        async with http.get("/v1/events?limit=7") as answer:
            assert answer.status == 503
        async with http.post("/v1/reports", data=body, headers=JSON) as answer:
            assert answer.status == 503
            assert "is damaged" in await answer.text()
        await check_history(collector.core)
        async with http.get("/readyz") as answer:
            assert answer.status == 503
            assert "restart the collector" in await answer.text()
        async with http.get("/metrics") as answer:
            assert "wattpack_collector_history_damaged 1.0" in await answer.text()
    async with collecting(collector_settings(path)) as client:
        assert (await client.post(body))[0] == 200


async def test_damage_that_the_start_itself_meets_is_repaired_by_this_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "history.db"
    await fill(path, 100)
    with closing(sqlite3.connect(path)) as other:
        (page,) = other.execute("SELECT rootpage FROM sqlite_master WHERE name = 'reports'").fetchone()
    damage(path, (page - 1) * PAGE)
    checked = find_damage
    # As with a file that is too large to be checked before it is used.
    monkeypatch.setattr(
        connection, "find_damage", lambda file, time: checked(file, time) if time > 1 else None
    )
    async with collecting(collector_settings(path)) as collector:
        assert (await collector.post(encode([report("a", sequence=1001)])))[0] == 200


async def test_a_full_disk_is_not_taken_for_a_truncated_file(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    await fill(path, 20)
    with closing(FileWatch(str(path), 0)) as watch:
        watch.require_file()
        # The header states a size that the file could not grow to.
        with path.open("r+b") as file:
            file.seek(28)
            file.write((path.stat().st_size // PAGE + 5).to_bytes(4, "big"))
        watch.require_file()
        os.truncate(path, path.stat().st_size - PAGE)
        with pytest.raises(HistoryUnavailable, match="truncated"):
            watch.require_file()


async def test_a_file_with_two_names_has_one_collector(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    await fill(path, 2)
    (tmp_path / "other").mkdir()
    link = tmp_path / "other" / "history.db"
    link.hardlink_to(path)
    async with opened(path):
        with pytest.raises(UserError, match="under another name"):
            async with opened(link):
                pass


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
async def test_an_account_that_changed_is_found_while_it_runs_and_left_out_by_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "history.db"
    await fill(path)
    with closing(sqlite3.connect(path)) as old:
        old.execute("UPDATE node_rollups SET joules = 1234.56789 WHERE step = 3600 AND node_id = 1")
        old.commit()
        old.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before, after = struct.pack(">d", 1234.56789), struct.pack(">d", 9234.56789)
    path.write_bytes(path.read_bytes().replace(before, after))
    # As with a file that is too large to be checked at the start.
    with monkeypatch.context() as patch:
        patch.setattr(connection, "find_damage", lambda *_: None)
        async with opened(path) as history:
            await history.apply_retention(START + 6 * HOUR)
            assert "node_rollups" in history.stats().damage
            with pytest.raises(HistoryUnavailable, match="restart the collector"):
                await history.add([report(sequence=5000)], START)
    async with opened(path) as history:
        await history.apply_retention(START + 6 * HOUR)
        assert not history.stats().damage
    with closing(sqlite3.connect(path)) as new:
        hourly = "SELECT DISTINCT node_id FROM node_rollups WHERE step = 3600"
        assert new.execute(hourly).fetchall() == [(2,)]


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


@pytest.mark.slow
def test_the_check_of_a_large_file_ends_in_time_and_takes_nothing_unread_for_damage(tmp_path: Path) -> None:
    with closing(connection.open_for_writing(str(tmp_path / "history.db"))) as history:
        history.execute("BEGIN")
        history.executemany(
            "INSERT INTO events (report_id, number, at, body)"
            " VALUES (?, 1, 0, CAST(zeroblob(4000000) AS TEXT))",
            ((number,) for number in range(40)),
        )
        history.execute("COMMIT")
        began = time.monotonic()
        assert history.execute("PRAGMA integrity_check(1)").fetchone() == ("ok",)
        whole_seconds = time.monotonic() - began
        began = time.monotonic()
        assert find_damage(history, whole_seconds / 10) is None
        assert time.monotonic() - began < whole_seconds / 2


async def test_after_a_whole_check_without_damage_the_next_start_checks_no_more_than_usual(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "history.db"
    await fill(path, 20)
    damage_marker(str(path)).touch()
    monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("nobody is answered meanwhile"))
    async with opened(path) as history:
        assert history.stats().reports == 40
    assert not damage_marker(str(path)).exists()


@pytest.mark.slow
async def test_salvage_holds_few_rows_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    await fill(path, 3)
    with closing(connection.open_for_writing(str(path))) as history:
        history.execute("BEGIN")
        history.execute("INSERT INTO boots (id, node_id, name, last_used_at) VALUES (99, 1, 'other', 0)")
        history.executemany(
            "INSERT INTO containers (id, node_id, runtime_id, last_used_at, checksum)"
            " VALUES (?1, 1, ?1, 0, row_checksum(1, CAST(?1 AS TEXT), NULL, NULL))",
            ((container,) for container in range(1000, 1400)),
        )
        history.executemany(
            "INSERT INTO container_rollups (step, bucket, container_id, seconds) VALUES (300, ?, ?, 300)",
            ((bucket, container) for bucket in range(100) for container in range(1000, 1400)),
        )
        history.execute("COMMIT")
    tracemalloc.start()
    try:
        async with opened(path) as repaired:
            assert repaired.stats().reports == 6
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT count(*) FROM boots WHERE id = 99").fetchone() == (0,)
        assert other.execute("SELECT count(*) FROM container_rollups").fetchone() > (40_000,)
    assert most_bytes < 4 << 20

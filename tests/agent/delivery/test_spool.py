import logging
import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from hashlib import shake_128
from pathlib import Path
from random import Random

import pytest

from agent import config
from agent.delivery import spool
from agent.delivery.spool import Spool

DAY = 24 * 3600.0


class Clocks:
    """A wall clock that can be set, and a monotonic one that cannot."""

    def __init__(self) -> None:
        self.wall_seconds = 1_700_000_000.0
        self.monotonic_seconds = 5000.0

    def pass_time(self, seconds: float) -> None:
        self.wall_seconds += seconds
        self.monotonic_seconds += seconds

    def step(self, seconds: float) -> None:
        self.wall_seconds += seconds

    def restart_machine(self) -> None:
        self.monotonic_seconds = 10.0


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "spool.db"


Opened = Callable[..., Spool]


@pytest.fixture
def opened(path: Path, clocks: Clocks) -> Iterator[Opened]:
    """Open a spool; it is closed at the end, whatever happens."""
    made: list[Spool] = []

    def open_spool(at: Path | str = path, **settings: float) -> Spool:
        made.append(
            Spool(
                config.StorageConfig(directory=str(at and Path(at).parent), **settings),  # type: ignore[arg-type]
                wall=lambda: clocks.wall_seconds,
                monotonic=lambda: clocks.monotonic_seconds,
            )
        )
        return made[-1]

    yield open_spool
    for each in made:
        each.close()


def bodies(first: int, last: int) -> list[bytes]:
    return [b'{"sequence":%d}' % number for number in range(first, last + 1)]


def noise(seed: int, size: int) -> bytes:
    """Bytes that do not get smaller when they are packed."""
    return shake_128(b"%d" % seed).digest(size)


def why(waiting: Spool) -> str:
    """The reason of the spool's gap; empty without one."""
    return waiting.gap.why if waiting.gap else ""


def contents(waiting: Spool) -> list[bytes]:
    return [entry.body for entry in waiting.first(10_000, 1 << 30)]


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


# --- Keeping ---------------------------------------------------------------------------------


def test_reports_survive_a_restart_in_order(opened: Opened, path: Path) -> None:
    before = opened()
    before.add(bodies(1, 3))
    before.add(bodies(4, 5))
    before.close()
    after = opened()
    after.add(bodies(6, 6))
    assert contents(after) == bodies(1, 6)
    assert len(after) == 6
    assert after.gap is None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.with_name("spool.db-wal").stat().st_mode) == 0o600


def test_removed_reports_do_not_return(opened: Opened) -> None:
    before = opened()
    before.add(bodies(1, 5))
    assert before.remove(before.first(2, 1 << 20)) == 2
    before.close()
    assert contents(opened()) == bodies(3, 5)


def test_the_first_are_bounded_by_number_and_bytes_but_never_none(opened: Opened) -> None:
    waiting = opened()
    waiting.add([b"a" * 10, b"b" * 10, b"c" * 10])
    assert [entry.body[:1] for entry in waiting.first(2, 1000)] == [b"a", b"b"]
    assert [entry.body[:1] for entry in waiting.first(9, 20)] == [b"a", b"b"]
    assert [entry.body[:1] for entry in waiting.first(9, 1)] == [b"a"]


def test_sent_backlog_frees_disk_space(opened: Opened, path: Path) -> None:
    waiting = opened()
    waiting.add([noise(number, 50_000) for number in range(100)])
    full_bytes = sum(file.stat().st_size for file in path.parent.iterdir())
    assert full_bytes > 5_000_000
    while entries := waiting.first(10, 1 << 20):
        waiting.remove(entries)
    assert sum(file.stat().st_size for file in path.parent.iterdir()) < 100_000


def test_without_a_path_reports_stay_in_memory_without_a_gap(opened: Opened, tmp_path: Path) -> None:
    waiting = opened("")
    waiting.add(bodies(1, 3))
    waiting.remove(waiting.first(1, 1 << 20))
    assert contents(waiting) == bodies(2, 3)
    assert waiting.gap is None
    assert list(tmp_path.iterdir()) == []


# --- Bounds ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_huge_backlog_keeps_the_newest_within_its_size_and_counts_the_rest(
    opened: Opened, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    waiting = opened(spool_max_bytes=1 << 20)
    everything = [noise(number, 1000) for number in range(5000)]
    for number in range(0, 5000, 10):
        waiting.add(everything[number : number + 10])
    kept = len(waiting)
    assert 900 <= kept <= 1048
    assert contents(waiting) == everything[-kept:]
    assert waiting.dropped == 5000 - kept
    assert sum(file.stat().st_size for file in path.parent.iterdir()) < 7 << 20, "with SQLite's own log"
    (line,) = lines(caplog)
    assert "the oldest are dropped" in line


def test_memory_is_bounded_too(opened: Opened, caplog: pytest.LogCaptureFixture) -> None:
    waiting = opened("")
    everything = [b"%07d" % number + bytes(9_993) for number in range(2000)]
    for body in everything:
        waiting.add([body])
    assert len(waiting) == spool.MEMORY_BYTES // 10_000
    assert contents(waiting) == everything[-len(waiting) :]
    assert waiting.dropped == 2000 - len(waiting)
    assert len(lines(caplog)) == 1


@pytest.mark.parametrize("at", [None, ""], ids=["disk", "memory"])
def test_report_larger_than_the_spool_is_kept(opened: Opened, at: str | None) -> None:
    waiting = opened(spool_max_bytes=1 << 16) if at is None else opened(at, spool_max_bytes=1 << 16)
    large = noise(1, 100_000)
    waiting.add(bodies(1, 3))
    waiting.add([large])
    assert contents(waiting) == [large]
    waiting.add(bodies(4, 4))
    assert contents(waiting) == bodies(4, 4)
    assert waiting.dropped == 4


@pytest.mark.parametrize("at", [None, ""], ids=["disk", "memory"])
def test_old_reports_are_dropped_and_counted(
    opened: Opened, clocks: Clocks, at: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    waiting = opened() if at is None else opened(at)
    for number in range(1, 6):
        waiting.add(bodies(number, number))
        clocks.pass_time(DAY)
    waiting.add(bodies(6, 6))
    assert contents(waiting) == bodies(4, 6)
    assert waiting.dropped == 3
    assert len(lines(caplog)) == 1


def test_age_includes_the_time_while_the_agent_is_stopped(opened: Opened, clocks: Clocks) -> None:
    before = opened()
    before.add(bodies(1, 1))
    clocks.pass_time(1.5 * DAY)
    before.add(bodies(2, 2))
    before.close()
    clocks.pass_time(DAY)
    clocks.restart_machine()
    after = opened()
    after.add(bodies(3, 3))
    assert contents(after) == bodies(2, 3)


@pytest.mark.parametrize("step", [3 * DAY, -3 * DAY, 10 * 365 * DAY, -10 * 365 * DAY])
def test_a_stepped_clock_drops_nothing(opened: Opened, clocks: Clocks, step: float) -> None:
    before = opened()
    before.add(bodies(1, 1))
    clocks.step(step)
    clocks.pass_time(60)
    before.add(bodies(2, 2))
    before.close()
    after = opened()
    after.add(bodies(3, 3))
    assert contents(after) == bodies(1, 3)
    assert after.dropped + before.dropped == 0
    clocks.pass_time(2 * DAY - 36)
    after.add(bodies(4, 4))
    assert contents(after) == bodies(2, 4), "age goes on as if the clock had not been touched"


def test_a_clock_set_back_while_the_agent_is_away_drops_nothing(opened: Opened, clocks: Clocks) -> None:
    before = opened()
    before.add(bodies(1, 2))
    before.close()
    clocks.step(-3 * DAY)
    after = opened()
    after.add(bodies(3, 3))
    assert contents(after) == bodies(1, 3)


# --- Damage ----------------------------------------------------------------------------------


def filled(opened: Opened, path: Path, reports: int = 200) -> None:
    before = opened()
    before.add([noise(number, 500) for number in range(reports)])
    before.close()
    assert path.stat().st_size > 100_000


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2 + 123)


def overwrite_the_start(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(bytes(range(256)) * 64)


def make_it_text(path: Path) -> None:
    path.write_text("dear spool, " * 1000)


def change_its_format(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 7")
    connection.close()


def change_its_table(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("ALTER TABLE report RENAME COLUMN body TO soul")
    connection.close()


@pytest.mark.parametrize(
    "damage", [truncate, overwrite_the_start, make_it_text, change_its_format, change_its_table]
)
def test_damaged_spool_is_renamed_replaced_and_logged(
    damage: Callable[[Path], None], opened: Opened, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    filled(opened, path)
    damage(path)
    damaged = path.read_bytes()
    waiting = opened()
    waiting.add(bodies(1, 3))
    assert contents(waiting)[-3:] == bodies(1, 3)
    assert waiting.gap is None
    (aside,) = path.parent.glob("spool.db.corrupt-*")
    assert aside.read_bytes() == damaged
    (line,) = lines(caplog)
    assert "is damaged" in line
    assert aside.name in line


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_a_spool_that_was_cut_keeps_the_reports_that_can_be_read(
    share: float, opened: Opened, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    filled(opened, path)
    everything = [noise(number, 500) for number in range(200)]
    os.truncate(path, int(path.stat().st_size * share) // 4096 * 4096)
    waiting = opened()
    waiting.add(bodies(1, 1))
    found = [entry.body for entry in waiting.first(1000, 1 << 30)]
    kept = found[:-1]
    assert found[-1:] == bodies(1, 1)
    assert kept == everything[: len(kept)]
    assert len(kept) > 0.7 * share * 200
    assert f"kept the {len(kept)} report(s)" in caplog.text
    assert len(list(path.parent.glob("spool.db*"))) <= 3, "the copy that was read is removed"


@pytest.mark.slow
def test_damaged_bytes_lose_only_their_reports(
    opened: Opened, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    filled(opened, path)
    whole = path.read_bytes()
    everything = [noise(number, 500) for number in range(200)]
    chance = Random(5)  # noqa: S311 - not a secret
    for _ in range(100):
        damaged = bytearray(whole)
        for _ in range(chance.choice((1, 1, 5, 50))):
            # As often in the few bytes that say what the file is as in all the others.
            damaged[chance.randrange(chance.choice((100, len(damaged))))] = chance.randrange(256)
        path.write_bytes(damaged)
        caplog.clear()
        waiting = opened()
        waiting.add(bodies(1, 1))
        found: list[bytes] = []
        while entries := waiting.first(100, 1 << 20):
            found += [entry.body for entry in entries]
            waiting.remove(entries)
        assert found[-1:] == bodies(1, 1)
        assert set(found[:-1]) <= set(everything), "what is damaged is not sent"
        order = [everything.index(body) for body in found[:-1]]
        assert order == sorted(order)
        assert len(order) == 200 or lines(caplog), "lost reports are logged"
        waiting.close()
        for file in path.parent.iterdir():
            file.unlink()


def test_damage_while_the_spool_is_open_is_survived(
    opened: Opened, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    filled(opened, path)
    waiting = opened()
    lent = waiting.first(10, 1 << 20)
    with path.open("r+b") as file:
        file.write(b"\xff" * path.stat().st_size)
    waiting._file._connection.execute("PRAGMA shrink_memory")  # type: ignore[union-attr]
    waiting.add(bodies(1, 1))
    assert contents(waiting) == bodies(1, 1)
    waiting.remove(lent)
    assert contents(waiting) == bodies(1, 1), "those of the damaged file are not confused with the new ones"
    (line,) = lines(caplog)
    assert "is damaged" in line


def test_only_the_last_few_damaged_files_are_kept(opened: Opened, path: Path, clocks: Clocks) -> None:
    path.parent.mkdir()
    for number in range(6):
        path.write_text(f"not a spool {number}" * 100)
        waiting = opened()
        waiting.add(bodies(1, 1))
        waiting.close()
        path.unlink()
        clocks.pass_time(60)
    kept = sorted(path.parent.glob("spool.db.corrupt-*"))
    assert [file.read_text()[:13] for file in kept] == [f"not a spool {number}" for number in (3, 4, 5)]


def test_directory_or_foreign_database_is_not_touched(
    opened: Opened, path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (path / "precious").mkdir(parents=True)
    waiting = opened()
    waiting.add(bodies(1, 2))
    assert contents(waiting) == bodies(1, 2)
    assert "not a regular file" in why(waiting)
    assert (path / "precious").is_dir()

    foreign = tmp_path / "spool.db"
    connection = sqlite3.connect(foreign)
    connection.executescript("CREATE TABLE treasure (gold); INSERT INTO treasure VALUES (1)")
    connection.close()
    before = foreign.read_bytes()
    waiting = opened(foreign)
    waiting.add(bodies(1, 2))
    assert "another program" in why(waiting)
    assert foreign.read_bytes() == before
    assert len(lines(caplog)) == 2


# --- Trouble with the disk -------------------------------------------------------------------


def test_missing_directory_leaves_memory_and_a_gap(
    opened: Opened, clocks: Clocks, caplog: pytest.LogCaptureFixture
) -> None:
    waiting = opened("/proc/no/such/place/spool.db")
    for number in range(1, 11):
        waiting.add(bodies(number, number))
        clocks.pass_time(60)
    assert contents(waiting) == bodies(1, 10)
    assert waiting.gap is not None
    assert waiting.gap.what == "spool"
    assert why(waiting).endswith("reports are stored in memory only")
    (line,) = lines(caplog)
    assert "/proc/no/such/place/spool.db" in line


def test_usable_disk_gets_reports_from_memory_in_order(
    opened: Opened, path: Path, clocks: Clocks, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    before = opened()
    before.add(bodies(1, 2))
    before.close()
    path.parent.rename(path.parent.with_name("away"))
    path.parent.write_text("in the way")
    waiting = opened()
    waiting.add(bodies(3, 4))
    lent = waiting.first(1, 1 << 20)
    assert [entry.body for entry in lent] == bodies(3, 3)

    path.parent.unlink()
    path.parent.with_name("away").rename(path.parent)
    clocks.pass_time(29)
    waiting.add(bodies(5, 5))
    assert why(waiting)
    clocks.pass_time(2)
    waiting.add(bodies(6, 6))
    assert waiting.gap is None
    assert waiting.remove(lent) == 0, "it came to the collector too early, and goes again in its turn"
    assert contents(waiting) == bodies(1, 6)
    assert len(caplog.records) == 2
    waiting.close()
    assert contents(opened()) == bodies(1, 6)


def test_report_read_from_memory_is_removed_from_disk(
    opened: Opened, clocks: Clocks, caplog: pytest.LogCaptureFixture
) -> None:
    waiting = opened()
    waiting.add(bodies(1, 2))
    assert waiting._file is not None
    waiting._file._connection.execute("PRAGMA max_page_count = 1")  # what there is must do
    large = noise(1, 10_000)
    waiting.add([large])
    waiting.add(bodies(4, 4))
    assert why(waiting).endswith("the disk is full; reports are stored in memory only")
    lent = waiting.first(3, 1 << 20)
    waiting._file._connection.execute("PRAGMA max_page_count = 1000")
    clocks.pass_time(31)
    waiting.add(bodies(5, 5))
    assert waiting.gap is None
    assert waiting.remove(lent) == 3
    assert contents(waiting) == bodies(4, 5)
    assert len(lines(caplog)) == 1


def test_reports_on_disk_come_before_those_in_memory(opened: Opened) -> None:
    waiting = opened()
    waiting.add([b"first", noise(1, 1000)])
    assert waiting._file is not None
    waiting._file._connection.execute("PRAGMA max_page_count = 1")
    waiting.add([b"third", noise(2, 10_000)])
    assert why(waiting)
    assert [entry.body for entry in waiting.first(10, 100)] == [b"first"]


def test_two_agents_on_one_file_do_not_mix(
    opened: Opened, path: Path, clocks: Clocks, caplog: pytest.LogCaptureFixture
) -> None:
    program = f"""
import sys, time
from agent import config
from agent.delivery.spool import Spool
spool = Spool(config.StorageConfig(directory={str(path.parent)!r}), wall=time.time, monotonic=time.monotonic)
spool.add([b"theirs"])
print(len(spool), flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"1\n"
        ours = opened()
        ours.add([b"ours"])
        assert contents(ours) == [b"ours"]
        assert "another process uses it" in why(ours)
        (line,) = lines(caplog)
        assert "storage.directory" in line
        other.kill()
    clocks.pass_time(31)
    ours.add([b"ours too"])
    assert ours.gap is None
    assert contents(ours) == [b"theirs", b"ours", b"ours too"]

"""Thousands of damaged histories: each must start, keep what is sound, and say truly what is lost.

The files of a history are damaged in one way after another: flipped bits, cuts, zeroed and swapped pages,
in the database, its log and its counts. Each result is opened as by the start of a collector, and all that a
start reads is read. What it holds then is compared with what was there, row by row.
"""

import argparse
import asyncio
import logging
import random
import re
import shutil
import sqlite3
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from math import isclose
from pathlib import Path

from msgspec.structs import replace

from bench.common.progress import Progress
from bench.common.results import Figure, Result
from bench.trust.cluster import honest_report
from collector.common.errors import HistoryUnavailable
from collector.config import HistoryConfig
from collector.history.interface import GroupBy
from collector.history.sqlite.files.stored_reports import ReportRows, read_reports
from collector.history.sqlite.history import open_sqlite
from collector.history.sqlite.schema import ACCOUNTS, CHECKED
from wire.errors import UserError
from wire.messages import Alert, Event, EventKind, Report
from wire.resources import Resource

FILES = 5000
_PAGE = 4096
_START = 1_800_000_000.0
_NODES, _REPORTS, _REPORT_SECONDS = 3, 40, 60.0
_SUFFIXES = ("", "-wal", ".counts")
_OF = r"(\d+) of (?:at least )?(\d+|an unknown number of)"
_SENTENCE = re.compile(rf"kept {_OF} reports, {_OF} rows of energy accounts, {_OF} other rows")
_NOT_KNOWN = re.compile("at least|an unknown number|is not known")
_RESOLUTION = 0.002
"""Smaller changes of a sum are not in its checksum."""
_SHOWN = 5
_IGNORED = ("last_used_at",)
"""Says only when a row may be deleted."""

Files = Mapping[str, bytes]
Rows = Mapping[str, Mapping[tuple[object, ...], tuple[object, ...]]]
"""The rows of each table, by their keys."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--files", type=int, default=FILES, help="damaged files")
    parser.add_argument("--seed", type=int, default=0, help="the same seed makes the same files")


def run(options: argparse.Namespace, progress: Progress) -> Result:
    """Damage, start and compare."""
    with tempfile.TemporaryDirectory() as folder:
        tally = asyncio.run(damage_files(Path(folder), options.files, options.seed, progress))
    return Result(
        settings={"files": options.files, "seed": options.seed, "wrong": tally.wrong[:_SHOWN]},
        figures=(
            Figure(name="files", value=tally.files, unit="damaged files", at_least=options.files),
            Figure(name="repaired", value=tally.repaired, unit="files, of which something was set aside"),
            Figure(name="refused", value=tally.refused, unit="files, with one sentence", at_most=0),
            Figure(name="wrong", value=len(tally.wrong), unit="files", at_most=0),
            Figure(name="kept", value=100 * tally.kept / max(1, tally.had), unit="% of all rows"),
        ),
    )


@dataclass(slots=True)
class Tally:
    """What became of the damaged files."""

    files: int = 0
    repaired: int = 0
    refused: int = 0
    kept: int = 0
    had: int = 0
    wrong: list[str] = field(default_factory=list)


async def damage_files(folder: Path, files: int, seed: int, progress: Progress | None = None) -> Tally:
    """Damage this many files, and start with each."""
    images, past = await make_images(folder / "whole")
    tally = Tally()
    for number in range(files):
        chance = random.Random(f"{seed}-{number}")  # noqa: S311 - reproducible, not a secret
        what, damaged = damage(chance, images[number % len(images)])
        await _try(folder / str(number), what, damaged, past, tally)
        if progress is not None and not number % 100:
            progress.say(f"{number} files, {tally.repaired} repaired, {len(tally.wrong)} wrong")
    return tally


async def _try(folder: Path, what: str, damaged: Files, past: Sequence[Rows], tally: Tally) -> None:
    tally.files += 1
    path = _write(folder, damaged)
    with _logged() as lines:
        try:
            await _start(path)
        except UserError as error:
            tally.refused += 1
            tally.wrong.append(f"{what}: {error}")
            return
        except Exception:  # noqa: BLE001 - whatever it is
            tally.wrong.append(f"{what}: {traceback.format_exc()}")
            return
    found = next((match for line in lines if (match := _SENTENCE.search(line))), None)
    stated = None if found is None else [int(each) if each.isdigit() else None for each in found.groups()]
    # Without the end of its log, a history is as it was before.
    is_known = not any(_NOT_KNOWN.search(line) for line in lines)
    is_earlier = not is_known or any("commits are missing" in line for line in lines)
    rows = read_rows(path)
    problem = compare(past if is_earlier else past[-1:], rows, stated, is_known=is_known)
    if problem:
        tally.wrong.append(f"{what}: {problem}; {lines}")
    tally.repaired += found is not None
    tally.had += sum(map(len, past[-1].values()))
    tally.kept += sum(map(int, found.groups()[::2])) if found else sum(map(len, past[-1].values()))
    shutil.rmtree(folder)


async def _start(path: Path) -> None:
    """Read all that a start reads; once more if that finds damage, as the collector does."""
    try:
        await _read_all(path)
    except HistoryUnavailable:
        await _read_all(path)


async def _read_all(path: Path) -> None:
    async with open_sqlite(HistoryConfig(path=str(path))) as history:
        state = await history.load_state()
        await history.load_usage([f"honest-{number:04d}" for number in range(_NODES)])
        await history.load_windows(_START, {each.report.node for each in state.reports})
        await history.get_values("test")
        await history.energy(_START, _START + 1e5, GroupBy.SERVICE)


def compare(past: Sequence[Rows], after: Rows, stated: list[int | None] | None, *, is_known: bool) -> str:
    """What is not true of the kept rows, or of what was said of them; empty if all is.

    `past` are the states that the history may have; the last one is all that was there. Without the file
    of the counts, it is not known what the end of the log held.
    """
    for table, rows in after.items():
        for key, row in rows.items():
            if not any(_is_same(table, row, each[table].get(key)) for each in past):
                return f"{table} {key} is {row}, and was {past[-1][table].get(key)}"
    kept, had = _counts(after), _counts(past[-1])
    if not is_known:
        return "" if stated is None or kept == stated[::2] else f"there are {kept}, and it says {stated}"
    if stated is None:
        return "" if kept == had else f"silently kept {kept} of {had}"
    return (
        ""
        if (kept, had) == (stated[::2], stated[1::2])
        else f"there are {kept} of {had}, and it says {stated}"
    )


def _counts(rows: Rows) -> list[int]:
    groups = (("reports",), ACCOUNTS, [each for each in CHECKED if each not in ACCOUNTS])
    return [sum(len(rows[table]) for table in tables) for tables in groups]


def _is_same(table: str, row: tuple[object, ...], was: tuple[object, ...] | None) -> bool:
    if was is None or table not in ACCOUNTS:
        return row == was
    return all(
        one == other
        or (
            isinstance(one, (int, float))
            and isinstance(other, (int, float))
            and isclose(one, other, rel_tol=0, abs_tol=_RESOLUTION)
        )
        for one, other in zip(row, was, strict=True)
    )


@contextmanager
def _logged() -> Iterator[list[str]]:
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    root = logging.getLogger()
    before, root.handlers = root.handlers, [handler]
    try:
        yield lines
    finally:
        root.handlers = before


# --- A history, and its rows ----------------------------------------------------------------------------


async def make_images(folder: Path) -> tuple[list[Files], list[Rows]]:
    """The files of one history: of a collector that was killed, with a log, and of one that was stopped.

    And its rows over time.
    """
    path = folder / "history.db"
    past: list[Rows] = []
    at = _START
    async with open_sqlite(HistoryConfig(path=str(path))) as history:
        for sequence in range(1, _REPORTS + 1):
            at = _START + sequence * _REPORT_SECONDS
            for node in range(_NODES):
                await history.add([_report(node, sequence, at)], at)
            past.append(read_rows(path))
            if sequence == _REPORTS // 2:
                await history.apply_retention(at)
        for number in range(20):
            await history.put_values("test", {str(number): bytes([number]) * 700})
        past.append(read_rows(path))
        await history.apply_retention(at)
        past.append(read_rows(path))
        killed = _read(path)
    return [killed, _read(path)], past


def _report(node: int, sequence: int, at: float) -> Report:
    seconds = sequence * _REPORT_SECONDS
    report = honest_report(node, sequence, at, seconds)
    if sequence % 7:
        return report
    first = report.containers[0]
    event = Event(EventKind.DIED, at, first.id, first.name, exit_code=1, joules_total=seconds)
    alert = Alert(Resource.CPU, _START, "CPU at 97 %", ratio=0.97, container=first.id)
    return replace(report, events=(event,), alerts=(alert,))


def _read(path: Path) -> Files:
    return {
        suffix: Path(f"{path}{suffix}").read_bytes()
        for suffix in _SUFFIXES
        if Path(f"{path}{suffix}").exists()
    }


def _write(folder: Path, files: Files) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "history.db"
    for suffix, content in files.items():
        Path(f"{path}{suffix}").write_bytes(content)
    return path


def read_rows(path: Path) -> Rows:
    """The rows of a sound history; reports with their samples and events."""
    found: dict[str, dict[tuple[object, ...], tuple[object, ...]]] = {}
    with closing(sqlite3.connect(path)) as connection:
        for table in CHECKED:
            info = [
                each for each in connection.execute(f"PRAGMA table_info({table})") if each[1] not in _IGNORED
            ]
            keys = [place for place, each in enumerate(info) if each[5]]
            columns = ", ".join(each[1] for each in info)
            rows = connection.execute(f"SELECT {columns} FROM {table}").fetchall()  # noqa: S608 - names of ours
            found[table] = {tuple(row[place] for place in keys) if keys else row: row for row in rows}
        found["reports"] = {(each.row[0],): _values(each) for each in read_reports(connection, 0, 1 << 40)}
    return found


def _values(report: ReportRows) -> tuple[object, ...]:
    return (report.row, report.node, tuple(report.containers), tuple(report.events))


# --- Damage ---------------------------------------------------------------------------------------------


def damage(chance: random.Random, files: Files) -> tuple[str, Files]:
    """Damage one of the files, or two; returns how as well."""
    damaged, what = dict(files), []
    for _ in range(chance.choice((1, 1, 1, 2))):
        suffix = chance.choice(("", "", "", "-wal", ".counts"))
        if damaged.get(suffix):
            kind = chance.choice([*_KINDS])
            damaged[suffix] = _KINDS[kind](chance, damaged[suffix])
            what.append(f"{kind} in history.db{suffix}")
    if not what:
        return damage(chance, files)
    return " and ".join(what), damaged


def _flip(chance: random.Random, data: bytes) -> bytes:
    flipped = bytearray(data)
    for _ in range(chance.choice((1, 3, 20, 200))):
        flipped[chance.randrange(len(flipped))] ^= 1 << chance.randrange(8)
    return bytes(flipped)


def _flip_header(chance: random.Random, data: bytes) -> bytes:
    flipped = bytearray(data)
    flipped[chance.randrange(min(100, len(flipped)))] ^= 1 << chance.randrange(8)
    return bytes(flipped)


def _cut(chance: random.Random, data: bytes) -> bytes:
    return data[: chance.choice((len(data) - _PAGE, len(data) // 2, chance.randrange(len(data)), 0))]


def _zero(chance: random.Random, data: bytes) -> bytes:
    place = chance.randrange(len(data)) // _PAGE * _PAGE
    return data[:place] + bytes(len(data[place : place + _PAGE])) + data[place + _PAGE :]


def _noise(chance: random.Random, data: bytes) -> bytes:
    place, size = chance.randrange(len(data)), chance.choice((16, 512, _PAGE))
    return data[:place] + chance.randbytes(len(data[place : place + size])) + data[place + size :]


def _swap(chance: random.Random, data: bytes) -> bytes:
    first, second = (chance.randrange(-(-len(data) // _PAGE)) * _PAGE for _ in range(2))
    swapped = bytearray(data)
    one, other = data[first : first + _PAGE], data[second : second + _PAGE]
    if len(one) == len(other):
        swapped[first : first + _PAGE], swapped[second : second + _PAGE] = other, one
    return bytes(swapped)


_KINDS: Mapping[str, Callable[[random.Random, bytes], bytes]] = {
    "flipped bits": _flip,
    "a flipped bit of the header": _flip_header,
    "a cut": _cut,
    "a zeroed page": _zero,
    "noise": _noise,
    "swapped pages": _swap,
}

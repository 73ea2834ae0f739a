"""The processes of the benchmark: servers and load generators; and what a collector has stored."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import msgspec
import psutil

from bench.common.listening import await_url
from bench.ingest.load_generator import LoadOutcome, LoadSettings
from wire.errors import UserError

_TIMEOUT_SECONDS = 60.0
_LOAD_GENERATOR = "bench.ingest.load_generator"


def run_collector(
    folder: Path, cores: Sequence[int] = (), settings: str = ""
) -> AbstractContextManager[tuple[psutil.Popen, str]]:
    """Run the real command with its history in a folder while the block runs."""
    config = folder / "collector.toml"
    config.write_text(f'[http]\nlisten = "127.0.0.1:0"\n[history]\npath = "{database(folder)}"\n{settings}')
    return run_server(folder, "collector", ["wattpack", "collector", "--config", str(config)], cores)


@contextmanager
def run_server(
    folder: Path, name: str, command: Sequence[str], cores: Sequence[int] = ()
) -> Iterator[tuple[psutil.Popen, str]]:
    """Run a module while the block runs, on some cores or on all; yields its process and address."""
    log = folder / f"{name}.log"
    with log.open("w") as output:
        process = psutil.Popen([sys.executable, "-m", *command], stdout=output, stderr=subprocess.STDOUT)
    try:
        if cores:
            process.cpu_affinity(list(cores))
        yield process, await_url(process, log).removeprefix("http://")
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(_TIMEOUT_SECONDS)
            except psutil.TimeoutExpired:
                process.kill()


@contextmanager
def run_generator(
    settings: msgspec.Struct, cores: Sequence[int] = (), module: str = _LOAD_GENERATOR
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a generator while the block runs; it has started when it has printed a line."""
    with subprocess.Popen(
        [sys.executable, "-m", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as generator:
        try:
            if cores:
                os.sched_setaffinity(generator.pid, cores)
            assert generator.stdin is not None
            generator.stdin.write(msgspec.json.encode(settings))
            generator.stdin.close()
            assert generator.stdout is not None
            generator.stdout.readline()
            yield generator
        finally:
            generator.kill()


def read_output(generator: "subprocess.Popen[bytes]") -> bytes:
    """Wait for a generator; returns its outcome, or raises `UserError` if it failed."""
    assert generator.stdout is not None
    output = generator.stdout.read()
    if not output:
        raise UserError("the load generator ended without a result: see its output above")
    return output


def read_outcome(generator: "subprocess.Popen[bytes]") -> LoadOutcome:
    """Wait for the outcome of a load."""
    return msgspec.msgpack.decode(read_output(generator), type=LoadOutcome)


def send(settings: LoadSettings, cores: Sequence[int] = ()) -> LoadOutcome:
    """Send a load, and wait for its outcome."""
    with run_generator(settings, cores) as generator:
        return read_outcome(generator)


def worker_of(process: psutil.Process | psutil.Popen) -> psutil.Process | None:
    """The process in which a collector computes; None while it is started again."""
    return next(iter(process.children()), None)


def cpu_seconds(process: psutil.Process | psutil.Popen | None) -> float:
    """CPU time of a process, without its children."""
    return 0.0 if process is None else float(sum(process.cpu_times()[:2]))


def resident_mb(process: psutil.Process | psutil.Popen | None) -> float:
    """Resident memory of a process."""
    return 0.0 if process is None else process.memory_info().rss / 1e6


def database(folder: Path) -> Path:
    """The file of the history of a collector in a folder."""
    return folder / "collector.db"


def history_mb(folder: Path) -> float:
    """Size of the history with its journal."""
    return sum(each.stat().st_size for each in folder.glob("collector.db*")) / 1e6


def count_stored(folder: Path) -> Mapping[tuple[str, int], int]:
    """Count how often each report is in the history."""
    with closing(sqlite3.connect(database(folder))) as connection:
        rows = connection.execute(
            "SELECT n.name, r.sequence, count(*) FROM reports r JOIN boots b ON b.id = r.boot_id "
            "JOIN nodes n ON n.id = b.node_id GROUP BY 1, 2"
        )
        return {(node, sequence): times for node, sequence, times in rows}


def quantile_milliseconds(seconds: Sequence[float], ratio: float) -> float | None:
    """A quantile of latencies, or None without any."""
    ordered = sorted(seconds)
    return 1000 * ordered[min(len(ordered) - 1, int(ratio * len(ordered)))] if ordered else None

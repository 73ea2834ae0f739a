"""A day of faults on real processes with a compressed clock: no acknowledged report is lost or stored twice.

The collector is killed, its disk fills up, its clock is set, a page of its file is damaged, nodes lose their
network, and a token is revoked, one after another, while nodes keep reporting.
"""

import argparse
import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import aiohttp

from bench.common.listening import await_url
from bench.common.progress import Progress
from bench.common.results import Figure, Result
from bench.trust.cluster import HonestNode, honest_report, node_name, watts_of
from bench.trust.collector import compressed_time
from collector.serve.web.scopes import Scope
from collector.serve.web.tokens import edit_tokens, make_token

_NODES = 10
_REPORT_SECONDS = 120.0
"""Simulated time between two reports of a node."""
_HOURS_PER_MINUTE = 6.0
"""Simulated hours per minute of the run."""
_DISK_BYTES = 96 << 20
_PAGE_BYTES = 4096
_MOST_ENERGY_RATIO = 0.001
_STEPS = (366 * 86_400.0, -3600.0, 3600.0, 1.0, -366 * 86_400.0)


async def run_faults(options: argparse.Namespace, progress: Progress) -> Result:
    """Run the schedule of faults, and compare acknowledged with stored reports."""
    with tempfile.TemporaryDirectory() as name, _disk(Path(name)) as is_small:
        run = _FaultRun(Path(name), options.hours, progress, is_small=is_small)
        await run.run()
        return Result(
            settings={"hours": options.hours, "nodes": _NODES, "small_disk": is_small},
            figures=tuple(run.figures()),
        )


@contextmanager
def _disk(folder: Path) -> Iterator[bool]:
    """Mount a small file system for the history, if the user may do that; yields whether it is mounted."""
    disk = folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "trust", str(disk)]
    is_small = os.geteuid() == 0 and subprocess.run(mount, check=False).returncode == 0
    try:
        yield is_small
    finally:
        if is_small:
            subprocess.run(["umount", "-l", str(disk)], check=False)


class _FaultRun:
    """One run of nodes, collector and faults."""

    def __init__(self, folder: Path, hours: float, progress: Progress, *, is_small: bool) -> None:
        self._folder, self._hours, self._progress = folder, hours, progress
        self._speed = _HOURS_PER_MINUTE * 60.0
        self._began_at = time.time()
        self._nodes: list[HonestNode] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._url = ""
        self._offset(0.0)
        self.faults: Counter[str] = Counter()
        self._lost_to_damage: set[tuple[str, int]] = set()
        self._schedule: list[Callable[[aiohttp.ClientSession], Coroutine[None, None, None]]] = [
            self._kill,
            *((self._fill_disk,) if is_small else ()),
            self._step_clock,
            self._damage_page,
            self._partition,
            self._revoke_token,
        ]
        self._stored: list[tuple[str, int]] = []
        self._joules: dict[str, float] = {}

    async def run(self) -> None:
        secrets = self._make_tokens()
        self._nodes = [HonestNode(number, secrets[node_name(number)]) for number in range(_NODES)]
        self._start()
        try:
            async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as http:
                await self._report(http)
                await self._settle(http, secrets["reader"])
        finally:
            self._stop(signal.SIGTERM)
        self._stored += self._read_stored()

    async def _report(self, http: aiohttp.ClientSession) -> None:
        rounds = int(self._hours * 3600 / _REPORT_SECONDS)
        every = max(1, rounds // max(8, int(self._hours)))
        fault: asyncio.Task[None] | None = None
        for number in range(rounds):
            seconds = number * _REPORT_SECONDS
            ahead = self._began_at + seconds - compressed_time(self._speed, self._began_at)
            await asyncio.sleep(max(0.0, ahead / self._speed))
            for node in self._nodes:
                at = self._began_at + seconds
                node.pending.append(honest_report(node.number, number + 1, at, seconds))
            await asyncio.gather(*(node.flush(http, self._url, tries=1) for node in self._nodes))
            if number % every == every // 2 and (fault is None or fault.done()):
                chosen = self._schedule[sum(self.faults.values()) % len(self._schedule)]
                self.faults[chosen.__name__.strip("_")] += 1
                fault = asyncio.create_task(chosen(http))
        if fault is not None:
            await fault

    async def _settle(self, http: aiohttp.ClientSession, secret: str) -> None:
        self._offset(0.0)
        for node in self._nodes:
            node.is_cut_off = False
            await node.flush(http, self._url, tries=100)
        await asyncio.sleep(65)  # a pass of retention, which rolls energy up
        period = f"start={self._began_at - 86_400}&end={self._began_at + 30 * 86_400}"
        address = f"{self._url}/v1/energy?by=node&{period}"
        async with http.get(address, headers={"Authorization": f"Bearer {secret}"}) as response:
            found = await response.json()
        self._joules = {each["key"]: each["joules"] for each in found.get("accounts", ())}

    def figures(self) -> Iterator[Figure]:
        acknowledged = {
            (node_name(node.number), sequence) for node in self._nodes for sequence in node.acknowledged
        }
        missing = acknowledged - set(self._stored)
        rounds = int(self._hours * 3600 / _REPORT_SECONDS)
        errors = [
            abs(
                self._joules.get(node_name(number), 0.0) / (watts_of(number) * _REPORT_SECONDS * (rounds - 1))
                - 1
            )
            for number in range(_NODES)
        ]
        for name, count in sorted(self.faults.items()):
            yield Figure(name=f"faults_{name}", value=count, unit="faults", at_least=1)
        yield Figure(name="acknowledged", value=len(acknowledged), unit="reports", at_least=_NODES * rounds)
        yield Figure(name="missing", value=len(missing - self._lost_to_damage), unit="reports", at_most=0)
        yield Figure(name="lost_on_damaged_pages", value=len(missing & self._lost_to_damage), unit="reports")
        yield Figure(
            name="counted_twice", value=len(self._stored) - len(set(self._stored)), unit="reports", at_most=0
        )
        yield Figure(
            name="unsent", value=sum(len(node.pending) for node in self._nodes), unit="reports", at_most=0
        )
        yield Figure(name="energy_error", value=max(errors), unit="ratio", at_most=_MOST_ENERGY_RATIO)

    # --- Faults -----------------------------------------------------------------------------

    async def _kill(self, _http: aiohttp.ClientSession) -> None:
        self._stop(signal.SIGKILL)
        await asyncio.sleep(0.5)
        await asyncio.to_thread(self._start)

    async def _fill_disk(self, _http: aiohttp.ClientSession) -> None:
        ballast = self._folder / "disk" / "ballast"
        with ballast.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(1 << 16))
            except OSError:
                pass
        await asyncio.sleep(2.0)
        ballast.unlink()

    async def _step_clock(self, _http: aiohttp.ClientSession) -> None:
        self._offset(_STEPS[self.faults["step_clock"] % len(_STEPS)])
        await asyncio.sleep(3.0)
        if self.faults["step_clock"] % 2:
            # The clock is also wrong at a start.
            self._stop(signal.SIGTERM)
            await asyncio.to_thread(self._start)
        self._offset(0.0)

    async def _damage_page(self, _http: aiohttp.ClientSession) -> None:
        self._stop(signal.SIGTERM)
        before = set(await asyncio.to_thread(self._read_stored))
        path = self._folder / "disk" / "history.db"
        with path.open("r+b") as file:
            pages = path.stat().st_size // _PAGE_BYTES
            file.seek(_PAGE_BYTES * (pages * 3 // 4))
            file.write(os.urandom(_PAGE_BYTES))
        await asyncio.to_thread(self._start)
        # The collector sets the damaged page aside; only reports on that page may be lost.
        self._lost_to_damage |= before - set(await asyncio.to_thread(self._read_stored))
        for aside in (self._folder / "disk").glob("*.damaged-*"):
            aside.unlink()

    async def _partition(self, _http: aiohttp.ClientSession) -> None:
        half = self._nodes[::2]
        for node in half:
            node.is_cut_off = True
        await asyncio.sleep(5.0)
        for node in half:
            node.is_cut_off = False

    async def _revoke_token(self, _http: aiohttp.ClientSession) -> None:
        node = self._nodes[0]
        name = node_name(node.number)
        with edit_tokens(self._folder / "tokens.jsonl") as tokens:
            tokens[:] = [token for token in tokens if token.name != name]
        await asyncio.sleep(3.0)
        token, node.secret = make_token(Scope.NODE, name, time.time())
        with edit_tokens(self._folder / "tokens.jsonl") as tokens:
            tokens.append(token)

    # --- The collector ----------------------------------------------------------------------

    def _start(self) -> None:
        log = self._folder / f"log-{time.monotonic_ns()}"
        command = [sys.executable, "-m", "bench.trust.collector", str(self._folder)]
        command += [str(self._speed), repr(self._began_at)]
        with log.open("w") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output)
        self._url = await_url(self._process, log)

    def _stop(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(60)

    def _offset(self, seconds: float) -> None:
        part = self._folder / "offset.part"
        part.write_text(str(seconds))
        part.rename(self._folder / "offset")

    def _make_tokens(self) -> dict[str, str]:
        secrets = {}
        with edit_tokens(self._folder / "tokens.jsonl") as tokens:
            for scope, name in [
                *((Scope.NODE, node_name(number)) for number in range(_NODES)),
                (Scope.READ, "reader"),
            ]:
                token, secrets[name] = make_token(scope, name, time.time())
                tokens.append(token)
        return secrets

    def _read_stored(self) -> list[tuple[str, int]]:
        with closing(sqlite3.connect(self._folder / "disk" / "history.db")) as connection:
            return connection.execute(
                "SELECT n.name, r.sequence FROM reports r JOIN boots b ON b.id = r.boot_id"
                " JOIN nodes n ON n.id = b.node_id"
            ).fetchall()

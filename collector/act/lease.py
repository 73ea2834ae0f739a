"""The lease of the collector that acts: one row in an SQLite file that all collectors share.

One transaction compares and writes, so that only one of two collectors succeeds. The holder is a process: one
that runs on a copy of the history is another one, and so is one that restarts, which waits after a kill.

Clocks of collectors differ and can be set, so no time in the file counts. Each renewal increments a number.
The holder has the lease for some seconds after its last renewal, by its own monotonic clock; another
collector takes it only after it has read the same number for at least as long, by its own.
"""

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import NamedTuple

from collector.common.clocks import seconds_since_boot
from collector.config import CollectorConfig
from collector.history.sqlite.files.connection import IN_MEMORY
from wire.errors import UserError

_NAME = "acting-lease.db"
_BUSY_SECONDS = 5.0
_TABLE = """
CREATE TABLE IF NOT EXISTS acting_lease (
    id INTEGER PRIMARY KEY CHECK (id = 1), holder TEXT NOT NULL, renewals INTEGER NOT NULL,
    seconds REAL NOT NULL, renewed_at REAL NOT NULL
)
"""
_TAKE = """
REPLACE INTO acting_lease (id, holder, renewals, seconds, renewed_at) VALUES (1, ?, ?, ?, ?)
"""
_RECORD = "SELECT holder, renewals, seconds, renewed_at FROM acting_lease"
_GIVE_BACK = "UPDATE acting_lease SET renewals = renewals + 1, seconds = 0 WHERE holder = ?"


class _Record(NamedTuple):
    holder: str
    renewals: int
    seconds: float
    """Validity after a renewal; 0 if the lease was given back."""
    renewed_at: float
    """Time of the renewal by the holder's clock, only to compare clocks."""


class LeaseLostError(UserError):
    """Another collector may act: what this one began is recovered when it holds the lease again."""

    def __init__(self, holder: str) -> None:
        super().__init__(
            f"the lease was lost in the middle of an action, and is held by: {holder}. The action is"
            " completed or undone as soon as this collector holds the lease again"
        )


@dataclass(frozen=True, slots=True)
class LeaseStatus:
    """The result of an attempt to take the lease."""

    mine: bool
    holder: str
    before: str | None = None
    """The previous holder, if the lease was just taken from another."""
    skew_seconds: float | None = None
    """How far the clock of another holder is ahead of this one; None if unknown.

    Too low by up to the time between two renewals.
    """


def lease_path(config: CollectorConfig) -> Path:
    """Return the path of the lease. Raise `UserError` if the collectors would not share it."""
    if config.control.lease_file:
        return Path(config.control.lease_file)
    if config.history.store == "prometheus":
        raise UserError(
            "a Prometheus store cannot hold the lease that keeps two collectors from acting at once: set "
            "control.lease_file to a file on a disk that they share, or driver.name to none"
        )
    if config.history.path == IN_MEMORY:
        raise UserError(
            "to act, a collector needs a history on disk: set history.path to a file, or driver.name to none"
        )
    return Path(config.history.path).resolve().parent / _NAME


class Lease:
    """One collector's access to the lease."""

    def __init__(
        self,
        path: Path,
        holder: str,
        seconds: float,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = seconds_since_boot,
    ) -> None:
        self._path, self._holder, self._seconds = path, holder, seconds
        self._clock, self._monotonic = clock, monotonic
        self._mine_until = -inf
        self._last_read: tuple[_Record, float] | None = None
        """The last record of another holder, and when this collector first read it."""
        self._skew_seconds: float | None = None

    async def take(self) -> LeaseStatus:
        """Take or renew the lease, unless another holds it."""
        began = self._monotonic()
        held = await asyncio.to_thread(self._take)
        # Counted from before the write, so that it ends here before it ends for collectors that read it.
        self._mine_until = began + self._seconds if held.mine else -inf
        return held

    @property
    def is_mine(self) -> bool:
        """Whether it was held at the last attempt and has not expired since."""
        return self._monotonic() < self._mine_until

    async def give_back(self) -> None:
        self._mine_until = -inf
        await asyncio.to_thread(self._give_back)

    def _take(self) -> LeaseStatus:
        try:
            with closing(self._open()) as connection, connection:
                connection.execute("BEGIN IMMEDIATE")
                row = connection.execute(_RECORD).fetchone()
                last = None if row is None else _Record(*row)
                if last is not None and last.holder != self._holder and not self._has_expired(last):
                    return LeaseStatus(mine=False, holder=last.holder, skew_seconds=self._skew_seconds)
                renewals = 0 if last is None else last.renewals + 1
                connection.execute(_TAKE, (self._holder, renewals, self._seconds, self._clock()))
        except (sqlite3.Error, OSError, TypeError, ValueError) as error:
            # A collector that cannot read the lease must not act.
            what = "if it is damaged, stop all collectors that share it, and delete it"
            return LeaseStatus(mine=False, holder=f"unknown (cannot read {self._path}: {error}; {what})")
        before = last.holder if last is not None and last.holder != self._holder else None
        return LeaseStatus(mine=True, holder=self._holder, before=before)

    def _has_expired(self, record: _Record) -> bool:
        now = self._monotonic()
        if self._last_read is None or self._last_read[0] != record:
            if self._last_read is not None:
                # It was renewed since the last look.
                self._skew_seconds = record.renewed_at - self._clock()
            self._last_read = (record, now)
        # The holder may have a longer lease than this collector would take.
        return not record.seconds or now - self._last_read[1] >= max(record.seconds, self._seconds)

    def _give_back(self) -> None:
        try:
            with closing(self._open()) as connection, connection:
                connection.execute(_GIVE_BACK, (self._holder,))
        except (sqlite3.Error, OSError):
            # It expires.
            return

    def _open(self) -> sqlite3.Connection:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(self._path, timeout=_BUSY_SECONDS)
        connection.execute(_TABLE)
        return connection

"""The lease of the collector that acts: one row in an SQLite file that all collectors share.

One statement compares and writes, so that only one of two collectors succeeds. A lease that is not renewed
expires. A collector that restarts on the same history has the same identity, and keeps its lease.
"""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from collector.config import CollectorConfig
from collector.history.sqlite.connection import IN_MEMORY
from wire.errors import UserError

_NAME = "acting-lease.db"
_BUSY_SECONDS = 5.0
_TABLE = """
CREATE TABLE IF NOT EXISTS lease (
    id INTEGER PRIMARY KEY CHECK (id = 1), holder TEXT NOT NULL, expires_at REAL NOT NULL
)
"""
_TAKE = """
INSERT INTO lease (id, holder, expires_at) VALUES (1, :holder, :until)
ON CONFLICT (id) DO UPDATE SET holder = :holder, expires_at = :until
WHERE lease.holder = :holder OR lease.expires_at <= :now
"""
_WHO = "SELECT holder, expires_at FROM lease"
_GIVE_BACK = "UPDATE lease SET expires_at = 0 WHERE holder = ?"


@dataclass(frozen=True, slots=True)
class Held:
    """The result of an attempt to take the lease."""

    mine: bool
    holder: str
    until: float
    before: str | None = None
    """The previous holder, if the lease was just taken from another."""


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

    def __init__(self, path: Path, holder: str, seconds: float, clock: Callable[[], float]) -> None:
        self._path, self._holder, self._seconds, self._clock = path, holder, seconds, clock
        self._until = 0.0

    async def take(self) -> Held:
        """Take or renew the lease, unless another holds it."""
        held = await asyncio.to_thread(self._take)
        self._until = held.until if held.mine else 0.0
        return held

    @property
    def is_mine(self) -> bool:
        """Whether it was held at the last attempt and has not expired since."""
        return self._clock() < self._until

    async def give_back(self) -> None:
        """Release the lease for others."""
        self._until = 0.0
        await asyncio.to_thread(self._give_back)

    def _take(self) -> Held:
        try:
            with closing(self._open()) as connection:
                now = self._clock()
                with connection:
                    connection.execute("BEGIN IMMEDIATE")
                    last = connection.execute(_WHO).fetchone()
                    changed = connection.execute(
                        _TAKE, {"holder": self._holder, "until": now + self._seconds, "now": now}
                    ).rowcount
                holder, until = connection.execute(_WHO).fetchone()
        except (sqlite3.Error, OSError) as error:
            # A collector that cannot read the lease must not act.
            return Held(mine=False, holder=f"unknown (cannot read {self._path}: {error})", until=0.0)
        before = last[0] if last is not None and last[0] != holder else None
        return Held(changed == 1, holder, until, before)

    def _give_back(self) -> None:
        try:
            with closing(self._open()) as connection, connection:
                connection.execute(_GIVE_BACK, (self._holder,))
        except (sqlite3.Error, OSError):
            # It expires.
            return

    def _open(self) -> sqlite3.Connection:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self._path, timeout=_BUSY_SECONDS)
        connection.execute(_TABLE)
        return connection

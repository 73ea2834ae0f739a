"""How much a history holds, in a small file next to it: after damage, it is known what is lost.

The counts are rows of the history itself, so each commit changes them with what they count. After each commit
they are copied to the file, which is not flushed: it may lag after a power failure, but is never ahead.
"""

import os
import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self
from zlib import crc32

import msgspec

from collector.history.sqlite.schema import ACCOUNTS, COUNTED, VERSION

_MODE, _LENGTH = 0o600, 1024
_READ = "SELECT name, rows FROM counts"


class Counts(msgspec.Struct, frozen=True):
    """The rows of each counted table, and the number of commits."""

    rows: Mapping[str, int]
    version: int = VERSION

    @classmethod
    def read(cls, connection: sqlite3.Connection) -> Self:
        """The counts in a history."""
        return cls(dict(connection.execute(_READ)))

    @classmethod
    def read_file(cls, path: str) -> Self | None:
        """The counts next to a history; None if the file is missing or damaged."""
        try:
            text, _, checksum = Path(counts_path(path)).read_bytes().rstrip(b"\n ").rpartition(b" ")
            return msgspec.json.decode(text, type=cls) if checksum == b"%08x" % crc32(text) else None
        except (OSError, msgspec.DecodeError):
            return None

    @property
    def commits(self) -> int:
        return self.rows.get("commits", 0)

    @property
    def reports(self) -> int:
        return self.rows.get("reports", 0)

    @property
    def accounts(self) -> int:
        return sum(self.rows.get(table, 0) for table in ACCOUNTS)

    @property
    def others(self) -> int:
        return sum(self.rows.get(table, 0) for table in COUNTED) - self.reports - self.accounts


class CountsFile:
    """The file with the counts of an open history."""

    def __init__(self, path: str) -> None:
        self._file = os.open(counts_path(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)

    def write(self, counts: Counts) -> None:
        """Store the counts; a disk that is full does not matter until there is damage."""
        text = msgspec.json.encode(counts)
        with suppress(OSError):
            os.pwrite(self._file, (text + b" %08x" % crc32(text)).ljust(_LENGTH - 1) + b"\n", 0)

    def close(self) -> None:
        os.close(self._file)


def counts_path(path: str) -> str:
    """The file with the counts of a history."""
    return f"{path}.counts"

"""Reports that the collector has not accepted yet: on disk if possible, else in memory.

Nothing here raises. Everything blocks, and belongs to one thread other than that of the event loop.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from agent.config import StorageConfig
from agent.delivery.spool_file import (
    Entry,
    SpoolDamagedError,
    SpoolFile,
    SpoolFullError,
    SpoolUnusableError,
    move_aside,
    read_damaged,
)
from wire.messages import MAX_TEXT_LENGTH, Gap

log = logging.getLogger(__name__)

MEMORY_BYTES = 8 << 20
"""Maximum size of reports in memory: enough for hours, and a small part of the agent's memory."""
_TRY_DISK_SECONDS = 30.0
MAX_AGE_SECONDS = 48 * 3600.0
"""Age at which a report is deleted."""


class Spool:
    """A queue of reports, bounded by size and age; those in the file come before those in memory."""

    def __init__(
        self, settings: StorageConfig, *, wall: Callable[[], float], monotonic: Callable[[], float]
    ) -> None:
        self._path = settings.spool
        self._max_bytes = settings.spool_max_bytes
        self._wall = wall
        self._monotonic = monotonic
        self._file: SpoolFile | None = None
        self._memory: deque[Entry] = deque()
        self._memory_bytes = 0
        self._try_disk_at = 0.0
        self._is_dropping = False
        self.dropped = 0
        self.gap: Gap | None = None
        """Why reports are stored in memory only."""

    def __len__(self) -> int:
        return len(self._memory) + (self._file.count if self._file else 0)

    @property
    def size_bytes(self) -> int:
        """Size on disk and in memory; any thread may call this."""
        file = self._file
        return self._memory_bytes + (file.size_bytes if file is not None else 0)

    def add(self, bodies: Sequence[bytes]) -> None:
        """Store reports, and drop the oldest beyond the bounds."""
        now = self._monotonic()
        for body in bodies:
            self._memory.append(Entry(body, now))
            self._memory_bytes += len(body)
        self._store()
        self._drop()

    def first(self, max_count: int, max_bytes: int) -> list[Entry]:
        """The oldest reports, in order: as many as fit, at least one if there is any."""
        self._store()
        found: list[Entry] = []
        if self._file is not None:
            try:
                found = self._file.first(max_count, max_bytes)
            except (SpoolUnusableError, SpoolDamagedError) as error:
                self._close_failed_file(error)
            else:
                damaged, self._file.damaged_reports = self._file.damaged_reports, 0
                if damaged:
                    log.error("dropped %d damaged report(s) in the spool %s", damaged, self._path)
                    self.dropped += damaged
        if self._file is None or len(found) == self._file.count:
            room = max_bytes - sum(len(entry.body) for entry in found)
            for entry in islice(self._memory, max_count - len(found)):
                room -= len(entry.body)
                if found and room < 0:
                    break
                found.append(entry)
        return found

    def remove(self, entries: Sequence[Entry]) -> int:
        """Remove entries that `first` returned; returns how many were still there."""
        removed = 0
        while self._memory and self._memory[0] in entries:
            self._memory_bytes -= len(self._memory.popleft().body)
            removed += 1
        rows = [entry.row for entry in entries if entry.row is not None and entry.file is self._file]
        if self._file is not None and rows:
            try:
                removed += self._file.remove(rows[0], rows[-1])
            except (SpoolUnusableError, SpoolDamagedError) as error:
                self._close_failed_file(error)
        if not len(self):
            self._is_dropping = False
        return removed

    def close(self) -> None:
        """Close the file; reports that are only in memory are lost, with a warning."""
        if self._memory:
            self._try_disk_at = self._monotonic()
            self._store()
        if self._memory:
            log.warning("%d unsent report(s) in memory are lost: check storage.directory", len(self._memory))
        if self._file is not None:
            self._file.close()
            self._file = None

    # --- Between memory and disk ------------------------------------------------------------

    def _store(self) -> None:
        """Move reports from memory to the file, if it is usable."""
        if self._path is None or self._monotonic() < self._try_disk_at:
            return
        try:
            if self._file is None:
                self._file = self._open(self._path)
            if self._memory:
                self._append(self._file, self._path)
        except SpoolFullError as error:
            self._fall_back_to_memory(str(error))
        except (SpoolUnusableError, SpoolDamagedError) as error:
            self._close_failed_file(error)

    def _open(self, path: Path) -> SpoolFile:
        try:
            return SpoolFile.open(path, wall=self._wall(), monotonic=self._monotonic())
        except SpoolDamagedError as error:
            return self._replace_damaged(path, error)

    def _append(self, file: SpoolFile, path: Path) -> None:
        try:
            file.append(self._memory, self._wall())
        except SpoolFullError:
            if file.count:
                raise
            # It is empty, but takes up space that a new file can use.
            file.discard()
            self._file = None
            self._file = self._open(path)
            self._file.append(self._memory, self._wall())
        self._memory.clear()
        self._memory_bytes = 0
        # Only a successful write shows that the disk works.
        if self.gap is not None:
            log.info("the spool %s works again: reports are stored on disk", path)
            self.gap = None

    def _close_failed_file(self, error: SpoolUnusableError | SpoolDamagedError) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        if isinstance(error, SpoolDamagedError) and self._path is not None:
            try:
                self._file = self._replace_damaged(self._path, error)
            except SpoolUnusableError as unusable:
                error = unusable
            else:
                return
        self._fall_back_to_memory(str(error))

    def _replace_damaged(self, path: Path, why: SpoolDamagedError) -> SpoolFile:
        aside = move_aside(path, self._wall())
        try:
            file = SpoolFile.open(path, wall=self._wall(), monotonic=self._monotonic())
        except SpoolDamagedError as error:
            raise SpoolUnusableError(str(error)) from error
        kept = 0
        for bodies in read_damaged(aside):
            now = self._monotonic()
            with suppress(SpoolUnusableError):
                file.append([Entry(body, now) for body in bodies], self._wall())
                kept += len(bodies)
        log.error(
            "the spool %s is damaged (%s): renamed to %s, and kept the %d report(s) that can be read",
            path,
            why,
            aside.name,
            kept,
        )
        return file

    def _fall_back_to_memory(self, why: str) -> None:
        self._try_disk_at = self._monotonic() + _TRY_DISK_SECONDS
        gap = Gap("spool", f"{self._path}: {why}; reports are stored in memory only"[:MAX_TEXT_LENGTH])
        if gap != self.gap:
            log.warning("cannot use the spool %s (%s): reports are stored in memory only", self._path, why)
        self.gap = gap

    # --- Bounds -----------------------------------------------------------------------------

    def _drop(self) -> None:
        now = self._monotonic()
        dropped = 0
        if self._file is not None:
            surplus_bytes = self._file.size_bytes - self._max_bytes
            try:
                dropped += self._file.drop_oldest(now, MAX_AGE_SECONDS, surplus_bytes)
            except (SpoolUnusableError, SpoolDamagedError) as error:
                self._close_failed_file(error)
        room = min(self._max_bytes, MEMORY_BYTES)
        while self._memory and (
            (self._memory_bytes > room and len(self._memory) > 1)
            or self._memory[0].arrived < now - MAX_AGE_SECONDS
        ):
            self._memory_bytes -= len(self._memory.popleft().body)
            dropped += 1
        if dropped and not self._is_dropping:
            log.warning(
                "the spool is full by size or age, with %d report(s) waiting: the oldest are dropped",
                len(self),
            )
            self._is_dropping = True
        self.dropped += dropped

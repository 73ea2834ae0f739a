"""Reports that the collector has not taken yet: on disk where that works, in memory where it does not.

Nothing here raises. Everything blocks, and belongs to one thread, which is not the one that samples.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

from agent.config import SpoolConfig
from agent.delivery.spool_file import (
    Entry,
    SpoolDamagedError,
    SpoolFile,
    SpoolFullError,
    SpoolUnusableError,
    move_aside,
)
from wire.messages import MAX_TEXT_LENGTH, Gap

log = logging.getLogger(__name__)

MEMORY_BYTES = 8 << 20
"""Room for reports in memory: enough for hours, and little beside what the agent may use."""
_TRY_DISK_SECONDS = 30.0


class Spool:
    """A queue of reports, bounded by size and age; the file's come before those in memory."""

    def __init__(
        self, settings: SpoolConfig, *, wall: Callable[[], float], monotonic: Callable[[], float]
    ) -> None:
        self._path = Path(settings.path) if settings.path else None
        self._max_bytes = settings.max_bytes
        self._max_age_seconds = settings.max_age_hours * 3600
        self._wall = wall
        self._monotonic = monotonic
        self._file: SpoolFile | None = None
        self._memory: deque[Entry] = deque()
        self._memory_bytes = 0
        self._try_disk_at = 0.0
        self._is_dropping = False
        self.dropped = 0
        self.gap: Gap | None = None

    def __len__(self) -> int:
        return len(self._memory) + (self._file.count if self._file else 0)

    @property
    def size_bytes(self) -> int:
        """Room taken, on disk and in memory; may be asked by any thread."""
        file = self._file
        return self._memory_bytes + (file.size_bytes if file is not None else 0)

    def add(self, bodies: Sequence[bytes]) -> None:
        """Keep reports, and drop what there is no room for or what is too old."""
        now = self._monotonic()
        for body in bodies:
            self._memory.append(Entry(body, now))
            self._memory_bytes += len(body)
        self._store()
        self._drop()

    def first(self, max_count: int, max_bytes: int) -> list[Entry]:
        """The oldest, in order: as many as fit, at least one if there is any."""
        self._store()
        found: list[Entry] = []
        if self._file is not None:
            try:
                found = self._file.first(max_count, max_bytes)
            except (SpoolUnusableError, SpoolDamagedError) as error:
                self._close_failed_file(error)
            else:
                self._count_damaged(self._file)
        if self._file is None or len(found) == self._file.count:
            room = max_bytes - sum(len(entry.body) for entry in found)
            for entry in islice(self._memory, max_count - len(found)):
                room -= len(entry.body)
                if found and room < 0:
                    break
                found.append(entry)
        return found

    def remove(self, entries: Sequence[Entry]) -> int:
        """Let go of entries that `first` gave; how many of them had not been dropped meanwhile."""
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
        """Close the file; what is only in memory is lost, and said."""
        if self._memory:
            self._try_disk_at = self._monotonic()
            self._store()
        if self._memory:
            log.warning("%d reports that were kept in memory only are lost", len(self._memory))
        if self._file is not None:
            self._file.close()
            self._file = None

    # --- Between memory and disk ------------------------------------------------------------

    def _store(self) -> None:
        """Bring what is in memory to the file, if there is one that works."""
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
            # Nothing in it is wanted, yet it takes up room that a new one can have.
            file.discard()
            self._file = None
            self._file = self._open(path)
            self._file.append(self._memory, self._wall())
        self._memory.clear()
        self._memory_bytes = 0
        # Only what was written proves that the disk works.
        if self.gap is not None:
            log.info("the spool %s works again: reports are kept on disk", path)
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
        log.error(
            "the spool %s was damaged (%s): it is set aside as %s, reports and all, and a new one is begun",
            path,
            why,
            aside.name,
        )
        try:
            return SpoolFile.open(path, wall=self._wall(), monotonic=self._monotonic())
        except SpoolDamagedError as error:
            raise SpoolUnusableError(str(error)) from error

    def _fall_back_to_memory(self, why: str) -> None:
        self._try_disk_at = self._monotonic() + _TRY_DISK_SECONDS
        gap = Gap("spool", f"{self._path}: {why}; reports are kept in memory only"[:MAX_TEXT_LENGTH])
        if gap != self.gap:
            log.warning("the spool %s cannot be used (%s): reports are kept in memory only", self._path, why)
        self.gap = gap

    # --- Bounds -----------------------------------------------------------------------------

    def _drop(self) -> None:
        now = self._monotonic()
        dropped = 0
        if self._file is not None:
            surplus_bytes = self._file.size_bytes - self._max_bytes
            try:
                dropped += self._file.drop_oldest(now, self._max_age_seconds, surplus_bytes)
            except (SpoolUnusableError, SpoolDamagedError) as error:
                self._close_failed_file(error)
        room = min(self._max_bytes, MEMORY_BYTES)
        while self._memory and (
            (self._memory_bytes > room and len(self._memory) > 1)
            or self._memory[0].arrived < now - self._max_age_seconds
        ):
            self._memory_bytes -= len(self._memory.popleft().body)
            dropped += 1
        if dropped and not self._is_dropping:
            log.warning(
                "%d reports wait for the collector, all that the spool may hold by size and age: from now on"
                " the oldest are dropped",
                len(self),
            )
            self._is_dropping = True
        self.dropped += dropped

    def _count_damaged(self, file: SpoolFile) -> None:
        if file.damaged_reports:
            log.error(
                "%d reports in the spool %s were damaged and are dropped", file.damaged_reports, self._path
            )
            self.dropped += file.damaged_reports
            file.damaged_reports = 0

"""The history in one SQLite file: one thread writes, one reads, one rolls up."""

import asyncio
import logging
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, closing
from math import inf
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from collector.common.extensions import features_with, load
from collector.common.outages import Outages
from collector.config import CollectorConfig, HistoryConfig, LimitsConfig
from collector.history.interface import (
    DEFAULT_LIMITS,
    Account,
    ClusterSeries,
    EventPosition,
    GroupBy,
    HistoryStats,
    Mean,
    ReceivedReport,
    Series,
    StoredEvent,
    StoredHistograms,
    StoredState,
    StoredUsage,
    Subject,
    SubjectKind,
    UsageKey,
    UsageTotal,
    WindowEnd,
)
from collector.history.sqlite.cluster import read_cluster_series
from collector.history.sqlite.energy import read_energy
from collector.history.sqlite.exclusion import exclude, read_contribution
from collector.history.sqlite.files.connection import (
    IN_MEMORY,
    DiskThread,
    lock_file,
    open_for_reading,
    open_for_writing,
)
from collector.history.sqlite.files.counts import CountsFile
from collector.history.sqlite.files.damage import Damage, FileWatch, find_damage
from collector.history.sqlite.means import read_means
from collector.history.sqlite.reader import read_events, read_reports, read_state, read_usage, read_values
from collector.history.sqlite.retention import RetentionJob
from collector.history.sqlite.rollup_store import RollupReader, RollupUpdate, add_rollups, read_windows
from collector.history.sqlite.series import read_series
from collector.history.sqlite.writer import SqliteWriter, Submission
from wire.errors import UserError
from wire.messages import Report

log = logging.getLogger(__name__)

Given = ParamSpec("Given")
Result = TypeVar("Result")

_COMMIT_BATCH = 100
"""Requests per commit: with more, those at the head of the queue would wait for those at its end."""
COMMIT_SECONDS = 0.01
"""Minimum time between the starts of two commits. When it is quiet, a report is stored at once; when it is
busy, several share a commit, which costs the same for one as for ten."""
_ROOM_RATIOS = (0.9, 0.8, 0.6)
"""Used part of the file to which it is emptied for a commit that did not fit, one after another."""
_ROLLUP_BATCH = 4
"""Nodes whose rollups share a commit: few, as reports wait for it."""
_CHECK_SECONDS = 6 * 3600.0
"""Time between two checks of the file for damage."""
_LONGEST_CHECK_SECONDS = 60.0
"""Rollups wait while the file is checked."""
_ROLLUP_TURNS = 8
"""How often a node with many reports is read in one pass."""
_ROLLUP_PAUSE = 2.0
"""Pause after each batch of rollups, relative to its duration: reports and requests come first."""


class History:
    """Stores reports, sums them up, and keeps what other parts learned for the next run.

    Created by `open_history`. It knows no other part of the collector: each keeps its state as values by key,
    under a kind of its own. Every method that can fail raises `HistoryUnavailable`.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - its parts, which only `open_file` puts together
        self,
        retention: RetentionJob,
        write_thread: DiskThread,
        reading: tuple[DiskThread, sqlite3.Connection],
        rolling_up: tuple[DiskThread, sqlite3.Connection],
        watch: FileWatch | None,
        damage: Damage,
    ) -> None:
        self._retention, self._writer = retention, retention.writer
        self._path = retention.settings.path
        self._write_thread = write_thread
        self._read_thread, self._connection = reading
        self._rollup_thread, self._rollup_connection = rolling_up
        self._watch = watch
        self._retaining = asyncio.Lock()
        self._checked_at = -inf
        self._damage = damage
        self._logged_dropped = 0
        self._logged_by_node: Counter[int] = Counter()
        self._waiting: list[tuple[Submission, asyncio.Future[list[bool | None]]]] = []
        self._committing: asyncio.Task[None] | None = None
        self._next_commit = 0.0
        """Earliest start of the next commit, by the event loop's clock."""

    async def _read(
        self,
        work: Callable[Concatenate[sqlite3.Connection, Given], Result],
        *given: Given.args,
        **named: Given.kwargs,
    ) -> Result:
        return await self._read_thread.run(work, self._connection, *given, **named)

    # --- The log of reports, and what a restart needs of it -----------------------------------

    async def add(self, reports: Sequence[Report], received_at: float) -> Sequence[bool | None]:
        """Store reports durably before returning; returns for each whether it was new.

        A report whose key `(node, boot, sequence)` is, or was, stored changes nothing. None is a report that
        cannot be stored; the others are.
        """
        done: asyncio.Future[list[bool | None]] = asyncio.get_running_loop().create_future()
        self._waiting.append(((reports, received_at), done))
        if self._committing is None:
            self._committing = asyncio.create_task(self._commit_waiting())
        return await done

    async def _commit_waiting(self) -> None:
        """Commit all waiting requests; those that arrive during a commit share the next one."""
        loop = asyncio.get_running_loop()
        while self._waiting:
            if (early_seconds := self._next_commit - loop.time()) > 0:
                await asyncio.sleep(early_seconds)
            self._next_commit = loop.time() + COMMIT_SECONDS
            group, self._waiting = self._waiting[:_COMMIT_BATCH], self._waiting[_COMMIT_BATCH:]
            try:
                answers = await self._write_thread.run(self._store, [submission for submission, _ in group])
            except Exception as error:  # noqa: BLE001 - for the waiting requests, whatever it is
                for _, done in group:
                    if not done.done():
                        done.set_exception(error)
                continue
            for (_, done), answer in zip(group, answers, strict=True):
                if not done.done():
                    done.set_result(answer)
        self._committing = None

    def _store(self, submissions: Sequence[Submission]) -> list[list[bool | None]]:
        """Store reports, and stay below the maximum size."""
        if self._watch is not None:
            self._watch.require_file()
        self._damage.require_none()
        answers = self._store_in_room(submissions)
        self._retention.make_room()
        self._retention.limit_log()
        return answers

    def _store_in_room(self, submissions: Sequence[Submission]) -> list[list[bool | None]]:
        # One commit can be larger than what is kept free.
        for ratio in _ROOM_RATIOS:
            try:
                return self._writer.add(submissions)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_FULL:
                    raise
                self._retention.make_room(ratio)
        return self._writer.add(submissions)

    async def store_usage(self, merged: Sequence[UsageKey], totals: Sequence[UsageTotal]) -> None:
        """Store usage totals, in place of the pending usage that is merged into them."""
        await self._write_thread.run(self._writer.store_usage, merged, totals)

    async def load_state(self, limits: LimitsConfig = DEFAULT_LIMITS) -> StoredState:
        """What a starting collector restores first; of each node, no more than its limits allow."""
        return await self._read(read_state, limits)

    async def load_usage(
        self, nodes: Sequence[str], limits: LimitsConfig = DEFAULT_LIMITS
    ) -> StoredHistograms:
        """The usage of the containers of some nodes; of each node, no more than its limits allow."""
        # Rollups begin after a start, and no question waits for this.
        return await self._rollup_thread.run(read_usage, self._rollup_connection, nodes, limits)

    async def load_reports(self, since: float) -> list[ReceivedReport]:
        """All reports received since a time, in order of receipt, without their alerts and usage."""
        return await self._read(read_reports, since)

    async def load_windows(self, since: float, containers: AbstractSet[str]) -> StoredUsage:
        """Usage of nodes, and of containers with these ids, in buckets of five minutes, from a time on.

        The same bucket may occur more than once: its parts add up.
        """
        return await self._rollup_thread.run(read_windows, self._rollup_connection, since, containers)

    # --- Questions about the past -------------------------------------------------------------

    async def means(
        self, kind: SubjectKind, window_seconds: float, window_ends: Sequence[WindowEnd]
    ) -> dict[Subject, Mean]:
        """Of these nodes or their containers, over the window that ends with the last report of a node."""
        return await self._read(read_means, kind, window_seconds, window_ends)

    async def events(
        self, limit: int, node: str | None = None, before: EventPosition | None = None
    ) -> list[StoredEvent]:
        """The latest events of one node or of all, latest first; optionally only those before a position."""
        return await self._read(read_events, limit, node, before)

    async def series(
        self, kind: SubjectKind, name: str, start: float, end: float, step_seconds: float
    ) -> Series:
        """The series of a node, container (by id) or service in `[start, end)`, of limited length."""
        return await self._read(read_series, (kind, name), start, end, step_seconds)

    async def cluster_series(
        self, start: float, end: float, step_seconds: float, error_ratios: Mapping[str, float]
    ) -> ClusterSeries:
        """The power of all nodes together in `[start, end)`, of limited length.

        `error_ratios` is the expected relative error of each node's watts now; others have the mean of them.
        """
        return await self._read(read_cluster_series, start, end, step_seconds, error_ratios)

    async def energy(self, start: float, end: float, by: GroupBy, label: str | None = None) -> list[Account]:
        """The energy used in `[start, end)`, highest first, or by day; `label` is the label to group by.

        Includes each node up to its last heartbeat.
        """
        return await self._read(read_energy, start, end, by, label)

    async def exclude(self, nodes: Collection[str]) -> None:
        """Leave these nodes out of all answers from now on, and no others; what they reported stays."""
        if self._path != IN_MEMORY:
            await self._read(exclude, nodes)

    async def contribution(self, node: str) -> tuple[float | None, AbstractSet[str]]:
        """When a node first reported, as far as that is known, and the services that it reported."""
        return await self._read(read_contribution, node)

    # --- State of other parts -----------------------------------------------------------------

    async def put_values(self, kind: str, values: Mapping[str, bytes | None]) -> None:
        """Store values by key, for the next run; None deletes a key."""
        await self._write_thread.run(self._writer.put_values, kind, values)

    async def get_values(self, kind: str) -> dict[str, bytes]:
        return await self._read(read_values, kind)

    # --- Upkeep -------------------------------------------------------------------------------

    async def apply_retention(self, now: float, limits: LimitsConfig = DEFAULT_LIMITS) -> Mapping[str, int]:
        """Update the rollups, and delete what is older than the retention.

        Returns the number of buckets of five minutes in which a node reported more energy than its limits
        allow, by node; the surplus is left out.
        """
        # One pass at a time: the next one finds what this one found.
        async with self._retaining:
            bounded = await self._roll_up(limits.max_node_watts)
            retention, run = self._retention, self._write_thread.run
            horizon = await run(retention.advance, now)
            while await run(retention.expire_reports, horizon):
                pass
            while await run(retention.expire_rollups, horizon):
                pass
            await run(retention.expire_rest, horizon)
            await run(self._log_dropped)
            if now - self._checked_at >= _CHECK_SECONDS:
                self._checked_at = now
                await self._check_for_damage()
            return bounded

    async def _check_for_damage(self) -> None:
        """Check the structure of the file, and the checksums of its rows."""
        found = await self._rollup_thread.run(find_damage, self._rollup_connection, _LONGEST_CHECK_SECONDS)
        if found is not None:
            self._damage.note(found)

    async def _roll_up(self, max_node_watts: float) -> Mapping[str, int]:
        """Update the rollups, a few nodes at a time, so that reports wait for no more than these.

        A node with many reports takes several turns, after all others. Returns the number of buckets in which
        a node reported more energy than it can have used, by node.
        """
        reader, loop = RollupReader(self._rollup_connection), asyncio.get_running_loop()
        pending = await self._rollup_thread.run(reader.pending_nodes)
        bounded: Counter[int] = Counter()
        for _ in range(_ROLLUP_TURNS):
            unfinished: list[int] = []
            for start in range(0, len(pending), _ROLLUP_BATCH):
                began = loop.time()
                updates: list[RollupUpdate] = []
                for node_id in pending[start : start + _ROLLUP_BATCH]:
                    update = await self._rollup_thread.run(reader.read, node_id, max_node_watts)
                    if update is not None:
                        updates.append(update)
                        bounded[node_id] += update.rows.bounded_buckets
                        unfinished += [node_id] * update.has_more
                await self._write_thread.run(self._writer.change, add_rollups, updates)
                await asyncio.sleep(_ROLLUP_PAUSE * (loop.time() - began))
            pending = unfinished
        name = self._retention.node_name
        return {await self._write_thread.run(name, each): count for each, count in bounded.items() if count}

    def _log_dropped(self) -> None:
        retention = self._retention
        dropped = retention.dropped_for_size
        if dropped > self._logged_dropped:
            by_node = retention.dropped_by_node - self._logged_by_node
            nodes = "".join(
                f", {count} of {retention.node_name(node_id)}" for node_id, count in by_node.most_common(5)
            )
            log.warning(
                "the history has reached its maximum size (history.max_size_bytes = %d): "
                "deleted %d reports, rollups and containers before their retention was over%s",
                retention.settings.max_size_bytes,
                dropped - self._logged_dropped,
                nodes,
            )
            self._logged_dropped, self._logged_by_node = dropped, retention.dropped_by_node.copy()

    async def check(self) -> None:
        """Check that reports can be stored now."""
        if self._watch is not None:
            await self._write_thread.run(self._watch.require_file)
        self._damage.require_none()
        await self._write_thread.run(self._writer.check)

    def stats(self) -> HistoryStats:
        files = (Path(self._path + suffix) for suffix in ("", "-wal")) if self._path != IN_MEMORY else ()
        return HistoryStats(
            reports=self._writer.reports,
            size_bytes=sum(file.stat().st_size for file in files if file.exists()),
            dropped_for_size=self._retention.dropped_for_size,
            damage=self._damage.found,
        )

    async def finish(self) -> None:
        """Wait until all waiting requests are committed."""
        if self._committing is not None:
            await self._committing


Kind = TypeVar("Kind", bound=History)


def open_history(config: CollectorConfig, troubles: Outages) -> AbstractAsyncContextManager[History]:
    """Open the history that the settings name, while a block runs; raises `UserError` if that fails."""
    store = config.history.store
    if store == "sqlite":
        return open_sqlite(config.history)
    if store not in features_with("history"):
        raise UserError(f"history.store: this collector has no store {store!r}: choose sqlite")
    opened: AbstractAsyncContextManager[History] = load(store, "history").open_history(config, troubles)
    return opened


def open_sqlite(settings: HistoryConfig) -> AbstractAsyncContextManager[History]:
    """Open the file alone, while a block runs."""
    return open_file(settings, History)


@asynccontextmanager
async def open_file(settings: HistoryConfig, kind: type[Kind]) -> AsyncIterator[Kind]:
    """Open the file, or create it; raises `UserError` if that fails."""
    path = settings.path
    async with AsyncExitStack() as stack:
        damage = Damage(path)
        write_thread = stack.enter_context(closing(DiskThread("history-write", on_damage=damage.note)))
        stack.enter_context(lock_file(path))
        connection = await write_thread.run(open_for_writing, path)
        watch = None if path == IN_MEMORY else FileWatch(path, settings.min_free_bytes)
        if watch is not None:
            stack.callback(watch.close)  # after the connections, which are pushed later
        stack.push_async_callback(write_thread.run, connection.close)

        async def open_reader(name: str) -> tuple[DiskThread, sqlite3.Connection]:
            if path == IN_MEMORY:
                # A database in memory belongs to its connection.
                return write_thread, connection
            thread = stack.enter_context(closing(DiskThread(name, on_damage=damage.note)))
            own = await thread.run(open_for_reading, path)
            stack.push_async_callback(thread.run, own.close)
            return thread, own

        reading = await open_reader("history-read")
        # Rolling up one node can take long: queries do not wait for it.
        rolling_up = await open_reader("history-rollup")
        counts = None if path == IN_MEMORY else stack.enter_context(closing(CountsFile(path)))
        writer = await write_thread.run(SqliteWriter, connection, settings.retention_hours * 3600, counts)
        retention = RetentionJob(connection, writer, settings)
        await write_thread.run(retention.limit_size)
        history = kind(retention, write_thread, reading, rolling_up, watch, damage)
        stack.push_async_callback(history.finish)
        yield history

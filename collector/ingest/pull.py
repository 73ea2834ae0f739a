"""Asking the store every few seconds, and taking in what it tells."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from collector.analysis.usage import within_slot
from collector.common.outages import Dependency
from collector.common.periodic import in_background, repeat
from collector.config import PullConfig
from collector.core.parts import Core
from collector.history.interface import HistoryUnavailable
from collector.history.prometheus.client import Instant, Range, connect
from collector.history.prometheus.reader import (
    PULLED,
    NodeTimestamps,
    NodeUsage,
    nodes_query,
    parse_nodes,
    parse_states,
    parse_usage,
    state_query,
    usage_query,
)
from collector.ingest.push import keep
from collector.ingest.store_reports import StoredNode, StoreReading, alerts_of, grouped
from collector.reports.alerts import AlertState
from wire.messages import Alert, Report

log = logging.getLogger(__name__)

_NODES_AT_ONCE: Final = 10
"""Of whom one question asks: few enough that an answer is some megabytes, not some hundred."""
_AT_ONCE_SECONDS: Final = 900.0
"""Samples of how much time one question asks for, for the same reason."""
_VISIBLE_SECONDS: Final = 15.0
"""How long a store may take to show all that a collector wrote at once: VictoriaMetrics needs ten seconds for
series that are new, and one for others, so a heartbeat may be seen before its samples."""
_REMEMBERED: Final = "pull"

Spans = Mapping[str, tuple[float, float]]
"""Per node: after when, and until when."""


def _end(after: float, until: float) -> float:
    """Up to when to ask at once: samples weigh by their time, so those of one report belong to one slot."""
    return within_slot(after, min(until, after + _AT_ONCE_SECONDS))


class Source(Protocol):
    """What nodes are read from; a `Client` is one. Both raise `HistoryUnavailable`."""

    url: str

    async def query(self, promql: str, at: float) -> list[Instant]: ...

    async def query_raw(self, selector: str, at: float, seconds: float) -> list[Range]: ...


@dataclass(slots=True)
class _Mark:
    """How far a node was read."""

    counted_until: float
    sampled_at: float = 0.0
    newest_at: float | None = None
    """The time of the last sample that was counted; None if that was before this start."""
    sample_seconds: float = 0.0
    """How far the samples are apart: a look sees one or none, so it shows from one look to the next."""

    told_until: float = 0.0
    """Up to when the samples of a node that reports elsewhere are written, as the store said last,"""
    told_at: float = 0.0
    """when it said so first,"""
    visible_until: float = 0.0
    """and up to when they must be there to be read."""

    def hear(self, seen: NodeTimestamps, look: StoreReading, now: float) -> None:
        """Take in up to when samples are there."""
        if seen.counted_until is None:
            self.visible_until = look.at
            return
        if now - self.told_at >= _VISIBLE_SECONDS:
            self.visible_until = self.told_until
        if seen.counted_until != self.told_until:
            self.told_until, self.told_at = seen.counted_until, now

    def note(self, after: float, counted: NodeUsage) -> None:
        began = after if self.newest_at is None else self.newest_at
        self.sample_seconds = max(0.0, counted.newest_at - began) / counted.samples
        self.newest_at = counted.newest_at


class Puller:
    """Reads nodes from a store."""

    def __init__(self, core: Core, source: Source, settings: PullConfig) -> None:
        self._core = core
        self._source = source
        self._settings = settings
        self._marks: dict[str, _Mark] = {}
        self._remembers = False

    async def run(self, *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        """Pull until cancelled."""
        self._core.outages.watch(Dependency.PULL)
        every_seconds = self._settings.interval_seconds
        await repeat(self._pull, every_seconds, "pulling nodes", from_start=True, sleep=sleep)

    async def _pull(self) -> None:
        deadline = asyncio.get_running_loop().time() + self._settings.interval_seconds
        outages, url = self._core.outages, self._source.url
        try:
            if not self._remembers:
                await self.remember()
                self._remembers = True
            await self.look(deadline)
            outages.end(Dependency.PULL, f"{url} answers again: pulling goes on")
        except HistoryUnavailable as error:
            outages.begin(Dependency.PULL, f"cannot pull nodes from {url}: {error}; retrying")

    async def remember(self) -> None:
        """Know how far the nodes were read by the run before."""
        for node, until in (await self._core.history.get_values(_REMEMBERED)).items():
            self._marks[node] = _Mark(msgspec.msgpack.decode(until, type=float))

    async def look(self, deadline: float) -> None:
        """Take in what is new; what is longer ago is read on until the deadline, then by the next look.

        Raises `HistoryUnavailable`.
        """
        core, settings = self._core, self._settings
        now = core.clock()
        look = StoreReading(now - settings.settle_seconds, settings.interval_seconds)
        found = await self._source.query(nodes_query(), look.at)
        # Who reports here is known better than by any store.
        direct = {standing.node for standing in core.registry.window_ends(now) if standing.boot != PULLED}
        seen = {
            node: each for node, each in parse_nodes(found, settings.node_label).items() if node not in direct
        }
        await self._forget(look, seen)
        fresh = {node for node, each in seen.items() if self._is_new(node, each, look)}
        alerts = defaultdict(list)
        for entry in core.registry.alerts(now, state=AlertState.OPEN):
            alerts[entry.reported.node].append(entry.reported.alert)
        for nodes in grouped(sorted(fresh), _NODES_AT_ONCE):
            await self._take_now(look, {node: seen[node] for node in nodes}, alerts)
        # Of those that are scraped, only a new scrape brings new samples.
        more = {node: each for node, each in seen.items() if node in fresh or each.counted_until is not None}
        while (behind := self._behind(look, more)) and asyncio.get_running_loop().time() < deadline:
            for nodes in grouped(sorted(behind), _NODES_AT_ONCE):
                await self._take_earlier(look, {node: behind[node] for node in nodes}, seen)

    def _is_new(self, node: str, seen: NodeTimestamps, look: StoreReading) -> bool:
        if node not in self._marks:
            self._marks[node] = _Mark(look.at - self._settings.backfill_hours * 3600)
        self._marks[node].hear(seen, look, self._core.clock())
        return seen.sampled_at > self._marks[node].sampled_at

    async def _forget(self, look: StoreReading, seen: Mapping[str, NodeTimestamps]) -> None:
        """Forget the nodes that have not been there for so long that all of it would be read anew."""
        oldest = look.at - self._settings.backfill_hours * 3600
        gone = [
            node for node, mark in self._marks.items() if node not in seen and mark.counted_until < oldest
        ]
        for node in gone:
            del self._marks[node]
        if gone:
            await self._core.history.put_values(_REMEMBERED, dict.fromkeys(gone))

    async def _take_now(
        self, look: StoreReading, seen: Mapping[str, NodeTimestamps], alerts: Mapping[str, list[Alert]]
    ) -> None:
        label = self._settings.node_label
        found = await self._source.query(state_query(list(seen), label), look.at)
        state = await asyncio.to_thread(parse_states, found, label)
        spans = {
            node: (mark.counted_until, mark.visible_until)
            for node, mark in ((node, self._marks[node]) for node in state)
            if (until := max(mark.visible_until, seen[node].sampled_at)) == _end(mark.counted_until, until)
        }
        usage = await self._usage(spans, seen)
        found_of = {
            node: StoredNode(
                seen[node],
                each,
                alerts=list(alerts_of(seen[node], each, alerts.get(node, ()))),
                usage=usage[node].usage if node in usage else (),
                sample_seconds=self._marks[node].sample_seconds,
            )
            for node, each in state.items()
        }
        await self._keep([look.now(node, each) for node, each in found_of.items()], spans)
        for node in state:
            self._marks[node].sampled_at = seen[node].sampled_at

    def _behind(self, look: StoreReading, seen: Mapping[str, NodeTimestamps]) -> Spans:
        """The next span of each node of which something is still unread."""
        known = {standing.node for standing in self._core.registry.window_ends(look.at)}
        spans = {}
        for node in seen:
            after, until = self._marks[node].counted_until, self._marks[node].visible_until
            if node in known and until > after:
                spans[node] = (after, _end(after, until))
        # Those furthest behind first: together they must not span more than a question may ask for.
        earliest = min((after for after, _ in spans.values()), default=0.0)
        return {node: span for node, span in spans.items() if span[0] < earliest + _AT_ONCE_SECONDS}

    async def _take_earlier(
        self, look: StoreReading, spans: Spans, seen: Mapping[str, NodeTimestamps]
    ) -> None:
        usage = await self._usage(spans, seen)
        await self._keep(
            [
                look.earlier(node, spans[node][1], self._marks[node].sample_seconds, counted.usage)
                for node, counted in usage.items()
            ],
            spans,
        )

    async def _usage(self, spans: Spans, seen: Mapping[str, NodeTimestamps]) -> dict[str, NodeUsage]:
        label = self._settings.node_label
        usage: dict[str, NodeUsage] = {}
        for sampled in (False, True):
            asked = {
                node: (after, until)
                for node, (after, until) in spans.items()
                if until > after and (seen[node].counted_until is not None) == sampled
            }
            if not asked:
                continue
            begin, end = min(after for after, _ in asked.values()), max(until for _, until in asked.values())
            series = usage_query(list(asked), label, sampled=sampled)
            found = await self._source.query_raw(series, end, end - begin)
            usage |= await asyncio.to_thread(parse_usage, found, label, asked)
        for node, counted in usage.items():
            self._marks[node].note(spans[node][0], counted)
        return usage

    async def _keep(self, reports: Sequence[Report], spans: Spans) -> None:
        await keep(self._core, reports)
        for node, (_, until) in spans.items():
            self._marks[node].counted_until = max(until, self._marks[node].counted_until)
        entries = {node: msgspec.msgpack.encode(self._marks[node].counted_until) for node in spans}
        await self._core.history.put_values(_REMEMBERED, entries)


@asynccontextmanager
async def pulling(core: Core) -> AsyncIterator[None]:
    """Read nodes from the store that the settings name, if they do, while the block runs."""
    settings = core.config
    key, source = ("pull", settings.pull) if settings.pull.url else ("store", settings.store)
    if not settings.pull.url and settings.history.store != "prometheus":
        yield
        return
    async with connect(source, key) as client, in_background(Puller(core, client, settings.pull).run()):
        yield

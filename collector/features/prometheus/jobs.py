"""Pull: nodes are read from a Prometheus-compatible store every few seconds.

Every pull makes one heartbeat per node: its whole state, with the samples since the last pull. Older samples,
read after an outage of the collector or the store, come as a heartbeat of their own time. Sequence numbers
follow from the time, so that samples read twice make the same report, and an older report never replaces the
present state.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import msgspec

from collector.analysis.usage import BUCKET_SECONDS, bucket_at
from collector.common.errors import HistoryUnavailable
from collector.common.extensions import extensions
from collector.common.outages import Dependency
from collector.common.periodic import in_background, repeat
from collector.common.reported_alerts import AlertState
from collector.config import PullConfig
from collector.features.prometheus.reader import (
    NODE_METRICS,
    STATE_METRICS,
    NodeTimestamps,
    NodeUsage,
    parse_nodes,
    parse_states,
    parse_usage,
)
from collector.features.prometheus.schema import SAMPLED_METRICS, USAGE_METRICS
from collector.history.interface import PULLED
from collector.history.promql import Client, connect, selector
from collector.runtime.parts import Core
from collector.serve.ingest import store_reports
from wire.messages import Alert, ContainerUsage, Heartbeat, Report
from wire.resources import Resource

_NODES_AT_ONCE: Final = 10
"""Nodes per query, so that an answer has a few megabytes, not hundreds."""
_AT_ONCE_SECONDS: Final = 900.0
"""Time span of one query, for the same reason."""
_VISIBLE_SECONDS: Final = 15.0
"""Time until a store shows all that was written at once. VictoriaMetrics takes ten seconds for new series
and one for others, so a heartbeat may be visible before its samples."""
_LONGEST_INTERVAL_SECONDS: Final = 86_400.0
"""The bound of `Heartbeat.sample_seconds`."""
_KIND: Final = "pull"
_MILLISECOND: Final = 0.001
"""The resolution of time series stores."""

Spans = Mapping[str, tuple[float, float]]
"""Per node: the start and the end of a span of time."""
OpenAlerts = Mapping[str, Mapping[Resource, Alert]]


@asynccontextmanager
async def running(core: Core) -> AsyncIterator[None]:
    """Pull nodes from the configured store, if there is one, while the block runs."""
    settings = core.config
    key, source = ("pull", settings.pull) if settings.pull.url else ("store", settings.store)
    if not settings.pull.url and settings.history.store != "prometheus":
        yield
        return
    async with connect(source, key) as client, in_background(Puller(core, client, settings.pull).run()):
        yield


@dataclass(slots=True)
class _Progress:
    counted_until: float
    sampled_at: float = 0.0
    newest_at: float | None = None
    """The time of the last sample that was counted; None before the first one since the start."""
    sample_seconds: float = 0.0
    """Interval of the samples, measured from pull to pull, since one pull has one sample or none."""

    written_until: float = 0.0
    """For a node that reports to another collector: the time up to which its samples are written."""
    written_at: float = 0.0
    """When `written_until` changed last."""
    visible_until: float = 0.0
    """The time up to which samples are certainly visible."""

    def update_visible(self, times: NodeTimestamps, at: float, now: float) -> None:
        """Update up to when samples are visible, by a pull of a time."""
        if times.counted_until is None:
            self.visible_until = at
            return
        if now - self.written_at >= _VISIBLE_SECONDS:
            self.visible_until = self.written_until
        if times.counted_until != self.written_until:
            self.written_until, self.written_at = times.counted_until, now

    def add(self, after: float, counted: NodeUsage) -> None:
        """Count the samples of a span."""
        began = after if self.newest_at is None else self.newest_at
        interval_seconds = max(0.0, counted.newest_at - began) / counted.samples
        self.sample_seconds = min(interval_seconds, _LONGEST_INTERVAL_SECONDS)
        self.newest_at = counted.newest_at


class Puller:
    """Reads nodes from a store."""

    def __init__(self, core: Core, source: Client, settings: PullConfig) -> None:
        self._core = core
        self._source = source
        self._settings = settings
        self._progress: dict[str, _Progress] = {}
        self._is_restored = False

    async def run(self, *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        self._core.outages.watch(Dependency.PULL)
        interval_seconds = self._settings.interval_seconds
        await repeat(self._pull_once, interval_seconds, "pulling nodes", from_start=True, sleep=sleep)

    async def _pull_once(self) -> None:
        deadline = asyncio.get_running_loop().time() + self._settings.interval_seconds
        outages, url = self._core.outages, self._source.url
        try:
            if not self._is_restored:
                await self.restore()
                self._is_restored = True
            await self.pull(deadline)
            outages.end(Dependency.PULL, f"{url} answers again: pulling nodes")
        except HistoryUnavailable as error:
            outages.begin(Dependency.PULL, f"cannot pull nodes from {url}: {error}; retrying")

    async def restore(self) -> None:
        """Restore how far the nodes were read before a restart."""
        for node, until in (await self._core.history.get_values(_KIND)).items():
            self._progress[node] = _Progress(msgspec.msgpack.decode(until, type=float))

    async def pull(self, deadline: float) -> None:
        """Read what is new. Older samples are read until the deadline, the rest by the next pull.

        Raises `HistoryUnavailable`.
        """
        core, settings = self._core, self._settings
        now = core.clock()
        at = now - settings.settle_seconds
        found = parse_nodes(await self._source.query(selector(NODE_METRICS), at), settings.node_label)
        # A node that reports to this collector is not pulled.
        direct = {each.node for each in core.registry.window_ends(now) if each.boot != PULLED}
        times = {node: each for node, each in found.items() if node not in direct}
        await self._drop_gone(at, times)
        fresh = {node for node, each in times.items() if self._is_new(node, each, at)}
        alerts: defaultdict[str, dict[Resource, Alert]] = defaultdict(dict)
        for entry in core.registry.alerts(now, state=AlertState.OPEN):
            alerts[entry.reported.node][entry.reported.alert.resource] = entry.reported.alert
        for nodes in _batches(fresh):
            await self._pull_present(at, {node: times[node] for node in nodes}, alerts)
            for each in extensions("pull"):
                await each.pull(self._core, self._source, nodes, at)
        # For a scraped node, only a new scrape brings new samples.
        more = {node: each for node, each in times.items() if node in fresh or each.counted_until is not None}
        while (behind := self._behind(at, more)) and asyncio.get_running_loop().time() < deadline:
            for nodes in _batches(behind):
                await self._pull_earlier({node: behind[node] for node in nodes}, times)

    def _is_new(self, node: str, times: NodeTimestamps, at: float) -> bool:
        if node not in self._progress:
            self._progress[node] = _Progress(at - self._settings.backfill_hours * 3600)
        self._progress[node].update_visible(times, at, self._core.clock())
        return times.sampled_at > self._progress[node].sampled_at

    async def _drop_gone(self, at: float, times: Mapping[str, NodeTimestamps]) -> None:
        """Drop the progress of nodes that were gone for longer than `backfill_hours`."""
        oldest = at - self._settings.backfill_hours * 3600
        gone = [
            node for node, each in self._progress.items() if node not in times and each.counted_until < oldest
        ]
        for node in gone:
            del self._progress[node]
        if gone:
            await self._core.history.put_values(_KIND, dict.fromkeys(gone))

    async def _pull_present(self, at: float, times: Mapping[str, NodeTimestamps], alerts: OpenAlerts) -> None:
        label = self._settings.node_label
        found = await self._source.query(selector(STATE_METRICS, label, times), at)
        states = await asyncio.to_thread(parse_states, found, label)
        spans = {}
        for node in states:
            after, until = self._progress[node].counted_until, self._progress[node].visible_until
            latest = max(until, times[node].sampled_at)
            if latest == _end(after, latest):
                spans[node] = after, until
        usage = await self._usage(spans, times)
        reports = [
            msgspec.structs.replace(
                read,
                at=times[node].sampled_at,
                sequence=_sequence(at),
                alerts=tuple(_changed_alerts(read.alerts, alerts.get(node, {}), times[node].sampled_at)),
                heartbeat=self._heartbeat(
                    node, usage[node].usage if node in usage else (), read.heartbeat.agent_version
                ),
            )
            for node, read in states.items()
            if read.heartbeat is not None
        ]
        await self._store(reports, spans)
        for node in states:
            self._progress[node].sampled_at = times[node].sampled_at

    def _behind(self, at: float, times: Mapping[str, NodeTimestamps]) -> Spans:
        """The next span of each node that is not read completely."""
        present = {each.node for each in self._core.registry.window_ends(at)}
        spans = {}
        for node in times:
            after, until = self._progress[node].counted_until, self._progress[node].visible_until
            if node in present and until > after:
                spans[node] = (after, _end(after, until))
        # The nodes furthest behind first: together they must not span more than one query.
        earliest = min((after for after, _ in spans.values()), default=0.0)
        return {node: span for node, span in spans.items() if span[0] < earliest + _AT_ONCE_SECONDS}

    async def _pull_earlier(self, spans: Spans, times: Mapping[str, NodeTimestamps]) -> None:
        usage = await self._usage(spans, times)
        reports = [
            Report(
                node=node,
                boot=PULLED,
                sequence=_sequence(spans[node][1]) - 1,
                at=spans[node][1],
                heartbeat=self._heartbeat(node, counted.usage),
            )
            for node, counted in usage.items()
        ]
        await self._store(reports, spans)

    def _heartbeat(
        self, node: str, usage: tuple[ContainerUsage, ...], agent_version: str = "unknown"
    ) -> Heartbeat:
        return Heartbeat(
            agent_version=agent_version,
            sample_seconds=self._progress[node].sample_seconds,
            # Scrapes and pulls are not in step: up to two intervals may pass between two new samples.
            beacon_seconds=2 * self._settings.interval_seconds,
            usage=usage,
        )

    async def _usage(self, spans: Spans, times: Mapping[str, NodeTimestamps]) -> dict[str, NodeUsage]:
        label = self._settings.node_label
        usage: dict[str, NodeUsage] = {}
        for sampled in (False, True):
            queried = {
                node: (after, until)
                for node, (after, until) in spans.items()
                if until > after and (times[node].counted_until is not None) == sampled
            }
            if not queried:
                continue
            begin = min(after for after, _ in queried.values())
            end = max(until for _, until in queried.values())
            metrics = SAMPLED_METRICS if sampled else USAGE_METRICS
            series = selector(metrics.values(), label, queried)
            found = await self._source.query_raw(series, end, end - begin)
            usage |= await asyncio.to_thread(parse_usage, found, label, queried)
        for node, counted in usage.items():
            self._progress[node].add(spans[node][0], counted)
        return usage

    async def _store(self, reports: Sequence[Report], spans: Spans) -> None:
        for node, (begin, until) in spans.items():
            self._core.registry.limits.expect_past(node, until - begin)
        await store_reports(self._core, reports)
        for node, (_, until) in spans.items():
            self._progress[node].counted_until = max(until, self._progress[node].counted_until)
        entries = {node: msgspec.msgpack.encode(self._progress[node].counted_until) for node in spans}
        await self._core.history.put_values(_KIND, entries)


def _end(after: float, until: float) -> float:
    """The end of the next query: the samples of one report must belong to one usage bucket."""
    bucket_end = (bucket_at(after + _MILLISECOND) + 1) * BUCKET_SECONDS - _MILLISECOND
    return min(until, after + _AT_ONCE_SECONDS, bucket_end)


def _sequence(at: float) -> int:
    """The sequence number of a pull: even for a present state, the odd number below for earlier usage."""
    return 2 * round(at * 1000)


def _changed_alerts(
    read: Iterable[Alert], open_alerts: Mapping[Resource, Alert], at: float
) -> Iterator[Alert]:
    """The alerts of a heartbeat: all that are open in the store, and those that just closed."""
    now = {alert.resource: alert for alert in read}
    for resource, alert in now.items():
        opened_at = open_alerts[resource].opened_at if resource in open_alerts else at
        yield msgspec.structs.replace(alert, opened_at=opened_at)
    for resource, alert in open_alerts.items():
        if resource not in now:
            yield msgspec.structs.replace(alert, closed_at=at)


def _batches(nodes: Iterable[str]) -> Iterator[list[str]]:
    ordered = sorted(nodes)
    for start in range(0, len(ordered), _NODES_AT_ONCE):
        yield ordered[start : start + _NODES_AT_ONCE]

"""Pull: nodes are read from a Prometheus-compatible store every few seconds."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from collector.analysis.usage import end_within_bucket
from collector.common.extensions import extensions
from collector.common.outages import Dependency
from collector.common.periodic import repeat
from collector.config import PullConfig
from collector.core.parts import Core
from collector.features.prometheus.pulled_reports import Pull, PulledNode, batches, list_alerts
from collector.features.prometheus.reader import (
    NodeTimestamps,
    NodeUsage,
    nodes_query,
    parse_nodes,
    parse_states,
    parse_usage,
    state_query,
    usage_query,
)
from collector.history.interface import PULLED, HistoryUnavailable
from collector.history.promql import Source
from collector.ingest.push import store_reports
from collector.reports.alerts import AlertState
from wire.messages import Alert, Report

log = logging.getLogger(__name__)

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

Spans = Mapping[str, tuple[float, float]]
"""Per node: the start and the end of a span of time."""


def _end(after: float, until: float) -> float:
    """The end of the next query: the samples of one report must belong to one usage bucket."""
    return end_within_bucket(after, min(until, after + _AT_ONCE_SECONDS))


@dataclass(slots=True)
class _Progress:
    """How far a node was read."""

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

    def update_visible(self, times: NodeTimestamps, pull: Pull, now: float) -> None:
        """Update up to when samples are visible."""
        if times.counted_until is None:
            self.visible_until = pull.at
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

    def __init__(self, core: Core, source: Source, settings: PullConfig) -> None:
        self._core = core
        self._source = source
        self._settings = settings
        self._progress: dict[str, _Progress] = {}
        self._is_restored = False

    async def run(self, *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        """Pull until cancelled."""
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
        pull = Pull(now - settings.settle_seconds, settings.interval_seconds)
        found = await self._source.query(nodes_query(), pull.at)
        # A node that reports to this collector is not pulled.
        direct = {each.node for each in core.registry.window_ends(now) if each.boot != PULLED}
        times = {
            node: each for node, each in parse_nodes(found, settings.node_label).items() if node not in direct
        }
        await self._drop_gone(pull, times)
        fresh = {node for node, each in times.items() if self._is_new(node, each, pull)}
        alerts = defaultdict(list)
        for entry in core.registry.alerts(now, state=AlertState.OPEN):
            alerts[entry.reported.node].append(entry.reported.alert)
        for nodes in batches(sorted(fresh), _NODES_AT_ONCE):
            await self._pull_present(pull, {node: times[node] for node in nodes}, alerts)
            for each in extensions("pull"):
                await each.pull(self._core, self._source, nodes, pull.at)
        # For a scraped node, only a new scrape brings new samples.
        more = {node: each for node, each in times.items() if node in fresh or each.counted_until is not None}
        while (behind := self._behind(pull, more)) and asyncio.get_running_loop().time() < deadline:
            for nodes in batches(sorted(behind), _NODES_AT_ONCE):
                await self._pull_earlier(pull, {node: behind[node] for node in nodes}, times)

    def _is_new(self, node: str, times: NodeTimestamps, pull: Pull) -> bool:
        if node not in self._progress:
            self._progress[node] = _Progress(pull.at - self._settings.backfill_hours * 3600)
        self._progress[node].update_visible(times, pull, self._core.clock())
        return times.sampled_at > self._progress[node].sampled_at

    async def _drop_gone(self, pull: Pull, times: Mapping[str, NodeTimestamps]) -> None:
        """Drop the progress of nodes that were gone for longer than `backfill_hours`."""
        oldest = pull.at - self._settings.backfill_hours * 3600
        gone = [
            node
            for node, progress in self._progress.items()
            if node not in times and progress.counted_until < oldest
        ]
        for node in gone:
            del self._progress[node]
        if gone:
            await self._core.history.put_values(_KIND, dict.fromkeys(gone))

    async def _pull_present(
        self, pull: Pull, times: Mapping[str, NodeTimestamps], alerts: Mapping[str, list[Alert]]
    ) -> None:
        label = self._settings.node_label
        found = await self._source.query(state_query(list(times), label), pull.at)
        state = await asyncio.to_thread(parse_states, found, label)
        spans = {
            node: (progress.counted_until, progress.visible_until)
            for node, progress in ((node, self._progress[node]) for node in state)
            if (until := max(progress.visible_until, times[node].sampled_at))
            == _end(progress.counted_until, until)
        }
        usage = await self._usage(spans, times)
        found_of = {
            node: PulledNode(
                times[node],
                each,
                alerts=list(list_alerts(times[node], each, alerts.get(node, ()))),
                usage=usage[node].usage if node in usage else (),
                sample_seconds=self._progress[node].sample_seconds,
            )
            for node, each in state.items()
        }
        await self._store([pull.present_report(node, each) for node, each in found_of.items()], spans)
        for node in state:
            self._progress[node].sampled_at = times[node].sampled_at

    def _behind(self, pull: Pull, times: Mapping[str, NodeTimestamps]) -> Spans:
        """The next span of each node that is not read completely."""
        present = {each.node for each in self._core.registry.window_ends(pull.at)}
        spans = {}
        for node in times:
            after, until = self._progress[node].counted_until, self._progress[node].visible_until
            if node in present and until > after:
                spans[node] = (after, _end(after, until))
        # The nodes furthest behind first: together they must not span more than one query.
        earliest = min((after for after, _ in spans.values()), default=0.0)
        return {node: span for node, span in spans.items() if span[0] < earliest + _AT_ONCE_SECONDS}

    async def _pull_earlier(self, pull: Pull, spans: Spans, times: Mapping[str, NodeTimestamps]) -> None:
        usage = await self._usage(spans, times)
        await self._store(
            [
                pull.past_report(node, spans[node][1], self._progress[node].sample_seconds, counted.usage)
                for node, counted in usage.items()
            ],
            spans,
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
            begin, end = (
                min(after for after, _ in queried.values()),
                max(until for _, until in queried.values()),
            )
            series = usage_query(list(queried), label, sampled=sampled)
            found = await self._source.query_raw(series, end, end - begin)
            usage |= await asyncio.to_thread(parse_usage, found, label, queried)
        for node, counted in usage.items():
            self._progress[node].add(spans[node][0], counted)
        return usage

    async def _store(self, reports: Sequence[Report], spans: Spans) -> None:
        await store_reports(self._core, reports)
        for node, (_, until) in spans.items():
            self._progress[node].counted_until = max(until, self._progress[node].counted_until)
        entries = {node: msgspec.msgpack.encode(self._progress[node].counted_until) for node in spans}
        await self._core.history.put_values(_KIND, entries)

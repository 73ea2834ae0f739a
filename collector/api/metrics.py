"""What Prometheus sees of the collector, made anew at each scrape."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from collector.analysis.analysis import Analysis
from collector.api.cluster import ClusterSummary, added_up
from collector.api.control import Api
from collector.common.liveness import Liveness
from collector.common.outages import Dependency
from collector.control.actor import Actor
from collector.control.records import StepState, Trigger
from collector.core.parts import Core, ReportKind, ReportOutcome
from collector.history.interface import HistoryStats, OutboxStatus
from collector.reports.alerts import AlertState
from wire.http.serving import metrics_handler
from wire.metrics import MetricSpec, metric_families
from wire.version import __version__

REGISTRY = web.AppKey("REGISTRY", CollectorRegistry)


@dataclass(frozen=True, slots=True)
class Now:
    """The collector at the time of a scrape."""

    containers: int
    sequence_gaps: int
    history: HistoryStats
    understanding: Analysis


_NOW_METRICS: tuple[MetricSpec[Now], ...] = (
    MetricSpec(
        name="wattpack_collector_build_info",
        kind="gauge",
        help="Always 1; the label says which version runs.",
        value=lambda _: 1,
        labels={"version": lambda _: __version__},
    ),
    MetricSpec(
        name="wattpack_collector_containers",
        kind="gauge",
        help="Containers that are listed, those of nodes that are down included.",
        value=lambda now: now.containers,
    ),
    MetricSpec(
        name="wattpack_collector_sequence_gaps_total",
        kind="counter",
        help="Times that a report came while an earlier one of its run had not: lost, or late.",
        value=lambda now: now.sequence_gaps,
    ),
    MetricSpec(
        name="wattpack_collector_history_reports",
        kind="gauge",
        help="Reports that are kept.",
        value=lambda now: now.history.reports,
    ),
    MetricSpec(
        name="wattpack_collector_history_size_bytes",
        kind="gauge",
        help="Size of the history on disk.",
        value=lambda now: now.history.size_bytes,
    ),
    MetricSpec(
        name="wattpack_collector_history_dropped_total",
        kind="counter",
        help="Reports and rollups that went before their time, as the history was as large as it may be.",
        value=lambda now: now.history.dropped_for_size,
    ),
    MetricSpec(
        name="wattpack_collector_services",
        kind="gauge",
        help="Services that are understood, those too that do not run now.",
        value=lambda now: len(now.understanding.services),
    ),
    MetricSpec(
        name="wattpack_collector_understanding_timestamp_seconds",
        kind="gauge",
        help="Unix time of what the last pass over the whole cluster was made from.",
        value=lambda now: now.understanding.at,
    ),
    MetricSpec(
        name="wattpack_collector_understanding_duration_seconds",
        kind="gauge",
        help="How long that pass took.",
        value=lambda now: now.understanding.seconds,
    ),
)

_CLUSTER_METRICS: tuple[MetricSpec[ClusterSummary], ...] = (
    MetricSpec(
        name="wattpack_cluster_watts",
        kind="gauge",
        help="What the nodes draw together that are not down and tell it; absent while none does.",
        value=lambda cluster: None if cluster.power is None else cluster.power.watts,
    ),
    MetricSpec(
        name="wattpack_cluster_idle_watts",
        kind="gauge",
        help="Of that, what they would draw without any load.",
        value=lambda cluster: None if cluster.power is None else cluster.power.idle_watts,
    ),
    MetricSpec(
        name="wattpack_cluster_cpu_cores",
        kind="gauge",
        help="CPUs of the nodes that are not down.",
        value=lambda cluster: cluster.cpu_cores,
    ),
    MetricSpec(
        name="wattpack_cluster_cpu_used_cores",
        kind="gauge",
        help="Of those, what is used.",
        value=lambda cluster: cluster.cpu_cores_used,
    ),
)

_OPEN_ALERT_METRICS: tuple[MetricSpec[tuple[str, int]], ...] = (
    MetricSpec(
        name="wattpack_cluster_open_alerts",
        kind="gauge",
        help="Alerts that last, by their kind: what nodes found in themselves, or only the collector sees.",
        value=lambda counted: counted[1],
        labels={"kind": lambda counted: counted[0]},
    ),
)

_STORE_METRICS: tuple[MetricSpec[OutboxStatus], ...] = (
    MetricSpec(
        name="wattpack_collector_store_waiting_reports",
        kind="gauge",
        help="Reports of which the store of time series has not taken the samples yet.",
        value=lambda waiting: waiting.reports,
    ),
    MetricSpec(
        name="wattpack_collector_store_waiting_bytes",
        kind="gauge",
        help="Room that they take on disk.",
        value=lambda waiting: waiting.size_bytes,
    ),
    MetricSpec(
        name="wattpack_collector_store_dropped_reports_total",
        kind="counter",
        help="Reports whose samples were given up: no more room for them, or refused for good.",
        value=lambda waiting: waiting.dropped_reports,
    ),
)

_TROUBLE_METRICS: tuple[MetricSpec[tuple[Dependency, str]], ...] = (
    MetricSpec(
        name="wattpack_collector_trouble",
        kind="gauge",
        help="1 while a server that the collector leans on does not answer, else 0.",
        value=lambda part: bool(part[1]),
        labels={"part": lambda part: part[0].value},
    ),
)

_NODE_METRICS: tuple[MetricSpec[tuple[Liveness, int]], ...] = (
    MetricSpec(
        name="wattpack_collector_nodes",
        kind="gauge",
        help="Registered nodes by state: up, suspect or down.",
        value=lambda counted: counted[1],
        labels={"state": lambda counted: counted[0].label},
    ),
)

_ALERT_METRICS: tuple[MetricSpec[tuple[AlertState, int]], ...] = (
    MetricSpec(
        name="wattpack_collector_alerts",
        kind="gauge",
        help="Bottlenecks that nodes told of, open or of late, by whether they last.",
        value=lambda counted: counted[1],
        labels={"state": lambda counted: counted[0].value},
    ),
)

_REPORT_METRICS: tuple[MetricSpec[tuple[ReportOutcome, int]], ...] = (
    MetricSpec(
        name="wattpack_collector_reports_total",
        kind="counter",
        help="Reports by what became of them; a request refused, or put off (delayed), counts as one.",
        value=lambda counted: counted[1],
        labels={"outcome": lambda counted: counted[0].value},
    ),
)

_KIND_METRICS: tuple[MetricSpec[tuple[ReportKind, int]], ...] = (
    MetricSpec(
        name="wattpack_collector_reports_taken_total",
        kind="counter",
        help="Reports that were new, by what they are about.",
        value=lambda counted: counted[1],
        labels={"kind": lambda counted: counted[0].value},
    ),
)

_ACTING_METRICS: tuple[MetricSpec[Actor], ...] = (
    MetricSpec(
        name="wattpack_collector_acts",
        kind="gauge",
        help="1 while plans are carried out: neither dry, nor paused, nor another collector's turn; else 0.",
        value=lambda actor: actor.situation.acts,
        labels={"driver": lambda actor: actor.situation.driver_name},
    ),
    MetricSpec(
        name="wattpack_collector_steps_in_motion",
        kind="gauge",
        help="Actions that are begun and not ended.",
        value=lambda actor: actor.situation.in_motion,
    ),
    MetricSpec(
        name="wattpack_collector_healed_seconds",
        kind="gauge",
        help="From the last decision that healed a bottleneck until its nodes were short of nothing.",
        value=lambda actor: actor.situation.last_healed_seconds,
    ),
)

_DECISION_METRICS: tuple[MetricSpec[tuple[tuple[Trigger, str], int]], ...] = (
    MetricSpec(
        name="wattpack_collector_decisions_total",
        kind="counter",
        help="Decisions since the start, by why they were made and by which policy.",
        value=lambda counted: counted[1],
        labels={"trigger": lambda counted: counted[0][0].value, "policy": lambda counted: counted[0][1]},
    ),
)

_STEP_METRICS: tuple[MetricSpec[tuple[tuple[str, StepState], int]], ...] = (
    MetricSpec(
        name="wattpack_collector_steps_total",
        kind="counter",
        help="Actions since the start, by what they are and how they ended.",
        value=lambda counted: counted[1],
        labels={"kind": lambda counted: counted[0][0], "state": lambda counted: counted[0][1].value},
    ),
)

# The whole table; `core.INGEST_DURATION`, a histogram, is observed and not read off anything.
COLLECTOR_METRICS: tuple[MetricSpec[Any], ...] = (
    *_NOW_METRICS,
    *_CLUSTER_METRICS,
    *_OPEN_ALERT_METRICS,
    *_STORE_METRICS,
    *_TROUBLE_METRICS,
    *_NODE_METRICS,
    *_ALERT_METRICS,
    *_REPORT_METRICS,
    *_KIND_METRICS,
    *_ACTING_METRICS,
    *_DECISION_METRICS,
    *_STEP_METRICS,
)


class _FromApi(Collector):
    """The metric families of one scrape, read off the running collector."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def describe(self) -> Iterator[Metric]:
        """Nothing: the registry would otherwise collect once to learn the names."""
        yield from ()

    def collect(self) -> Iterator[Metric]:
        core, tally, actor = self._api, self._api.counters, self._api.control.actor
        now = Now(
            core.registry.container_count(), tally.sequence_gaps, core.history.stats(), core.analysis.latest
        )
        yield from metric_families(_NOW_METRICS, [now])
        cluster = added_up(core)
        yield from metric_families(_CLUSTER_METRICS, [cluster])
        yield from metric_families(_OPEN_ALERT_METRICS, msgspec.structs.asdict(cluster.open_alerts).items())
        yield from metric_families(_STORE_METRICS, [now.history.outbox] if now.history.outbox else [])
        yield from metric_families(_TROUBLE_METRICS, core.outages.parts.items())
        yield from metric_families(_NODE_METRICS, core.registry.node_count(core.clock()).items())
        yield from metric_families(_ALERT_METRICS, core.registry.alert_count().items())
        yield from metric_families(
            _REPORT_METRICS, [(outcome, tally.reports[outcome]) for outcome in ReportOutcome]
        )
        yield from metric_families(_KIND_METRICS, [(kind, tally.taken[kind]) for kind in ReportKind])
        yield from metric_families(_ACTING_METRICS, [actor])
        yield from metric_families(_DECISION_METRICS, actor.decider.decided.items())
        yield from metric_families(_STEP_METRICS, actor.hands.ended.items())


def registry_of(api: Api) -> CollectorRegistry:
    """All that a scrape of this collector shows."""
    registry = CollectorRegistry()
    registry.register(_FromApi(api))
    registry.register(api.counters.ingest_duration)
    ProcessCollector(registry=registry)
    return registry


async def scrape(_core: Core, request: web.Request) -> web.StreamResponse:
    """Answer Prometheus."""
    return await metrics_handler(request.app[REGISTRY])(request)

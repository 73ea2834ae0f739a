"""Metrics of the collector, read from its state at each scrape."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from collector.analysis.analysis import Analysis
from collector.api.cluster import ClusterSummary, summarize
from collector.api.control import Api
from collector.common.extensions import extend, extensions
from collector.common.liveness import Liveness
from collector.common.outages import Dependency
from collector.control.actor import Actor
from collector.control.records import StepState, Trigger
from collector.core.parts import Core, ReportKind, ReportOutcome
from collector.history.interface import HistoryStats, OutboxStatus
from collector.live.entries import ServicePower
from collector.live.limits.node_account import Limit
from collector.policies.admission.record import NodeShortages
from collector.reports.alerts import AlertState
from wire.http.serving import metrics_handler
from wire.metrics import MetricSpec, metric_families
from wire.version import __version__

REGISTRY = web.AppKey("REGISTRY", CollectorRegistry)


@dataclass(frozen=True, slots=True)
class ScrapeState:
    """State of the collector at a scrape."""

    containers: int
    sequence_gaps: int
    history: HistoryStats
    analysis: Analysis


_STATE_METRICS: tuple[MetricSpec[ScrapeState], ...] = (
    MetricSpec(
        name="wattpack_collector_build_info",
        kind="gauge",
        help="Version of the collector, as a label. Always 1.",
        value=lambda _: 1,
        labels={"version": lambda _: __version__},
    ),
    MetricSpec(
        name="wattpack_collector_containers",
        kind="gauge",
        help="Containers of the cluster, including those on nodes that are down.",
        value=lambda now: now.containers,
    ),
    MetricSpec(
        name="wattpack_collector_sequence_gaps_total",
        kind="counter",
        help="Gaps in the sequence of reports: an earlier report of the same agent run is lost or late.",
        value=lambda now: now.sequence_gaps,
    ),
    MetricSpec(
        name="wattpack_collector_history_reports",
        kind="gauge",
        help="Reports in the collector's history.",
        value=lambda now: now.history.reports,
    ),
    MetricSpec(
        name="wattpack_collector_history_size_bytes",
        kind="gauge",
        help="Size of the collector's history on disk, in bytes.",
        value=lambda now: now.history.size_bytes,
    ),
    MetricSpec(
        name="wattpack_collector_history_dropped_total",
        kind="counter",
        help="Reports and rollups deleted before their retention ended, because the history reached its"
        " maximum size.",
        value=lambda now: now.history.dropped_for_size,
    ),
    MetricSpec(
        name="wattpack_collector_history_wrong_rows_total",
        kind="counter",
        help="Rows of energy accounts that were deleted because they did not match their checksum.",
        value=lambda now: now.history.wrong_rows,
    ),
    MetricSpec(
        name="wattpack_collector_services",
        kind="gauge",
        help="Services in the last analysis, including profiled services that do not run now.",
        value=lambda now: len(now.analysis.services),
    ),
    MetricSpec(
        name="wattpack_collector_analysis_timestamp_seconds",
        kind="gauge",
        help="Unix time of the last analysis of the cluster, in seconds.",
        value=lambda now: now.analysis.at,
    ),
    MetricSpec(
        name="wattpack_collector_analysis_duration_seconds",
        kind="gauge",
        help="Duration of the last analysis of the cluster, in seconds.",
        value=lambda now: now.analysis.seconds,
    ),
)

_ADMISSION_METRICS: tuple[MetricSpec[NodeShortages], ...] = (
    MetricSpec(
        name="wattpack_admission_predicted_short_ratio",
        kind="gauge",
        help="Predicted share of five-minute windows in which nodes were short of a resource, over the last"
        " days, before correction.",
        value=lambda total: total.predicted / total.windows,
    ),
    MetricSpec(
        name="wattpack_admission_observed_short_ratio",
        kind="gauge",
        help="Observed share of five-minute windows in which nodes were short of a resource, over the last"
        " days.",
        value=lambda total: total.short / total.windows,
    ),
)

_CLUSTER_METRICS: tuple[MetricSpec[ClusterSummary], ...] = (
    MetricSpec(
        name="wattpack_cluster_watts",
        kind="gauge",
        help="Total power of the nodes that are not down, in watts. Absent while no node reports power.",
        value=lambda cluster: None if cluster.power is None else cluster.power.watts,
    ),
    MetricSpec(
        name="wattpack_cluster_idle_watts",
        kind="gauge",
        help="Total idle power of the nodes that are not down, in watts. Absent while no node reports power.",
        value=lambda cluster: None if cluster.power is None else cluster.power.idle_watts,
    ),
    MetricSpec(
        name="wattpack_cluster_cpu_cores",
        kind="gauge",
        help="CPU cores of the nodes that are not down.",
        value=lambda cluster: cluster.cpu_cores,
    ),
    MetricSpec(
        name="wattpack_cluster_cpu_used_cores",
        kind="gauge",
        help="CPU cores in use on the nodes that are not down.",
        value=lambda cluster: cluster.cpu_cores_used,
    ),
)

_SERVICE_METRICS: tuple[MetricSpec[ServicePower], ...] = (
    MetricSpec(
        name="wattpack_service_power_watts",
        kind="gauge",
        help="Power that the containers of the service add to the idle power of their nodes, in watts.",
        value=lambda each: each.watts,
        labels={"service": lambda each: each.service},
    ),
    MetricSpec(
        name="wattpack_service_energy_joules_total",
        kind="counter",
        help="Energy of the service since the collector started, in joules: its reported power over time.",
        value=lambda each: each.joules_total,
        labels={"service": lambda each: each.service},
    ),
)

_OPEN_ALERT_METRICS: tuple[MetricSpec[tuple[str, int]], ...] = (
    MetricSpec(
        name="wattpack_cluster_open_alerts",
        kind="gauge",
        help="Open alerts by kind. Nodes report those with kind=node; the collector detects the others.",
        value=lambda count: count[1],
        labels={"kind": lambda count: count[0]},
    ),
)

_OUTBOX_METRICS: tuple[MetricSpec[OutboxStatus], ...] = (
    MetricSpec(
        name="wattpack_collector_outbox_reports",
        kind="gauge",
        help="Reports whose samples wait to be sent to the time series store.",
        value=lambda outbox: outbox.reports,
    ),
    MetricSpec(
        name="wattpack_collector_outbox_bytes",
        kind="gauge",
        help="Size of the reports whose samples wait to be sent to the time series store, in bytes.",
        value=lambda outbox: outbox.size_bytes,
    ),
    MetricSpec(
        name="wattpack_collector_outbox_dropped_reports_total",
        kind="counter",
        help="Reports whose samples never reached the time series store: the outbox was full, or the store"
        " rejected them.",
        value=lambda outbox: outbox.dropped_reports,
    ),
)

_DEPENDENCY_METRICS: tuple[MetricSpec[tuple[Dependency, str]], ...] = (
    MetricSpec(
        name="wattpack_collector_dependency_down",
        kind="gauge",
        help="1 while a server that the collector depends on does not answer, else 0.",
        value=lambda outage: bool(outage[1]),
        labels={"dependency": lambda outage: outage[0].value},
    ),
)

_NODE_METRICS: tuple[MetricSpec[tuple[Liveness, int]], ...] = (
    MetricSpec(
        name="wattpack_collector_nodes",
        kind="gauge",
        help="Nodes by state: up, suspect or down.",
        value=lambda count: count[1],
        labels={"state": lambda count: count[0].label},
    ),
)

_ALERT_METRICS: tuple[MetricSpec[tuple[AlertState, int]], ...] = (
    MetricSpec(
        name="wattpack_collector_alerts",
        kind="gauge",
        help="Alerts reported by nodes, by state: open, or recently closed.",
        value=lambda count: count[1],
        labels={"state": lambda count: count[0].value},
    ),
)

_REPORT_METRICS: tuple[MetricSpec[tuple[ReportOutcome, int]], ...] = (
    MetricSpec(
        name="wattpack_collector_reports_total",
        kind="counter",
        help="Reports by outcome; a rejected or delayed request counts as one report.",
        value=lambda count: count[1],
        labels={"outcome": lambda count: count[0].value},
    ),
)

_REFUSED_METRICS: tuple[MetricSpec[tuple[str, Limit, int]], ...] = (
    MetricSpec(
        name="wattpack_collector_refused_total",
        kind="counter",
        help="Requests, containers, labels and values of a node that were refused because they exceed a limit"
        " per node. Absent for nodes within their limits.",
        value=lambda count: count[2],
        labels={"node": lambda count: count[0], "limit": lambda count: count[1].value},
    ),
)

_KIND_METRICS: tuple[MetricSpec[tuple[ReportKind, int]], ...] = (
    MetricSpec(
        name="wattpack_collector_new_reports_total",
        kind="counter",
        help="Reports stored for the first time, by kind.",
        value=lambda count: count[1],
        labels={"kind": lambda count: count[0].value},
    ),
)

_CONTROL_METRICS: tuple[MetricSpec[Actor], ...] = (
    MetricSpec(
        name="wattpack_collector_control_active",
        kind="gauge",
        help="1 while the control loop carries out plans; 0 during a dry run or a pause, or while another"
        " collector holds the lease.",
        value=lambda actor: actor.situation.acts,
        labels={"driver": lambda actor: actor.situation.driver_name},
    ),
    MetricSpec(
        name="wattpack_collector_steps_in_progress",
        kind="gauge",
        help="Steps of the control loop that have started and not ended.",
        value=lambda actor: actor.situation.in_motion,
    ),
    MetricSpec(
        name="wattpack_collector_last_recovery_seconds",
        kind="gauge",
        help="Time from the last decision that resolved a bottleneck until its alerts closed, in seconds.",
        value=lambda actor: actor.situation.last_healed_seconds,
    ),
)

_DECISION_METRICS: tuple[MetricSpec[tuple[tuple[Trigger, str], int]], ...] = (
    MetricSpec(
        name="wattpack_collector_decisions_total",
        kind="counter",
        help="Decisions of the control loop by trigger and policy.",
        value=lambda count: count[1],
        labels={"trigger": lambda count: count[0][0].value, "policy": lambda count: count[0][1]},
    ),
)

_STEP_METRICS: tuple[MetricSpec[tuple[tuple[str, StepState], int]], ...] = (
    MetricSpec(
        name="wattpack_collector_steps_total",
        kind="counter",
        help="Steps of the control loop that have ended, by kind of action and final state.",
        value=lambda count: count[1],
        labels={"kind": lambda count: count[0][0], "state": lambda count: count[0][1].value},
    ),
)

# `core.INGEST_DURATION` is a histogram, which is observed and not read from the state.
COLLECTOR_METRICS: tuple[MetricSpec[Any], ...] = (
    *_STATE_METRICS,
    *_ADMISSION_METRICS,
    *_CLUSTER_METRICS,
    *_SERVICE_METRICS,
    *_OPEN_ALERT_METRICS,
    *_OUTBOX_METRICS,
    *_DEPENDENCY_METRICS,
    *_NODE_METRICS,
    *_ALERT_METRICS,
    *_REPORT_METRICS,
    *_REFUSED_METRICS,
    *_KIND_METRICS,
    *_CONTROL_METRICS,
    *_DECISION_METRICS,
    *_STEP_METRICS,
    *extend("metrics", "METRICS"),
)


class _MetricsCollector(Collector):
    """Reads the metric families of one scrape from the running collector."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def describe(self) -> Iterator[Metric]:
        """Return nothing: otherwise the registry collects once to learn the names."""
        yield from ()

    def collect(self) -> Iterator[Metric]:
        core, counters, actor = self._api, self._api.counters, self._api.control.actor
        now = ScrapeState(
            core.registry.container_count(),
            counters.sequence_gaps,
            core.history.stats(),
            core.analysis.latest,
        )
        yield from metric_families(_STATE_METRICS, [now])
        cluster = summarize(core)
        yield from metric_families(_CLUSTER_METRICS, [cluster])
        shortages = core.shortages.total()
        yield from metric_families(_ADMISSION_METRICS, [shortages] if shortages.windows else [])
        yield from metric_families(_SERVICE_METRICS, core.registry.service_powers(core.clock()))
        yield from metric_families(_OPEN_ALERT_METRICS, msgspec.structs.asdict(cluster.open_alerts).items())
        yield from metric_families(_OUTBOX_METRICS, [now.history.outbox] if now.history.outbox else [])
        yield from metric_families(_DEPENDENCY_METRICS, core.outages.by_dependency.items())
        yield from metric_families(_NODE_METRICS, core.registry.node_count(core.clock()).items())
        yield from metric_families(_ALERT_METRICS, core.registry.alert_count().items())
        yield from metric_families(
            _REPORT_METRICS, [(outcome, counters.reports[outcome]) for outcome in ReportOutcome]
        )
        refused = core.registry.admission.refused()
        yield from metric_families(
            _REFUSED_METRICS,
            [(node, limit, count) for node, counts in refused.items() for limit, count in counts.items()],
        )
        yield from metric_families(_KIND_METRICS, [(kind, counters.accepted[kind]) for kind in ReportKind])
        yield from metric_families(_CONTROL_METRICS, [actor])
        yield from metric_families(_DECISION_METRICS, actor.planner.decided.items())
        yield from metric_families(_STEP_METRICS, actor.executor.ended.items())
        for metrics in extensions("metrics"):
            yield from metrics.collect(self._api)


def metrics_registry(api: Api) -> CollectorRegistry:
    """The registry of `/metrics`."""
    registry = CollectorRegistry()
    registry.register(_MetricsCollector(api))
    registry.register(api.counters.ingest_duration)
    ProcessCollector(registry=registry)
    return registry


async def scrape(_core: Core, request: web.Request) -> web.StreamResponse:
    """Serve the metrics."""
    return await metrics_handler(request.app[REGISTRY])(request)

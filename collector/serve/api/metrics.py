"""Metrics of the collector, read from its state at each scrape."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from aiohttp import web
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from collector.act.verdicts.learning import DeciderEffect
from collector.common.extensions import extend, extensions
from collector.runtime.parts import Core, ReportKind, ReportOutcome
from collector.serve.api.cluster import open_alerts, summarize
from collector.serve.api.control import Api
from collector.serve.web.routes import ResponseSpec, Route, get
from wire.http.serving import metrics_handler
from wire.metrics import MetricSpec, metric_families
from wire.version import __version__

REGISTRY = web.AppKey("REGISTRY", CollectorRegistry)


_Table = tuple[Callable[[Api], Iterable[Any]], list[MetricSpec[Any]]]


def _counts(
    name: str, text: str, labels: tuple[str, ...], counts: Callable[[Api], Mapping[Any, float]]
) -> _Table:
    """A metric with one series for each key of a mapping: the value of its label, or one value per label."""

    def value_of(place: int) -> Callable[[Any], Any]:
        return lambda count: count[0] if len(labels) == 1 else count[0][place]

    values = {label: value_of(place) for place, label in enumerate(labels)}
    return lambda api: counts(api).items(), [MetricSpec[Any](name, text, lambda count: count[1], values)]


def _deciders(api: Api) -> Sequence[DeciderEffect]:
    return api.control.actor.situation.effects


_OF_A_WEEK = "Decisions of the last seven days."
_BY_POLICY: dict[str, Callable[[DeciderEffect], str]] = {"policy": attrgetter("policy")}
_EFFECTS = {
    "promised_joules": ("promised_joules", "measured", "Energy that measured decisions were to save."),
    "saved_joules": ("saved_joules", "measured", "Energy that measured decisions saved, costs not counted."),
    "saved_error_joules": (
        "error_joules",
        "measured",
        "Half the width of the 95% interval of the saved energy.",
    ),
    "cost_joules": ("cost_joules", "decisions", "Energy of moves, and of switching nodes off and on again."),
    "moves": ("moves", "decisions", "Containers that were moved, stopped or started."),
    "answered_alerts": ("alerts", "decisions", "Alerts that decisions answered."),
    "closed_alerts": ("closed_alerts", "alerts", "Answered alerts that ended, and stayed so."),
    "alone_alerts": ("alone_alerts", "alerts", "Answered alerts that would have ended without an answer."),
    "short_before_seconds": (
        "short_seconds_before",
        "decisions",
        "Time with alerts on changed nodes before.",
    ),
    "short_after_seconds": ("short_seconds_after", "decisions", "Time with alerts on changed nodes after."),
    "caution_ratio": ("caution", "decisions", "Factor by which a gain must exceed the required minimum."),
}
"""Metrics of what a decider brought: the field, the one without which it is unknown, and its help."""


def _effect(field: str, needed: str) -> Callable[[DeciderEffect], float | None]:
    return lambda each: getattr(each, field) if getattr(each, needed) else None


_TABLES: tuple[_Table, ...] = (
    (
        lambda api: [api],
        [
            MetricSpec(
                "wattpack_collector_build_info",
                "Version of the collector, as a label. Always 1.",
                lambda _: 1,
                {"version": lambda _: __version__},
            ),
            MetricSpec(
                "wattpack_collector_containers",
                "Containers of the cluster, including those on nodes that are down.",
                lambda api: api.registry.container_count(),
            ),
            MetricSpec(
                "wattpack_collector_sequence_gaps_total",
                "Gaps in the sequence of reports: an earlier report of the same agent run is lost or late.",
                lambda api: api.counters.sequence_gaps,
            ),
            MetricSpec(
                "wattpack_collector_history_reports",
                "Reports in the collector's history.",
                lambda api: api.history.stats().reports,
            ),
            MetricSpec(
                "wattpack_collector_history_size_bytes",
                "Size of the collector's history on disk, in bytes.",
                lambda api: api.history.stats().size_bytes,
            ),
            MetricSpec(
                "wattpack_collector_history_dropped_total",
                "Reports and rollups deleted before their retention ended, because the history reached"
                " its maximum size.",
                lambda api: api.history.stats().dropped_for_size,
            ),
            MetricSpec(
                "wattpack_collector_history_damaged",
                "Whether the file of the history is damaged: reports are refused until a restart repairs it.",
                lambda api: float(bool(api.history.stats().damage)),
            ),
            MetricSpec(
                "wattpack_collector_services",
                "Services in the last analysis, including profiled services that do not run now.",
                lambda api: len(api.analysis.latest.services),
            ),
            MetricSpec(
                "wattpack_collector_analysis_timestamp_seconds",
                "Unix time of the last analysis of the cluster, in seconds.",
                lambda api: api.analysis.latest.at,
            ),
            MetricSpec(
                "wattpack_collector_analysis_duration_seconds",
                "Duration of the last analysis of the cluster, in seconds.",
                lambda api: api.analysis.latest.seconds,
            ),
        ],
    ),
    (
        lambda api: [total] if (total := api.shortages.total()).windows else [],
        [
            MetricSpec(
                "wattpack_admission_predicted_short_ratio",
                "Predicted share of five-minute windows in which nodes were short of a resource, over"
                " the last days, before correction.",
                lambda total: total.predicted / total.windows,
            ),
            MetricSpec(
                "wattpack_admission_observed_short_ratio",
                "Observed share of five-minute windows in which nodes were short of a resource, over"
                " the last days.",
                lambda total: total.short / total.windows,
            ),
        ],
    ),
    (
        lambda api: [summarize(api)],
        [
            MetricSpec(
                "wattpack_cluster_watts",
                "Total power of the nodes that are not down, in watts. Absent while no node reports power.",
                lambda cluster: None if cluster.power is None else cluster.power.watts,
            ),
            MetricSpec(
                "wattpack_cluster_idle_watts",
                "Total idle power of the nodes that are not down, in watts. Absent while no node"
                " reports power.",
                lambda cluster: None if cluster.power is None else cluster.power.idle_watts,
            ),
            MetricSpec(
                "wattpack_cluster_cpu_cores",
                "CPU cores of the nodes that are not down.",
                lambda cluster: cluster.cpu_cores,
            ),
            MetricSpec(
                "wattpack_cluster_cpu_used_cores",
                "CPU cores in use on the nodes that are not down.",
                lambda cluster: cluster.cpu_cores_used,
            ),
        ],
    ),
    (
        lambda api: api.registry.service_powers(api.clock()),
        [
            MetricSpec(
                "wattpack_service_power_watts",
                "Power that the containers of the service add to the idle power of their nodes, in watts.",
                lambda each: each.watts,
                {"service": lambda each: each.service},
            ),
            MetricSpec(
                "wattpack_service_energy_joules_total",
                "Energy of the service since the collector started, in joules: its reported power over time.",
                lambda each: each.joules_total,
                {"service": lambda each: each.service},
            ),
        ],
    ),
    _counts(
        "wattpack_cluster_open_alerts",
        "Open alerts by kind. Nodes report those with kind=node; the collector detects the others.",
        ("kind",),
        open_alerts,
    ),
    (
        lambda api: [outbox] if (outbox := api.history.stats().outbox) else [],
        [
            MetricSpec(
                "wattpack_collector_outbox_reports",
                "Reports whose samples wait to be sent to the time series store.",
                lambda outbox: outbox.reports,
            ),
            MetricSpec(
                "wattpack_collector_outbox_bytes",
                "Size of the reports whose samples wait to be sent to the time series store, in bytes.",
                lambda outbox: outbox.size_bytes,
            ),
            MetricSpec(
                "wattpack_collector_outbox_dropped_reports_total",
                "Reports whose samples never reached the time series store: the outbox was full, or the"
                " store rejected them.",
                lambda outbox: outbox.dropped_reports,
            ),
        ],
    ),
    _counts(
        "wattpack_collector_dependency_down",
        "1 while a server that the collector depends on does not answer, else 0.",
        ("dependency",),
        lambda api: {each: bool(why) for each, why in api.outages.by_dependency.items()},
    ),
    _counts(
        "wattpack_collector_nodes",
        "Nodes by state: up, suspect or down.",
        ("state",),
        lambda api: {each.label: count for each, count in api.registry.node_count(api.clock()).items()},
    ),
    _counts(
        "wattpack_collector_alerts",
        "Alerts reported by nodes, by state: open, or recently closed.",
        ("state",),
        lambda api: api.registry.alert_count(),
    ),
    _counts(
        "wattpack_collector_reports_total",
        "Reports by outcome; a rejected or delayed request counts as one report.",
        ("outcome",),
        lambda api: {each: api.counters.reports[each] for each in ReportOutcome},
    ),
    _counts(
        "wattpack_collector_refused_total",
        "Requests, containers, labels and values of a node that were refused because they exceed a limit per"
        " node. Absent for nodes within their limits.",
        ("node", "limit"),
        lambda api: {
            (node, limit): count
            for node, refused in api.registry.limits.refused().items()
            for limit, count in refused.items()
        },
    ),
    _counts(
        "wattpack_collector_new_reports_total",
        "Reports stored for the first time, by kind.",
        ("kind",),
        lambda api: {each: api.counters.accepted[each] for each in ReportKind},
    ),
    (
        lambda api: [api.control.actor],
        [
            MetricSpec(
                "wattpack_collector_control_active",
                "1 while the control loop carries out plans; 0 during a dry run or a pause, or while"
                " another collector holds the lease.",
                lambda actor: actor.situation.acts,
                {"driver": lambda actor: actor.situation.driver.name},
            ),
            MetricSpec(
                "wattpack_collector_steps_in_progress",
                "Steps of the control loop that have started and not ended.",
                lambda actor: actor.situation.in_motion,
            ),
        ],
    ),
    (
        _deciders,
        [
            MetricSpec(
                f"wattpack_decision_{name}", f"{text} {_OF_A_WEEK}", _effect(field, needed), _BY_POLICY
            )
            for name, (field, needed, text) in _EFFECTS.items()
        ],
    ),
    _counts(
        "wattpack_decision_verdicts",
        f"Decisions by the verdict that counts: helped, less than promised, useless, unknown. {_OF_A_WEEK}",
        ("policy", "effect"),
        lambda api: {
            (each.policy, effect): count for each in _deciders(api) for effect, count in each.effects.items()
        },
    ),
    _counts(
        "wattpack_collector_decisions_total",
        "Decisions of the control loop by trigger and policy.",
        ("trigger", "policy"),
        lambda api: api.control.actor.planner.decided,
    ),
    _counts(
        "wattpack_collector_steps_total",
        "Steps of the control loop that have ended, by kind of action and final state.",
        ("kind", "state"),
        lambda api: api.control.actor.executor.ended,
    ),
)
"""Metrics by what they are read from: one series for each subject."""

# `core.INGEST_DURATION` is a histogram, which is observed and not read from the state.
COLLECTOR_METRICS: tuple[MetricSpec[Any], ...] = (
    *(spec for _, specs in _TABLES for spec in specs),
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
        for subjects, specs in _TABLES:
            yield from metric_families(specs, subjects(self._api))
        for metrics in extensions("metrics"):
            yield from metrics.collect(self._api)


def metrics_registry(api: Api) -> CollectorRegistry:
    """The registry of `/metrics`."""
    registry = CollectorRegistry()
    registry.register(_MetricsCollector(api))
    registry.register(api.counters.ingest_duration)
    ProcessCollector(registry=registry)
    # Without values while it is not running.
    ProcessCollector("wattpack_collector_worker", lambda: api.worker.pid or 0, registry=registry)
    return registry


async def scrape(_core: Core, request: web.Request) -> web.StreamResponse:
    """Get the collector's own metrics in the Prometheus text format."""
    return await metrics_handler(request.app[REGISTRY])(request)


ROUTES: tuple[Route, ...] = (
    get("/metrics", scrape, responds=ResponseSpec("Metrics.", content_type="text/plain")),
)

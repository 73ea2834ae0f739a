"""Metrics of elastic services: a series per service."""

from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client.core import Metric

from collector.api.control import Api
from collector.features.elastic.controllers import ElasticController
from collector.features.elastic.status import ElasticStatus
from wire.metrics import MetricSpec, metric_families


def _gauge(name: str, text: str, value: Callable[[ElasticStatus], float | None]) -> MetricSpec[ElasticStatus]:
    return MetricSpec(
        name=f"wattpack_elastic_{name}",
        kind="gauge",
        help=text,
        value=value,
        labels={"service": lambda each: each.service},
    )


_STATUS_METRICS: tuple[MetricSpec[ElasticStatus], ...] = (
    _gauge(
        "metric",
        "Metric of an elastic service at the last decision: the 95th percentile of its response times in"
        " seconds, or the result of its query.",
        lambda each: each.metric,
    ),
    _gauge(
        "metric_max",
        "Maximum of the metric of an elastic service, by its target.",
        lambda each: each.target.metric_max,
    ),
    _gauge(
        "replicas", "Running replicas of an elastic service at the last decision.", lambda each: each.running
    ),
    _gauge(
        "wanted_replicas",
        "Replicas that the last decision about an elastic service chose.",
        lambda each: each.wanted_replicas,
    ),
    _gauge(
        "cpu_limit_cores",
        "CPU limit of each replica of an elastic service at the last decision, in cores.",
        lambda each: each.cpu_limit_cores,
    ),
    _gauge(
        "cpu_used_cores",
        "CPU usage of all replicas of an elastic service before the last decision, in cores.",
        lambda each: each.cpu_used_cores,
    ),
)

_DECISION_METRICS: tuple[MetricSpec[tuple[tuple[str, str], int]], ...] = (
    MetricSpec(
        name="wattpack_elastic_decisions_total",
        kind="counter",
        help="Decisions about an elastic service, by result: not changed, changed, or failed to change.",
        value=lambda count: count[1],
        labels={"service": lambda count: count[0][0], "result": lambda count: count[0][1]},
    ),
)

METRICS: tuple[MetricSpec[Any], ...] = (*_STATUS_METRICS, *_DECISION_METRICS)


def collect(api: Api) -> Iterator[Metric]:
    """The families of one scrape."""
    controller = api.control.controller(ElasticController)
    yield from metric_families(_STATUS_METRICS, controller.statuses())
    yield from metric_families(_DECISION_METRICS, controller.decided.items())

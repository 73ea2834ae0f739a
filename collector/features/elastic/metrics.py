"""Metrics of elastic services: a series per service."""

from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client.core import Metric

from collector.api.control import Api
from collector.features.elastic.controllers import ElasticController
from collector.features.elastic.status import ElasticStatus
from wire.metrics import MetricSpec, metric_families


def _observed(name: str) -> Callable[[ElasticStatus], float | None]:
    return lambda each: None if each.observed is None else getattr(each.observed, name)


_GAUGES: tuple[tuple[str, str, Callable[[ElasticStatus], float | None]], ...] = (
    (
        "metric",
        "95th percentile of the response times of an elastic service in seconds, or the result of its query.",
        _observed("metric"),
    ),
    (
        "metric_max",
        "Maximum of the metric of an elastic service, by its target.",
        lambda each: each.target.metric_max,
    ),
    (
        "replicas",
        "Running replicas of an elastic service at the last decision.",
        _observed("replicas"),
    ),
    (
        "wanted_replicas",
        "Replicas that the last decision about an elastic service chose.",
        lambda each: each.wanted_replicas,
    ),
    (
        "cpu_limit_cores",
        "CPU limit of each replica of an elastic service at the last decision, in cores.",
        _observed("cpu_limit_cores"),
    ),
    (
        "cpu_used_cores",
        "CPU usage of all replicas of an elastic service before the last decision, in cores.",
        _observed("cpu_used_cores"),
    ),
)
_STATUS_METRICS = tuple(
    MetricSpec(
        name=f"wattpack_elastic_{name}",
        help=text,
        value=value,
        labels={"service": lambda each: each.service},
    )
    for name, text, value in _GAUGES
)

_DECISION_METRICS: tuple[MetricSpec[tuple[tuple[str, str], int]], ...] = (
    MetricSpec(
        name="wattpack_elastic_decisions_total",
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

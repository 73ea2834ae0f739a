"""Metrics of elastic services: a series per service."""

from collections.abc import Iterator
from operator import attrgetter
from typing import Any

from prometheus_client.core import Metric

from collector.features.elastic.controllers import ElasticController
from collector.features.elastic.status import ElasticStatus
from collector.serve.api.control import Api
from wire.metrics import MetricSpec, metric_families

_GAUGES = {
    "observed.metric": "95th percentile of the response times of an elastic service in seconds, or the result"
    " of its query.",
    "target.metric_max": "Maximum of the metric of an elastic service, by its target.",
    "observed.replicas": "Running replicas of an elastic service at the last decision.",
    "wanted_replicas": "Replicas that the last decision about an elastic service chose.",
    "observed.cpu_limit_cores": "CPU limit of each replica of an elastic service, in cores.",
    "observed.cpu_used_cores": "CPU usage of all replicas of an elastic service, in cores.",
}
_STATUS_METRICS: tuple[MetricSpec[ElasticStatus], ...] = tuple(
    MetricSpec(
        name=f"wattpack_elastic_{path.rpartition('.')[2]}",
        help=text,
        value=attrgetter(path),
        labels={"service": lambda each: each.service},
    )
    for path, text in _GAUGES.items()
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
    decided = [each for each in controller.statuses() if each.observed is not None]
    yield from metric_families(_STATUS_METRICS, decided)
    yield from metric_families(_DECISION_METRICS, controller.decided.items())

"""Metrics of stopped services."""

from collections.abc import Iterator

from prometheus_client.core import Metric

from collector.features.brownout.controllers import Brownout
from collector.features.brownout.rule import StoppedService
from collector.serve.api.control import Api
from wire.metrics import MetricSpec, metric_families

METRICS: tuple[MetricSpec[StoppedService], ...] = (
    MetricSpec(
        name="wattpack_brownout_stopped_replicas",
        help="Replicas of an optional service that are stopped because resources are short.",
        value=lambda stopped: stopped.replicas,
        labels={"service": lambda stopped: stopped.service},
    ),
)


def collect(api: Api) -> Iterator[Metric]:
    """The families of one scrape."""
    yield from metric_families(METRICS, api.control.controller(Brownout).stopped)

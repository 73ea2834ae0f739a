"""Metrics of promises of availability: a series per service with a promise."""

from collections.abc import Callable, Iterator
from math import inf

from prometheus_client import Metric

from collector.features.promises.ledger.standing import ServicePromise
from collector.features.promises.live import PromiseTracker
from collector.runtime.parts import Core
from wire.metrics import MetricSpec, metric_families


def _gauge(name: str, text: str, value: Callable[[ServicePromise], float]) -> MetricSpec[ServicePromise]:
    labels = {"service": lambda each: each.service, "class": lambda each: each.slo_class}
    return MetricSpec(name=f"wattpack_slo_{name}", help=text, value=value, labels=labels)


METRICS: tuple[MetricSpec[ServicePromise], ...] = (
    _gauge(
        "availability_ratio",
        "Delivered availability of the service: the share of its time, since its admission, in which it ran.",
        lambda each: each.availability_ratio,
    ),
    _gauge("target_ratio", "Promised availability of the service.", lambda each: each.target_ratio),
    _gauge(
        "time_to_violation_seconds",
        "Time that the most urgent instance of the service can wait before the promise breaks, in seconds,"
        " less the expected start-up time. Negative by the deficit if the promise is broken; +Inf if waiting"
        " never breaks it.",
        lambda each: inf if (left := each.time_to_violation_seconds) is None else left,
    ),
    _gauge(
        "preemption_overhead_ratio",
        "Highest share of time that any instance of the service spent on starts that were preempted.",
        lambda each: each.preemption_overhead_ratio,
    ),
)


def collect(core: Core) -> Iterator[Metric]:
    """The families of one scrape."""
    standings = core.registry.part(PromiseTracker).standings(core.clock())
    yield from metric_families(METRICS, standings.live_services)

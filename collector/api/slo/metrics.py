"""Metrics of promises of availability: a series per service with a promise."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from collector.slo.standing import Standings
from wire.metrics import MetricSpec


@dataclass(frozen=True, slots=True)
class ServiceStanding:
    """The state of the promise of one service."""

    service: str
    slo_class: str
    availability: float
    target: float
    slack_seconds: float
    preemption_ratio: float


def service_standings(standings: Standings) -> list[ServiceStanding]:
    """The services with instances that run or wait."""
    services = standings.services
    return [
        ServiceStanding(
            services.names[row],
            standings.promises[services.promise[row]].name,
            float(services.availability[row]),
            float(services.target[row]),
            float(services.slack_seconds[row]),
            float(services.preemption_ratio[row]),
        )
        for row in np.flatnonzero(services.live_instances).tolist()
    ]


def _gauge(name: str, text: str, value: Callable[[ServiceStanding], float]) -> MetricSpec[ServiceStanding]:
    labels = {"service": lambda each: each.service, "class": lambda each: each.slo_class}
    return MetricSpec(name=f"wattpack_slo_{name}", kind="gauge", help=text, value=value, labels=labels)


SLO_METRICS: tuple[MetricSpec[ServiceStanding], ...] = (
    _gauge(
        "availability_ratio",
        "Delivered availability of the service: the share of its time, since its admission, in which it ran.",
        lambda each: each.availability,
    ),
    _gauge("target_ratio", "Promised availability of the service.", lambda each: each.target),
    _gauge(
        "time_to_violation_seconds",
        "Time that the most urgent instance of the service can wait before the promise breaks, in seconds,"
        " less the expected start-up time. Negative by the deficit if the promise is broken; +Inf if waiting"
        " never breaks it.",
        lambda each: each.slack_seconds,
    ),
    _gauge(
        "preemption_overhead_ratio",
        "Highest share of time that any instance of the service spent on starts that were preempted.",
        lambda each: each.preemption_ratio,
    ),
)

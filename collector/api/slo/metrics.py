"""Metrics of promises of availability: a series per service with a promise."""

from dataclasses import dataclass

import numpy as np

from collector.slo.standing import Standings
from wire.metrics import MetricSpec


@dataclass(frozen=True, slots=True)
class ServiceStanding:
    """How the promise of one service stands."""

    service: str
    slo_class: str
    availability: float
    target: float
    slack_seconds: float
    preemption_ratio: float


def service_standings(standings: Standings) -> list[ServiceStanding]:
    """The services that have instances which run or wait."""
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


_LABELS = {
    "service": lambda each: each.service,
    "class": lambda each: each.slo_class,
}
SLO_METRICS: tuple[MetricSpec[ServiceStanding], ...] = (
    MetricSpec(
        name="wattpack_slo_availability_ratio",
        kind="gauge",
        help="Availability of a service with a promise: the share of its time, since its admission, in which"
        " it ran.",
        value=lambda each: each.availability,
        labels=_LABELS,
    ),
    MetricSpec(
        name="wattpack_slo_target_ratio",
        kind="gauge",
        help="Availability that the service is promised.",
        value=lambda each: each.target,
        labels=_LABELS,
    ),
    MetricSpec(
        name="wattpack_slo_time_to_violation_seconds",
        kind="gauge",
        help="Time in seconds that the most urgent instance of the service can wait from now on before the"
        " promise breaks, less the expected start-up time; negative by the deficit if it is broken, +Inf if"
        " waiting never breaks it.",
        value=lambda each: each.slack_seconds,
        labels=_LABELS,
    ),
    MetricSpec(
        name="wattpack_slo_preemption_overhead_ratio",
        kind="gauge",
        help="Highest share of its time that an instance of the service spent on starts that were preempted.",
        value=lambda each: each.preemption_ratio,
        labels=_LABELS,
    ),
)

"""How a run kept its promises: figures per class, and the penalty."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from collector.common.arrays import Codes, Floats
from collector.features.promises.ledger.promises import Promise, gini, is_broken, penalty


class ClassResult(msgspec.Struct, frozen=True, kw_only=True):
    """The requests of one class of promises, each by its availability at its end or at the end of the run."""

    requests: int
    met_ratio: float
    """Share of the requests whose promise was kept."""
    mean_availability: float
    min_availability: float
    gini: float
    """Inequality of their availabilities: 0 if all are equal."""


class PromisesKept(msgspec.Struct, frozen=True, kw_only=True):
    """How promises of availability were kept; unset for a workload without them."""

    slo: dict[str, ClassResult] | UnsetType = UNSET
    """Per class of promises."""
    penalty: float | UnsetType = UNSET
    """Core seconds that were missing, weighted by how badly each promise was broken."""
    preemptions: int | UnsetType = UNSET
    """How often a container was stopped for another one."""
    operations: int | UnsetType = UNSET
    """How often the policy examined a host for a waiting container."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Requests:
    """Promises and their availability: one row per container, or per service."""

    promises: Sequence[Promise]
    promise: Codes
    """A place in `promises`."""
    availability: Floats
    seconds: Floats
    """Time that it ran and waited."""
    cpu_cores: Floats


def figures_of(requests: Requests, *, preemptions: int, operations: int) -> PromisesKept:
    """The figures of a run. A request that arrived at its very end is left out."""
    counted = requests.seconds > 0
    target = np.array([each.availability for each in requests.promises])[requests.promise]
    broken = is_broken(target, requests.availability)
    classes = {}
    for code, promise in enumerate(requests.promises):
        chosen = counted & (requests.promise == code)
        if chosen.any():
            availability = requests.availability[chosen]
            classes[promise.name] = ClassResult(
                requests=int(chosen.sum()),
                met_ratio=1.0 - float(broken[chosen].mean()),
                mean_availability=float(availability.mean()),
                min_availability=float(availability.min()),
                gini=gini(availability),
            )
    cost = penalty(target, requests.availability, requests.seconds, requests.cpu_cores)
    return PromisesKept(
        slo=classes, penalty=float(cost[counted].sum()), preemptions=preemptions, operations=operations
    )

"""How a run kept its promises: figures per class, and the penalty."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from collector.features.promises.ledger.penalties import gini, is_broken, penalty
from collector.features.promises.ledger.promises import Promise
from collector.snapshot.power_curves import Floats
from collector.snapshot.tables import Codes


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassFigures:
    """The requests of one class, each by its availability at its end or at the end of the run."""

    requests: int
    met_ratio: float
    """Share of the requests whose promise was kept."""
    mean_availability: float
    min_availability: float
    gini: float
    """Inequality of their availabilities: 0 if all are equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromisesKept:
    """The promises of a completed run."""

    classes: Mapping[str, ClassFigures]
    penalty: float
    """Core seconds that were missing, weighted by how badly each promise was broken."""
    preemptions: int
    operations: int
    """How often a policy examined a host for a waiting container."""


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
            classes[promise.name] = ClassFigures(
                requests=int(chosen.sum()),
                met_ratio=1.0 - float(broken[chosen].mean()),
                mean_availability=float(availability.mean()),
                min_availability=float(availability.min()),
                gini=gini(availability),
            )
    cost = penalty(target, requests.availability, requests.seconds, requests.cpu_cores)
    return PromisesKept(
        classes=classes, penalty=float(cost[counted].sum()), preemptions=preemptions, operations=operations
    )

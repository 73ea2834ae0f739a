"""Helpers that build the columns of a snapshot: rows of resources, and sums over the tasks of each node."""

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from collector.common.arrays import Codes, Floats, Rows
from collector.snapshot.tables import NOWHERE, Services
from wire.resources import RESOURCES, Quantities, Resource

CPU, MEMORY = RESOURCES.index(Resource.CPU), RESOURCES.index(Resource.MEMORY)
Four = tuple[float, float, float, float]
"""One number per resource; NaN is unknown."""
_UNKNOWN = float("nan")
_LARGEST_ROOT = 1e150
_UNKNOWN_QUANTITIES = Quantities()


def four(quantities: Quantities, missing: float = _UNKNOWN) -> Four:
    """Quantities as one row of a column."""
    cpu, memory, disk, network = quantities.values
    return (
        missing if cpu is None else float(cpu),
        missing if memory is None else float(memory),
        missing if disk is None else float(disk),
        missing if network is None else float(network),
    )


def as_row(quantities: Quantities) -> Floats:
    """Quantities as an array, with 0 for those that are not set."""
    return np.array(four(quantities, missing=0.0))


def as_quantities(row: Floats) -> Quantities:
    """A row of known amounts as quantities."""
    cpu, memory, disk, network = (float(each) for each in row)
    return Quantities(cpu, round(memory), disk, network)


def first_known(*quantities: Quantities) -> Four:
    """The first known value of some quantities, per resource; 0 where all are unknown."""
    cpu, memory, disk, network = (
        next((float(value) for value in values if value is not None), 0.0)
        for values in zip(*(each.values for each in quantities), strict=True)
    )
    return cpu, memory, disk, network


def four_columns(rows: Sequence[Sequence[float]]) -> Floats:
    """Rows of one number per resource, as an array."""
    return np.array(rows, dtype=np.float64).reshape(-1, len(RESOURCES))


class ServiceFacts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One service; the values are per instance."""

    name: str
    profiled: bool = False
    dominant: int = NOWHERE
    confidence: float = 0.0
    envelope: Quantities = _UNKNOWN_QUANTITIES
    mean: Quantities = _UNKNOWN_QUANTITIES
    variance: Four = (0.0, 0.0, 0.0, 0.0)
    image: str = ""


def square(amounts: Floats) -> Floats:
    """Amounts as variances; absurd amounts are capped, so that the square stays finite."""
    return np.square(np.minimum(amounts, _LARGEST_ROOT))


def coalesce(*columns: Floats) -> Floats:
    """The first known value of these columns, place by place; 0 where all are unknown."""
    guess = columns[0].copy(order="K")
    for column in (*columns[1:], np.zeros(1)):
        unknown = np.isnan(guess)
        if not unknown.any():
            break
        np.copyto(guess, column, where=unknown)
    return guess


def service_table(services: Sequence[ServiceFacts]) -> Services:
    """The table of these services, which are given in the order of their names."""
    return Services(
        names=tuple(each.name for each in services),
        profiled=np.array([each.profiled for each in services], dtype=np.bool_),
        dominant=np.array([each.dominant for each in services], dtype=np.int8),
        confidence=np.array([each.confidence for each in services], dtype=np.float64),
        envelope=four_columns([four(each.envelope) for each in services]),
        mean=four_columns([four(each.mean) for each in services]),
        variance=four_columns([each.variance for each in services]),
        images=tuple(each.image for each in services),
    )


def with_services(services: Services, names: Iterable[str | None]) -> Services:
    """The services, followed by those of these names that are not among them."""
    new = sorted({name for name in names if name and name not in services.index})
    if not new:
        return services
    more = service_table([ServiceFacts(name=name) for name in new])

    def both(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return np.concatenate((first, second))

    together = Services(
        names=services.names + more.names,
        profiled=both(services.profiled, more.profiled),
        dominant=both(services.dominant, more.dominant),
        confidence=both(services.confidence, more.confidence),
        envelope=both(services.envelope, more.envelope),
        mean=both(services.mean, more.mean),
        variance=both(services.variance, more.variance),
        images=services.images + more.images,
    )
    # An index that is made again for each of many pending tasks would take longer than all else.
    more_rows = {name: row for row, name in enumerate(new, len(services.names))}
    together.__dict__["index"] = {**services.index, **more_rows}
    return together


def sum_by_node(node: Rows, column: Floats, nodes: int) -> Floats:
    """The sum of a column over the tasks of each node; unknown counts as 0."""
    # One bin more takes the tasks that are nowhere.
    bins = np.where(node == NOWHERE, nodes, node)
    sums = np.zeros((nodes, column.shape[1]), order="F")
    for place in range(column.shape[1]):
        amounts = column[:, place]
        total = np.bincount(bins, weights=amounts, minlength=nodes + 1)[:nodes]
        if not np.isfinite(total).all():
            amounts = np.nan_to_num(amounts, nan=0.0)
            total = np.bincount(bins, weights=amounts, minlength=nodes + 1)[:nodes]
        sums[:, place] = total
    return sums


def strictest_by_node(node: Rows, task_class: Codes, nodes: int) -> Codes:
    """The lowest class among the tasks of each node; 0 without tasks."""
    none = np.iinfo(np.int8).max
    lowest = np.full(nodes, none, dtype=np.int8)
    placed = node != NOWHERE
    np.minimum.at(lowest, node[placed], task_class[placed])
    lowest[lowest == none] = 0
    return lowest

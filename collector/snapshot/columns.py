"""Helpers that build the columns of a snapshot: rows of resources, and sums over the tasks of each node."""

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from collector.common.arrays import Codes, Floats, Rows
from collector.snapshot.tables import NOWHERE, Services, Snapshot, share
from wire.resources import RESOURCES, Quantities, Resource

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Columns = TypeVar("Columns", bound="DataclassInstance")
else:
    Columns = TypeVar("Columns")
CPU, MEMORY = RESOURCES.index(Resource.CPU), RESOURCES.index(Resource.MEMORY)
Four = tuple[float, float, float, float]
"""One number per resource; NaN is unknown."""
_UNKNOWN = float("nan")
_LARGEST_ROOT = 1e150


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


def first_known(*quantities: Quantities) -> Four:
    """The first known value of some quantities, per resource; 0 where all are unknown."""
    cpu, memory, disk, network = (
        next((float(value) for value in values if value is not None), 0.0)
        for values in zip(*(each.values for each in quantities), strict=True)
    )
    return cpu, memory, disk, network


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


def unknown_services(names: Sequence[str]) -> Services:
    """Services of which only the names are known."""
    count, unknown = len(names), np.full((len(names), len(RESOURCES)), np.nan)
    return Services(
        names=tuple(names),
        profiled=np.zeros(count, dtype=np.bool_),
        dominant=np.full(count, NOWHERE, dtype=np.int8),
        confidence=np.zeros(count),
        envelope=unknown,
        mean=unknown,
        variance=np.zeros_like(unknown),
        images=("",) * count,
    )


def with_services(services: Services, names: Iterable[str | None]) -> Services:
    """The services, followed by those of these names that are not among them."""
    new = sorted({name for name in names if name and name not in services.index})
    if not new:
        return services
    together = concatenated(services, unknown_services(new))
    # An index that is made again for each of many pending tasks would take longer than all else.
    more_rows = {name: row for row, name in enumerate(new, len(services.names))}
    together.__dict__["index"] = {**services.index, **more_rows}
    return together


def concatenated(first: Columns, second: Columns) -> Columns:
    """The rows of two tables: of each column that is an array or a tuple."""
    both = ((each.name, getattr(first, each.name), getattr(second, each.name)) for each in fields(first))
    return replace(
        first,
        **{
            name: (*one, *other) if isinstance(one, tuple) else np.concatenate((one, other))
            for name, one, other in both
            if isinstance(one, (tuple, np.ndarray))
        },
    )


def selected(table: Columns, rows: Rows) -> Columns:
    """These rows of a table, in this order: copies of its columns that are arrays or tuples."""
    columns = ((each.name, getattr(table, each.name)) for each in fields(table))
    return replace(
        table,
        **{
            name: tuple(column[row] for row in rows)
            if isinstance(column, tuple)
            else column.take(rows, axis=0)
            for name, column in columns
            if isinstance(column, (tuple, np.ndarray))
        },
    )


def parts_of_nodes(snapshot: Snapshot) -> Floats:
    """The part of what is used on its node that each task uses; 0 where it is unknown."""

    def find() -> Floats:
        nodes, tasks = snapshot.nodes, snapshot.tasks
        used = np.nan_to_num(np.where(np.isnan(tasks.used), tasks.mean, tasks.used), nan=0.0)
        of_nodes = np.fmax(nodes.used, sum_by_node(tasks.node, used, len(nodes.names)))
        return np.nan_to_num(share(used, of_nodes[tasks.node]), nan=0.0)

    return snapshot.cached_with_pending("parts of nodes", find)


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

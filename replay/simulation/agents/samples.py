"""One sample of all simulated hosts, in columns, and the quantities in it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agent.sources.docker import ContainerInfo
from collector.common.arrays import Floats
from wire.resources import Quantities

_MEMORY = 1


@dataclass(slots=True)
class PlainHost:
    """The contents of the plain heartbeats of a host, which are the same until a container changes."""

    ids: list[str]
    infos: list[ContainerInfo]
    limits: list[Quantities]
    order: list[int]
    """The order of the containers in a heartbeat."""
    interval_seconds: float = 0.0
    """Interval of the last sample."""
    reports: int = 0
    """Number of reports that were made without its reporter."""


@dataclass(frozen=True, slots=True)
class ClusterSample:
    """One sample of all hosts."""

    rows: list[int]
    """The containers, host after host."""
    starts: list[int]
    """The index of the first container of each host."""
    used: Floats
    by_node: Floats
    disk_busy: list[float]
    cpu_seconds_total: Floats


def quantities_of(row: Floats) -> Quantities:
    """The quantities of a row; NaN means unknown."""
    cpu, memory, disk, network = (None if value != value else value for value in row.tolist())  # noqa: PLR0124 - NaN
    return Quantities(cpu, None if memory is None else int(memory), disk, network)


def quantities_of_rows(amounts: Floats, known: Sequence[bool]) -> list[Quantities]:
    """The quantities of each row; resources that are not known are left out."""
    columns: list[list[float | None]] = [
        amounts[:, place].tolist() if is_known else [None] * len(amounts)
        for place, is_known in enumerate(known)
    ]
    if known[_MEMORY]:
        columns[_MEMORY] = amounts[:, _MEMORY].astype(np.int64).tolist()
    return [Quantities(*row) for row in zip(*columns, strict=True)]

"""One sample of all simulated hosts, in columns, and the quantities in it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agent.reporting.messages import ContainerFacts
from agent.sources.docker import ContainerInfo
from collector.snapshot.power_curves import Floats
from wire.resources import Quantities

_MEMORY = 1


@dataclass(slots=True)
class Plain:
    """The containers of a host while its reports are plain heartbeats."""

    facts: list[ContainerFacts]
    infos: list[ContainerInfo]
    limits: list[Quantities]
    order: list[int]
    """Their places in a heartbeat."""
    interval_seconds: float = 0.0
    """Of the last sample."""
    reports: int = 0
    """That its reporter did not make, and does not know of."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """One sample of all hosts."""

    rows: list[int]
    """The containers, host after host."""
    starts: list[int]
    """Where those of each host begin."""
    used: Floats
    by_node: Floats
    disk_busy: list[float]
    cpu_seconds_total: Floats


def quantities(row: Floats) -> Quantities:
    """A row of a column; NaN is absent."""
    cpu, memory, disk, network = (None if value != value else value for value in row.tolist())  # noqa: PLR0124 - NaN
    return Quantities(cpu, None if memory is None else int(memory), disk, network)


def values(amounts: Floats, known: Sequence[bool]) -> list[Quantities]:
    """Each row, without the resources that the trace does not have."""
    columns: list[list[float | None]] = [
        amounts[:, place].tolist() if is_known else [None] * len(amounts)
        for place, is_known in enumerate(known)
    ]
    if known[_MEMORY]:
        columns[_MEMORY] = amounts[:, _MEMORY].astype(np.int64).tolist()
    return [Quantities(*row) for row in zip(*columns, strict=True)]

"""The Bitbrains trace: usage of 499 virtual machines of a data centre, every five minutes for a week."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.common.simulated_node import Used
from replay.readers.bitbrains import STEP_SECONDS
from replay.sources import read_trace
from wattpack.datasets.catalogue import require, search_path
from wattpack.datasets.traces import trace_file
from wire.resources import Quantities

WEEK = "bitbrains-rnd-2013-08-week"
SLOT_SECONDS = int(STEP_SECONDS)


@dataclass(frozen=True, slots=True)
class Machine:
    """A virtual machine: its limit, and its usage per slot."""

    name: str
    limit: Quantities
    slots: tuple[Used, ...]


def read_machines(folder: Path | None, slots: int) -> list[Machine]:
    """Read the first slots of every machine with a known size; a missing slot repeats the previous one."""
    workload = read_trace(trace_file(require(WEEK, search_path(folder))), ())
    sized = np.flatnonzero(~np.isnan(workload.requested[:, :2]).any(axis=1))
    used = np.stack(
        [workload.use.at(slot * STEP_SECONDS, sized, np.zeros(sized.size)) for slot in range(slots)], axis=1
    )
    return [
        Machine(
            name=workload.ids[row],
            limit=Quantities(
                cpu_cores=float(workload.requested[row, 0]), memory_bytes=int(workload.requested[row, 1])
            ),
            slots=tuple((cpu, memory, disk, network) for cpu, memory, disk, network in each.tolist()),
        )
        for row, each in zip(sized.tolist(), used, strict=True)
    ]

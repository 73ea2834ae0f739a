"""Bitbrains: what virtual machines of a data centre used of four resources, every five minutes.

GWA-T-12 (Shen, van Beek, Iosup: "Statistical characterization of business-critical workloads hosted in cloud
datacenters", CCGrid 2015), with all machines in one file: `vm,slot,cpu_mhz,mem_mb,disk_read_kbs,...`. What
each machine was given stands in a file beside it whose name ends in `vms.csv`; without one, the machines are
as large as the scenario says.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from collector.snapshot.power_curves import Floats
from replay.readers.samples import timeline
from replay.readers.tables import read_numbers, refuse_bad
from replay.setup.hosts import MEBIBYTE
from replay.setup.scenario import MIPS_PER_CORE, Machines
from replay.setup.workload import Workload, always_running
from wire.errors import UserError

STEP_SECONDS = 300.0
_KIBIBYTE = 1024.0
_HEADER = "vm,slot,cpu_mhz,mem_mb,disk_read_kbs,disk_write_kbs,net_rx_kbs,net_tx_kbs"
_SIZES_HEADER = "vm,cores,cpu_capacity_mhz,mem_capacity_mb,slots"
_FIRST_LINE = 2


def read(path: Path, machines: Sequence[Machines]) -> Workload:
    """All machines that have a size; a slot that is missing repeats the one before."""
    table = read_numbers(path, range(8), header=_HEADER, fields=8)
    fewest: Floats = np.nan_to_num(table, nan=-1.0).min(axis=1)
    refuse_bad(path, fewest < 0, "a field is missing, or below nothing", first_line=_FIRST_LINE)
    numbers, who = np.unique(table[:, 0].astype(np.int64), return_inverse=True)
    width = max(4, len(str(int(numbers.max()))))
    names = [f"vm-{number:0{width}}" for number in numbers]
    used = np.column_stack(
        [
            table[:, 2] / MIPS_PER_CORE,
            table[:, 3] * MEBIBYTE,
            (table[:, 4] + table[:, 5]) * _KIBIBYTE,
            (table[:, 6] + table[:, 7]) * _KIBIBYTE,
        ]
    )
    line = timeline(who, names, table[:, 1].astype(np.intp), used, STEP_SECONDS)
    return always_running(line.names, _requested(path, numbers, machines), line.use)


def _requested(
    path: Path, numbers: np.ndarray[tuple[int], np.dtype[np.int64]], machines: Sequence[Machines]
) -> Floats:
    requested = np.full((numbers.size, 4), np.nan)
    sizes = sorted(path.parent.glob("*vms.csv"))
    if sizes:
        table = read_numbers(sizes[0], range(5), header=_SIZES_HEADER, fields=5)
        told = {int(row[0]): row for row in table}
        for place, number in enumerate(numbers):
            if int(number) in told:
                requested[place, 0] = told[int(number)][2] / MIPS_PER_CORE
                requested[place, 1] = told[int(number)][3] * MEBIBYTE
    elif machines:
        block = -(-numbers.size // len(machines))
        for place in range(numbers.size):
            requested[place, 0] = machines[place // block].cpu_mips / MIPS_PER_CORE
            requested[place, 1] = machines[place // block].memory_mb * MEBIBYTE
    else:
        raise UserError(
            f"nobody tells how large the machines of {path} are: put their file (*vms.csv) beside it, "
            "or give [[machines]] with the hosts"
        )
    return requested

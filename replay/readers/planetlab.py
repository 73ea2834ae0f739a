"""PlanetLab: a virtual machine per line, its name and then its CPU use in percent, every five minutes.

A day of CoMon's recordings as A. Beloglazov published them with CloudSim. A name may contain spaces, so the
values are counted from the end of the line.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from collector.policies.interface import Constraint, Operator
from replay.readers.lines import open_lines
from replay.setup.hosts import MEBIBYTE
from replay.setup.scenario import MIPS_PER_CORE, Machines
from replay.setup.workload import Recorded, Workload, always_running
from wire.errors import UserError

STEP_SECONDS = 300.0
STEPS = 288
_PERCENT = 100.0
CLOUDSIM = (
    Machines(cpu_mips=2500, memory_mb=870),
    Machines(cpu_mips=2000, memory_mb=1740),
    Machines(cpu_mips=1000, memory_mb=1740),
    Machines(cpu_mips=500, memory_mb=613),
)
"""How large the machines are where a scenario does not say: as in CloudSim's own experiments."""


def read(path: Path, machines: Sequence[Machines]) -> Workload:
    """One day, the machines in the order of their names."""
    shares: dict[str, np.ndarray[tuple[int], np.dtype[np.float32]]] = {}
    for number, line in open_lines(path):
        fields = line.split()
        if not fields:
            continue
        name = " ".join(fields[:-STEPS])
        if not name:
            raise UserError(
                f"{path}, line {number}: a PlanetLab line is a name and {STEPS} percentages, "
                f"and this one has {len(fields)} fields"
            )
        if name in shares:
            raise UserError(f"{path}, line {number}: {name!r} is there twice")
        try:
            values = np.array(fields[-STEPS:], dtype=np.float32)
        except ValueError:
            raise UserError(
                f"{path}, line {number}: not all of the last {STEPS} fields are numbers"
            ) from None
        if not (np.isfinite(values).all() and values.min() >= 0 and values.max() <= _PERCENT):
            raise UserError(f"{path}, line {number}: a percentage lies outside 0 to 100")
        shares[name] = values / _PERCENT
    if not shares:
        raise UserError(f"{path} has no machine in it")
    return _workload(shares, machines or CLOUDSIM)


def _workload(
    shares: dict[str, np.ndarray[tuple[int], np.dtype[np.float32]]], machines: Sequence[Machines]
) -> Workload:
    names = sorted(shares)
    block = -(-len(names) // len(machines))
    sizes = [machines[place // block] for place in range(len(names))]
    cores = np.array([size.cpu_mips / MIPS_PER_CORE for size in sizes])
    requested = np.full((len(names), 4), np.nan)
    requested[:, 0] = cores
    requested[:, 1] = [size.memory_mb * MEBIBYTE for size in sizes]
    used = np.stack([shares[name] for name in names]) * cores[:, None].astype(np.float32)
    constraints = tuple(
        tuple(Constraint(label, Operator.IS, value) for label, value in size.labels.items()) for size in sizes
    )
    return always_running(names, requested, Recorded.of_all(STEP_SECONDS, used[:, :, None]), constraints)

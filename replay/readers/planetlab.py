"""PlanetLab: the CPU usage of virtual machines in percent, every five minutes of a day.

A day of CoMon's recordings as A. Beloglazov published them with CloudSim: a folder with one file per machine,
named after it, with a percentage per line. Or one file with a machine per line: its name, followed by its
percentages. A name may contain spaces, so the values are counted from the end of the line.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from collector.snapshot.constraints import Constraint, Operator
from replay.readers.files import machine_files, open_lines
from replay.readers.samples import Period
from replay.setup.hosts import MEBIBYTE
from replay.setup.scenario import MIPS_PER_CORE, Machines
from replay.setup.workload import Recorded, Workload, always_running, columns
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
"""The sizes of machines if a scenario does not set them: those of CloudSim's experiments."""


def read(path: Path, machines: Sequence[Machines], period: Period | None = None) -> Workload:
    """Read a day, with the machines in the order of their names."""
    percentages: dict[str, NDArray[np.float32]] = {}
    for name, values, where in _read_folder(path) if path.is_dir() else _read_file(path):
        if name in percentages:
            raise UserError(f"{where}: machine {name!r} occurs twice")
        if not (np.isfinite(values).all() and values.min() >= 0 and values.max() <= _PERCENT):
            raise UserError(f"{where}: a percentage lies outside 0 to 100")
        percentages[name] = values
    if not percentages:
        raise UserError(f"{path} has no machines")
    names = sorted(percentages)
    shares: NDArray[np.float32] = np.stack([percentages[name] for name in names]) / np.float32(_PERCENT)
    if period is not None:
        shares = shares[:, np.flatnonzero(period.covers(np.arange(STEPS, dtype=np.float64) * STEP_SECONDS))]
        if not shares.size:
            raise UserError(f"{path} has no data in the requested period: it contains one day")
    return _workload(names, shares, machines or CLOUDSIM)


def _read_file(path: Path) -> Iterator[tuple[str, NDArray[np.float32], str]]:
    for number, line in open_lines(path):
        fields = line.split()
        if not fields:
            continue
        where = f"{path}, line {number}"
        name = " ".join(fields[:-STEPS])
        if not name:
            raise UserError(
                f"{where}: a PlanetLab line is a name and {STEPS} percentages, "
                f"and this one has {len(fields)} fields"
            )
        try:
            yield name, np.array(fields[-STEPS:], dtype=np.float32), where
        except ValueError:
            raise UserError(f"{where}: not all of the last {STEPS} fields are numbers") from None


def _read_folder(folder: Path) -> Iterator[tuple[str, NDArray[np.float32], str]]:
    """Read a machine per file; a missing value repeats the previous one, also at the end of the day."""
    for name, path in machine_files(folder):
        values = np.full(STEPS, np.nan, dtype=np.float32)
        for number, line in open_lines(path):
            if number > STEPS:
                break
            if line.strip():
                try:
                    values[number - 1] = float(line)
                except ValueError:
                    raise UserError(f"{path}, line {number}: not a number") from None
        known = np.flatnonzero(~np.isnan(values))
        if known.size:
            latest = np.searchsorted(known, np.arange(STEPS), side="right") - 1
            yield name, values[known[np.maximum(latest, 0)]], str(path)


def _workload(names: Sequence[str], shares: NDArray[np.float32], machines: Sequence[Machines]) -> Workload:
    block = -(-len(names) // len(machines))
    sizes = [machines[place // block] for place in range(len(names))]
    cores = np.array([size.cpu_mips / MIPS_PER_CORE for size in sizes])
    memory_bytes = np.array([size.memory_mb * MEBIBYTE for size in sizes])
    requested = columns(cores, memory_bytes, rest=np.nan, count=len(names))
    used = shares * cores[:, None].astype(np.float32)
    constraints = tuple(
        tuple(Constraint(label, Operator.IS, value) for label, value in size.labels.items()) for size in sizes
    )
    return always_running(names, requested, Recorded.of_all(STEP_SECONDS, used[:, :, None]), constraints)

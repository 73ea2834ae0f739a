"""Bitbrains: usage of four resources by the virtual machines of a data centre, every five minutes.

GWA-T-12 (Shen, van Beek, Iosup: "Statistical characterization of business-critical workloads hosted in cloud
datacenters", CCGrid 2015). As published: a folder with one file per machine, whose lines also contain the
reservation of the machine. Or all machines in one file: `vm,slot,cpu_mhz,mem_mb,disk_read_kbs,...`, with the
reservations in a file of the same folder whose name ends in `vms.csv`, or in the scenario.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from collector.common.arrays import Floats
from replay.readers.files import machine_files, read_columns, refuse_bad
from replay.readers.samples import Period, timeline
from replay.setup.hosts import MEBIBYTE
from replay.setup.scenario import MIPS_PER_CORE, Machines
from replay.setup.workload import Workload, always_running, columns
from wire.errors import UserError

STEP_SECONDS = 300.0
_KIBIBYTE = 1024.0
_KIBIBYTES_PER_MEBIBYTE = 1024.0
_COLUMNS = (
    "vm",
    "slot",
    "cpu_mhz",
    "mem_mb",
    "disk_read_kbs",
    "disk_write_kbs",
    "net_rx_kbs",
    "net_tx_kbs",
)
_SIZES = ("vm", "cpu_capacity_mhz", "mem_capacity_mb")
_PUBLISHED_ORDER = (
    "timestamp",
    "cpu cores",
    "cpu capacity provisioned [mhz]",
    "cpu usage [mhz]",
    "cpu usage [%]",
    "memory capacity provisioned [kb]",
    "memory usage [kb]",
    "disk read throughput [kb/s]",
    "disk write throughput [kb/s]",
    "network received throughput [kb/s]",
    "network transmitted throughput [kb/s]",
)
"""The columns of a file that has no header."""
_PUBLISHED = tuple(_PUBLISHED_ORDER[place] for place in (0, 3, 6, 7, 8, 9, 10, 2, 5))
_MILLISECONDS_FROM = 1e11
"""The header names ms, but the files contain seconds. A number above this is ms (as seconds: year 5138)."""


@dataclass(frozen=True, slots=True)
class _Samples:
    """The samples of a trace in either form: a row per machine and time."""

    names: list[str]
    machine: NDArray[np.intp]
    """Per row: the index of its machine in the names."""
    seconds: Floats
    used: Floats
    """Per row: CPU in MHz, memory in MB, disk read and written, network in and out in kB/s."""
    given: Floats | None
    """Per machine: CPU in MHz, memory in MB; NaN where it has no size."""


def read(path: Path, machines: Sequence[Machines], period: Period | None = None) -> Workload:
    """Read all machines; a missing slot repeats the previous one.

    A period refers to the time stamps of the published files, or to the slots of the other form.
    """
    samples = _read_folder(path, period) if path.is_dir() else _read_table(path, period)
    machine, seconds, used = samples.machine, samples.seconds, samples.used
    if not machine.size:
        raise UserError(f"{path} has no samples, or none of the period: give one month of GWA-T-12")
    present, machine = np.unique(machine, return_inverse=True)
    given = samples.given if samples.given is not None else _default_sizes(path, len(samples.names), machines)
    names = _names([samples.names[int(each)] for each in present])
    line = timeline(machine, names, seconds, _in_units(used), STEP_SECONDS)
    reserved = given[present] * (1 / MIPS_PER_CORE, MEBIBYTE)
    requested = columns(*reserved.T, rest=np.nan, count=len(names))
    return always_running(line.names, requested[np.argsort(names)], line.use)


def _names(machines: Sequence[str]) -> list[str]:
    """A number becomes `vm-0001`, all of the same width, so that names sort as numbers."""
    numbers = {each: int(each) for each in machines if each.isdecimal()}
    width = max(4, len(str(max(numbers.values(), default=0))))
    return [f"vm-{numbers[each]:0{width}}" if each in numbers else each for each in machines]


def _in_units(used: Floats) -> Floats:
    """Convert the usage to cores, bytes, and bytes per second."""
    return np.column_stack(
        [
            used[:, 0] / MIPS_PER_CORE,
            used[:, 1] * MEBIBYTE,
            (used[:, 2] + used[:, 3]) * _KIBIBYTE,
            (used[:, 4] + used[:, 5]) * _KIBIBYTE,
        ]
    )


def _size(values: Floats) -> Floats:
    """Sizes of machines; 0 means unknown."""
    sized: Floats = np.where(values > 0, values, np.nan)
    return sized


# --- One file per machine -------------------------------------------------------------------


def _read_folder(folder: Path, period: Period | None) -> _Samples:
    names: list[str] = []
    tables: list[Floats] = []
    given: list[Floats] = []
    for name, path in machine_files(folder, (".csv", ".txt")):
        table = read_columns(path, _PUBLISHED, optional=_PUBLISHED[2:], fallback=_PUBLISHED_ORDER)
        # A value that could not be measured is missing or negative; then there is no sample.
        table = table[(table[:, :2] >= 0).all(axis=1) & ~(table[:, 2:7] < 0).any(axis=1)]
        table[:, 0] /= np.where(table[:, 0] > _MILLISECONDS_FROM, 1000.0, 1.0)
        if period is not None:
            table = table[period.covers(table[:, 0])]
        if table.size:
            names.append(name)
            tables.append(np.nan_to_num(table[:, :7]))
            given.append(np.nan_to_num(table[:, 7:]).max(axis=0))
    if not names:
        return _Samples([], np.empty(0, dtype=np.intp), np.empty(0), np.empty((0, 6)), None)
    rows = np.concatenate(tables)
    rows[:, 2] /= _KIBIBYTES_PER_MEBIBYTE
    sizes = np.stack(given) / (1.0, _KIBIBYTES_PER_MEBIBYTE)
    machine = np.repeat(np.arange(len(names)), [len(table) for table in tables])
    return _Samples(names, machine, rows[:, 0], rows[:, 1:], _size(sizes))


# --- All machines in one file ---------------------------------------------------------------


def _read_table(path: Path, period: Period | None) -> _Samples:
    table = read_columns(path, _COLUMNS)
    fewest: Floats = np.nan_to_num(table, nan=-1.0).min(axis=1)
    refuse_bad(path, fewest < 0, "a field is missing or negative", first_line=2)
    if period is not None:
        table = table[period.covers(table[:, 1] * STEP_SECONDS)]
    numbers, machine = np.unique(table[:, 0].astype(np.int64), return_inverse=True)
    names = [str(number) for number in numbers]
    return _Samples(names, machine, table[:, 1] * STEP_SECONDS, table[:, 2:], _read_sizes(path, names))


def _read_sizes(path: Path, names: Sequence[str]) -> Floats | None:
    """Read sizes from the file `*vms.csv` in the same folder whose name is most similar to the trace."""
    files = [*path.parent.glob("*vms.csv"), *path.parent.glob("*vms.csv.gz")]
    if not files:
        return None
    best = max(sorted(files), key=lambda file: _common_prefix(file.name, path.name))
    sizes = {str(int(row[0])): row[1:] for row in read_columns(best, _SIZES)}
    return _size(np.array([sizes.get(name, (np.nan, np.nan)) for name in names]))


def _common_prefix(first: str, second: str) -> int:
    """The length of the common prefix of two names."""
    pairs = zip(first, second, strict=False)
    return next((place for place, (one, other) in enumerate(pairs) if one != other), len(first))


def _default_sizes(path: Path, count: int, machines: Sequence[Machines]) -> Floats:
    if not machines:
        raise UserError(
            f"the sizes of the machines of {path} are unknown: put the file *vms.csv into its folder, "
            "or add [[machines]] to the scenario"
        )
    block = -(-count // len(machines))
    sizes = [machines[place // block] for place in range(count)]
    return np.array([(size.cpu_mips, size.memory_mb) for size in sizes])

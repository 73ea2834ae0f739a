"""The Bitbrains trace: what 499 virtual machines of a data centre used, every five minutes for a week.

GWA-T-12 (Shen, van Beek, Iosup: "Statistical characterization of business-critical workloads hosted in
cloud datacenters", CCGrid 2015).
"""

import csv
import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from bench.simulated import Used
from wire.errors import UserError
from wire.resources import Quantities

SLOT_SECONDS = 300
_WEEK = "bitbrains-rnd-2013-08-week.csv.gz"
_MACHINES = "bitbrains-rnd-vms.csv"
_MEGABYTE, _KILOBYTE = 1 << 20, 1 << 10


@dataclass(frozen=True, slots=True)
class Machine:
    """A virtual machine: what it may use, and what it used slot by slot."""

    name: str
    limit: Quantities
    slots: tuple[Used, ...]


def read_machines(folder: Path, slots: int) -> list[Machine]:
    """The first slots of every machine that has a capacity; a slot that is missing repeats the one before."""
    week, machines = folder / _WEEK, folder / _MACHINES
    if missing := [path.name for path in (week, machines) if not path.is_file()]:
        raise UserError(
            f"{folder} has no {' and no '.join(missing)}: give the folder of the traces with --data"
        )
    with machines.open(encoding="ascii", newline="") as lines:
        rows = {row["vm"]: row for row in csv.DictReader(lines)}
    return [
        _machine(rows[name], series)
        for name, series in _series(week, slots)
        if min(float(rows[name][key]) for key in ("cores", "cpu_capacity_mhz", "mem_capacity_mb")) > 0
    ]


def _series(week: Path, slots: int) -> Iterator[tuple[str, list[list[float]]]]:
    with gzip.open(week, "rt", encoding="ascii") as lines:
        next(lines)
        rows = (line.rstrip().split(",") for line in lines)
        for name, group in groupby(rows, key=lambda row: row[0]):
            series = {int(row[1]): [float(cell) for cell in row[2:]] for row in group if int(row[1]) < slots}
            if series:
                yield name, _filled(series, slots)


def _filled(series: dict[int, list[float]], slots: int) -> list[list[float]]:
    filled = [series[min(series)]]
    for slot in range(slots):
        filled.append(series.get(slot, filled[-1]))
    return filled[1:]


def _machine(row: dict[str, str], series: list[list[float]]) -> Machine:
    cores, megahertz = float(row["cores"]), float(row["cpu_capacity_mhz"])
    return Machine(
        name=f"vm-{row['vm']}",
        limit=Quantities(cpu_cores=cores, memory_bytes=int(float(row["mem_capacity_mb"]) * _MEGABYTE)),
        slots=tuple(
            (
                cores * cpu / megahertz,
                memory * _MEGABYTE,
                (disk_read + disk_written) * _KILOBYTE,
                (received + sent) * _KILOBYTE,
            )
            for cpu, memory, disk_read, disk_written, received, sent in series
        ),
    )

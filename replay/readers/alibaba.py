"""Alibaba's cluster trace of 2018: `container_usage`, a line per container and moment, without a header.

Fields: container, machine, seconds, CPU percent, memory percent, cpi, mem_gps, mpki, network in, network out,
disk percent. Percentages refer to the reservation of the container, which is in `container_meta.csv` in the
same folder. Without that file, every container has the most frequent size. Network and disk have no published
unit, and are left out.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from replay.readers.files import parse_lines
from replay.readers.samples import Period, timeline
from replay.setup.hosts import MEBIBYTE
from replay.setup.scenario import Machines
from replay.setup.workload import Workload, columns
from wire.errors import UserError

STEP_SECONDS = 300.0
WHOLE = Machines(cpu_mips=96_000, memory_mb=393_216)
"""A host of that cluster: the 96 cores are published, the memory is assumed."""
_USUAL = (4.0, 1.56)
"""Cores, and percent of a host's memory."""
_FIELDS, _META_FIELDS = 5, 8
_META = "container_meta.csv"
_PERCENT = 100.0


def read(path: Path, machines: Sequence[Machines], period: Period | None = None) -> Workload:
    """All containers of the file, each from its first line to its last."""
    whole = machines[0] if machines else WHOLE
    names: dict[str, int] = {}
    applications, sizes = _read_sizes(path.with_name(_META))
    container, at, percent = [], [], []
    for name, seconds, cpu, memory in parse_lines(path, _parse_usage, fields=_FIELDS):
        if min(seconds, cpu, memory) < 0:
            continue  # a negative value means that it is missing
        if period is not None and not period.covers(np.array(seconds)):
            continue
        container.append(names.setdefault(name, len(names)))
        at.append(seconds)
        percent.append((cpu, memory))
    if not container:
        raise UserError(f"{path} has no samples")
    sized = np.array([sizes.get(name, _USUAL) for name in names])
    given = np.column_stack(
        [sized[:, 0] * whole.cpu_mips / WHOLE.cpu_mips, sized[:, 1] / _PERCENT * whole.memory_mb * MEBIBYTE]
    )
    used = np.array(percent) / _PERCENT * given[container]
    aligned = timeline(np.array(container, dtype=np.intp), list(names), np.array(at), used, STEP_SECONDS)
    reserved = given[[names[name] for name in aligned.names]]
    return aligned.workload(
        columns(*reserved.T, rest=np.nan, count=len(names)),
        [applications.get(name, name) for name in aligned.names],
    )


def _parse_usage(cells: list[str]) -> tuple[str, float, float, float]:
    seconds, cpu, memory = (float(cell) if cell else 0.0 for cell in cells[2:_FIELDS])
    return cells[0], seconds, cpu, memory


def _read_sizes(path: Path) -> tuple[dict[str, str], dict[str, tuple[float, float]]]:
    """The application of each container, and its cores and percent of a host's memory, where known."""
    applications: dict[str, str] = {}
    sizes: dict[str, tuple[float, float]] = {}
    if path.is_file():
        for name, application, size in parse_lines(path, _parse_meta, fields=_META_FIELDS):
            applications[name], sizes[name] = application, size
    return applications, sizes


def _parse_meta(cells: list[str]) -> tuple[str, str, tuple[float, float]]:
    return cells[0], cells[3] or cells[0], (float(cells[5]) / _PERCENT, float(cells[7]))

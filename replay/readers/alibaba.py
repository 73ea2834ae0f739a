"""Alibaba's cluster trace of 2018: `container_usage`, a line per container and moment, without a header.

Fields: container, machine, seconds, CPU percent, memory percent, cpi, mem_gps, mpki, network in, network out,
disk percent. Percentages refer to the reservation of the container, which is in `container_meta.csv` in the
same folder. Without that file, every container has the most frequent size. Network and disk have no published
unit, and are left out.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from replay.readers.files import open_lines
from replay.readers.period import Period
from replay.readers.samples import timeline
from replay.setup.hosts import MEBIBYTE
from replay.setup.scenario import Machines
from replay.setup.workload import Workload
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
    for number, line in open_lines(path):
        cells = line.rstrip("\r\n").split(",")
        if len(cells) < _FIELDS:
            raise UserError(f"{path}, line {number}: has {len(cells)} fields where {_FIELDS} are expected")
        try:
            seconds, cpu, memory = (float(cell) if cell else 0.0 for cell in cells[2:_FIELDS])
        except ValueError as error:
            raise UserError(f"{path}, line {number}: {error}") from None
        if min(seconds, cpu, memory) < 0:
            continue  # a negative value means that it is missing
        if period is not None and not period.covers(np.array(seconds)):
            continue
        container.append(names.setdefault(cells[0], len(names)))
        at.append(seconds)
        percent.append((cpu, memory))
    if not container:
        raise UserError(f"{path} has no samples")
    sized = np.array([sizes.get(name, _USUAL) for name in names])
    given = np.column_stack(
        [sized[:, 0] * whole.cpu_mips / WHOLE.cpu_mips, sized[:, 1] / _PERCENT * whole.memory_mb * MEBIBYTE]
    )
    used = np.array(percent) / _PERCENT * given[container]
    step = (np.array(at) // STEP_SECONDS).astype(np.intp)
    aligned = timeline(np.array(container, dtype=np.intp), list(names), step, used, STEP_SECONDS)
    count = len(names)
    requested = np.full((count, 4), np.nan)
    requested[:, :2] = given[[names[name] for name in aligned.names]]
    return Workload(
        ids=aligned.names,
        services=tuple(applications.get(name, name) for name in aligned.names),
        requested=requested,
        use=aligned.use,
        duration_seconds=aligned.use.duration_seconds + STEP_SECONDS,
        step_seconds=STEP_SECONDS,
        arrival_seconds=aligned.use.first_seconds,
        lifetime_seconds=aligned.use.lifetime_seconds,
        task_class=np.ones(count, dtype=np.int8),
        kind=np.zeros(count, dtype=np.int8),
    )


def _read_sizes(path: Path) -> tuple[dict[str, str], dict[str, tuple[float, float]]]:
    """The application of each container, and its cores and percent of a host's memory, where known."""
    applications: dict[str, str] = {}
    sizes: dict[str, tuple[float, float]] = {}
    if not path.is_file():
        return applications, sizes
    for number, line in open_lines(path):
        cells = line.rstrip("\r\n").split(",")
        if len(cells) < _META_FIELDS:
            raise UserError(
                f"{path}, line {number}: has {len(cells)} fields where {_META_FIELDS} are expected"
            )
        applications[cells[0]] = cells[3] or cells[0]
        try:
            sizes[cells[0]] = (float(cells[5]) / _PERCENT, float(cells[7]))
        except ValueError as error:
            raise UserError(f"{path}, line {number}: {error}") from None
    return applications, sizes

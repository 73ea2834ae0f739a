"""Google's cluster trace of 2011: `task_usage`, a line per task and five minutes, without a header.

Reiss, Wilkes, Hellerstein: "Google cluster-usage traces: format + schema". Amounts are shares of the largest
machine of that cluster, whose size is not published; the scenario's first `[[machines]]` sets it. A task runs
from its first line to its last. Its reservation is the assigned memory; the requested CPU is in another
table, so it is unknown.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from collector.common.arrays import Floats
from collector.snapshot.tables import TaskKind
from replay.readers.files import read_columns, refuse_bad
from replay.readers.samples import Period, timeline
from replay.setup.hosts import MEBIBYTE
from replay.setup.scenario import MIPS_PER_CORE, Machines
from replay.setup.workload import Workload, columns
from wire.errors import UserError

STEP_SECONDS = 300.0
WHOLE = Machines(cpu_mips=32_000, memory_mb=131_072)
"""The assumed size of the largest machine, if a scenario does not set it."""
_ORDER = ("start", "end", "job", "task", "machine", "cpu", "memory", "assigned memory")
_COLUMNS = ("start", "end", "job", "task", "cpu", "memory", "assigned memory")
_MICROSECONDS = 1e6


def read(path: Path, machines: Sequence[Machines], period: Period | None = None) -> Workload:
    """Read all tasks of the file."""
    whole = machines[0] if machines else WHOLE
    table = read_columns(path, _COLUMNS, fallback=_ORDER)
    if period is not None:
        table = table[period.covers(table[:, 0] / _MICROSECONDS)]
    if not table.size:
        raise UserError(f"{path} has no samples")
    start, end, job, task, cpu, memory, assigned = table.T
    fewest: Floats = np.nan_to_num(table[:, :4], nan=-1.0).min(axis=1)
    refuse_bad(path, fewest < 0, "a time, a job or a task is missing", first_line=1)
    refuse_bad(path, end <= start, "it ends before it begins", first_line=1)
    keys, container = np.unique(np.column_stack([job, task]).astype(np.int64), axis=0, return_inverse=True)
    container = container.ravel()
    names = [f"{job_id:012}-{index:05}" for job_id, index in keys]
    cores = whole.cpu_mips / MIPS_PER_CORE
    used = np.column_stack([np.nan_to_num(cpu) * cores, np.nan_to_num(memory) * whole.memory_mb * MEBIBYTE])
    line = timeline(container, names, start / _MICROSECONDS, used, STEP_SECONDS)
    promised = np.zeros(len(names))
    np.maximum.at(promised, container, np.nan_to_num(assigned) * whole.memory_mb * MEBIBYTE)
    memory_bytes = np.where(promised > 0, promised, np.nan)
    return line.workload(
        columns(np.nan, memory_bytes, rest=np.nan, count=len(names)),
        [name.partition("-")[0] for name in line.names],
        kind=np.full(len(names), TaskKind.JOB, dtype=np.int8),
        jobs_stretch=False,
    )

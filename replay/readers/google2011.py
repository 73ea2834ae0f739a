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
from replay.readers.period import Period
from replay.readers.samples import timeline
from replay.readers.tables import read_numbers, refuse_bad
from replay.setup.hosts import MEBIBYTE
from replay.setup.scenario import MIPS_PER_CORE, Machines
from replay.setup.workload import Workload
from wire.errors import UserError

STEP_SECONDS = 300.0
WHOLE = Machines(cpu_mips=32_000, memory_mb=131_072)
"""The assumed size of the largest machine, if a scenario does not set it."""
_START, _END, _JOB, _TASK, _CPU, _MEMORY, _ASSIGNED = 0, 1, 2, 3, 5, 6, 7
_COLUMNS = (_START, _END, _JOB, _TASK, _CPU, _MEMORY, _ASSIGNED)
_FIELDS = 8
_MICROSECONDS = 1e6


def read(path: Path, machines: Sequence[Machines], period: Period | None = None) -> Workload:
    """Read all tasks of the file."""
    whole = machines[0] if machines else WHOLE
    table = read_numbers(path, _COLUMNS, fields=_FIELDS)
    if period is not None:
        table = table[period.covers(table[:, _START] / _MICROSECONDS)]
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
    step = (start / _MICROSECONDS // STEP_SECONDS).astype(np.intp)
    line = timeline(container, names, step, used, STEP_SECONDS)
    promised = np.zeros(len(names))
    np.maximum.at(promised, container, np.nan_to_num(assigned) * whole.memory_mb * MEBIBYTE)
    requested = np.full((len(names), 4), np.nan)
    requested[:, 1] = np.where(promised > 0, promised, np.nan)
    return Workload(
        ids=line.names,
        services=tuple(name.partition("-")[0] for name in line.names),
        requested=requested,
        use=line.use,
        duration_seconds=line.use.duration_seconds + STEP_SECONDS,
        step_seconds=STEP_SECONDS,
        arrival_seconds=line.use.first_seconds,
        lifetime_seconds=line.use.lifetime_seconds,
        task_class=np.ones(len(names), dtype=np.int8),
        kind=np.full(len(names), TaskKind.JOB, dtype=np.int8),
        jobs_stretch=False,
    )

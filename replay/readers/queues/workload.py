"""A workload of containers that wait in a queue, from the rows of a file."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from collector.common.arrays import Codes, Flags, Floats, Rows
from collector.features.promises.ledger.promises import Promise, ServiceMode
from collector.snapshot.constraints import Constraint
from collector.snapshot.tables import TaskKind
from replay.readers.period import Period
from replay.setup.workload import PromisedContainers, Reserved, Workload
from wire.errors import UserError

_HOUR_SECONDS = 3600.0
_STEP_SECONDS = 60.0


def _select(path: Path, names: Sequence[str], arrival_seconds: Floats, period: Period | None) -> Rows:
    """The rows in the period, after checks of all rows."""
    if not names:
        raise UserError(f"{path} has no requests")
    if len(set(names)) != len(names):
        raise UserError(f"{path}: a task occurs twice")
    kept = np.arange(len(names)) if period is None else np.flatnonzero(period.covers(arrival_seconds))
    if not kept.size:
        raise UserError(f"{path} has no requests in the requested period")
    return kept


def queued_workload(  # noqa: PLR0913 - the columns of a workload
    path: Path,
    *,
    names: Sequence[str],
    services: Sequence[str],
    cores: Floats,
    memory_bytes: Floats,
    arrival_seconds: Floats,
    lifetime_seconds: Floats,
    promises: tuple[Promise, ...],
    promise: Codes,
    spread: Flags,
    constraints: tuple[tuple[Constraint, ...], ...],
    period: Period | None,
) -> Workload:
    """A workload of all rows in the period, up to the end of the hour of the last arrival.

    Rows are in order of arrival. Ids begin with the number of the row, so that they sort in the same order.
    """
    kept = _select(path, names, arrival_seconds, period)
    width = len(str(len(names)))
    requested = np.full((kept.size, 4), np.nan)
    requested[:, 0] = cores[kept]
    # Whole bytes, as agents report them.
    requested[:, 1] = np.rint(memory_bytes[kept])
    last = float(arrival_seconds[kept].max())
    return Workload(
        ids=tuple(f"{place:0{width}}-{names[place]}" for place in kept.tolist()),
        services=tuple(services[place] for place in kept.tolist()),
        requested=requested,
        use=Reserved(requested),
        duration_seconds=_HOUR_SECONDS * (last // _HOUR_SECONDS + 1),
        step_seconds=_STEP_SECONDS,
        arrival_seconds=arrival_seconds[kept],
        lifetime_seconds=lifetime_seconds[kept],
        task_class=np.ones(kept.size, dtype=np.int8),
        kind=np.full(kept.size, TaskKind.SERVICE, dtype=np.int8),
        jobs_stretch=False,
        constraints=tuple(constraints[place] for place in kept.tolist()) if any(constraints) else (),
        promised=PromisedContainers(
            promises=promises, promise=promise[kept], spread=spread[kept], mode=ServiceMode.INDEPENDENT
        ),
    )

"""The states of all instances as columns, so that one pass over all of them is fast."""

from dataclasses import dataclass

import numpy as np

from collector.common.arrays import Flags, Floats, Rows
from collector.features.promises.ledger.instance_state import InstanceState
from collector.features.promises.ledger.standing import Accounts

_ROW = np.dtype(
    [
        ("service", np.int32),
        ("node", np.int32),
        ("is_running", np.bool_),
        ("is_vacant", np.bool_),
        ("preemptions", np.int32),
        ("admitted", np.float64),
        ("running_seconds", np.float64),
        ("discarded_seconds", np.float64),
        ("paused_seconds", np.float64),
        ("preempted_startup_seconds", np.float64),
        ("since", np.float64),
        ("completed", np.float64),
        ("withdrawn", np.float64),
        ("concurrent_seconds", np.float64),
    ]
)
_FREE = -1
"""The service of a row that is not in use."""


class InstanceTable:
    """A row per instance; rows are used again."""

    def __init__(self) -> None:
        self._rows = _free_rows(64)
        self._used = 0
        self._free: list[int] = []

    def __len__(self) -> int:
        """The number of rows in use."""
        return self._used - len(self._free)

    @property
    def limit(self) -> int:
        """All rows are below this number."""
        return self._used

    def allocate(self) -> int:
        """Return a free row."""
        if self._free:
            return self._free.pop()
        if self._used == len(self._rows):
            self._rows = np.concatenate((self._rows, _free_rows(self._used // 4)))
        self._used += 1
        return self._used - 1

    def release(self, row: int) -> None:
        self._rows[row]["service"] = _FREE
        self._free.append(row)

    def store(self, row: int, state: InstanceState, *, service: int, node: int, is_vacant: bool) -> None:
        """Store the state of an instance. `service` is the number of its service, `node` that of its node.

        `is_vacant` is whether the instance is wanted and has no incarnation.
        """
        self._rows[row] = (
            service,
            node,
            state.is_running,
            is_vacant,
            state.preemptions,
            state.admitted,
            state.running_seconds,
            state.discarded_seconds,
            state.paused_seconds,
            state.preempted_startup_seconds,
            state.since,
            state.completed,
            state.withdrawn,
            0.0,
        )

    def store_concurrent(self, row: int, seconds: float) -> None:
        self._rows[row]["concurrent_seconds"] = seconds

    def admitted(self, row: int) -> float:
        return float(self._rows[row]["admitted"])

    def since(self, row: int) -> float:
        """When the instance began to run or to wait."""
        return float(self._rows[row]["since"])

    def is_vacant(self, row: int) -> bool:
        return bool(self._rows[row]["is_vacant"])

    def ended_before(self, at: float, is_batch: Flags) -> list[tuple[int, int]]:
        """The instances that ended before a time, with the numbers of their services.

        `is_batch` has a value for each number of a service.
        """
        table = self._rows[: self._used]
        used = table["service"] != _FREE
        withdrawn, completed = table["withdrawn"], table["completed"]
        batch = used & is_batch[table["service"]] & np.isnan(withdrawn)
        rows = np.flatnonzero(used & (np.where(batch, completed, withdrawn) < at))
        return list(zip(rows.tolist(), table["service"][rows].tolist(), strict=True))

    def sizes(self, limit: int) -> Rows:
        """The number of instances of each service; numbers of services are below the limit."""
        numbers = self._rows["service"][: self._used]
        return np.bincount(numbers[numbers != _FREE], minlength=limit)

    def ended(self, row: int, *, is_batch: bool) -> float:
        """When an instance was withdrawn, or completed as a batch instance; NaN if it runs or waits."""
        found = self._rows[row]
        return float(found["completed"] if is_batch and np.isnan(found["withdrawn"]) else found["withdrawn"])

    def at(self, now: float, is_included: Flags, is_batch: Flags) -> "InstanceColumns":
        """The instances at a moment; the flags have a value for each number of a service."""
        numbers = self._rows["service"][: self._used]
        rows = np.flatnonzero((numbers != _FREE) & is_included[numbers])
        table = self._rows[rows]
        batch = is_batch[table["service"]]
        withdrawn, completed = table["withdrawn"], table["completed"]
        is_withdrawn = ~np.isnan(withdrawn)
        is_completed = batch & ~np.isnan(completed) & ~is_withdrawn
        is_running = table["is_running"]
        # A clock that is ahead reports the beginning of an interval that lies ahead: it is empty so far.
        end = np.where(is_withdrawn, withdrawn, np.maximum(now, table["since"]))
        run = np.where(is_running, end - table["since"], 0.0)
        ran = table["running_seconds"] + run
        paused = table["paused_seconds"] + np.where(np.isnan(completed), 0.0, end - completed)
        waiting = end - table["admitted"] - ran - np.where(batch, paused, 0.0)
        is_live = ~is_withdrawn & ~is_completed
        return InstanceColumns(
            rows=rows,
            service=table["service"].astype(np.intp),
            node=table["node"],
            is_live=is_live,
            is_completed=is_completed,
            is_running=is_running,
            ran_seconds=ran,
            # Rounding can make a difference of large numbers negative.
            waiting_seconds=np.maximum(waiting, 0.0),
            failed_seconds=table["discarded_seconds"],
            run_seconds=run,
            waited_seconds=np.where(is_live & ~is_running, end - table["since"], 0.0),
            concurrent_seconds=table["concurrent_seconds"],
            preempted_startup_seconds=table["preempted_startup_seconds"],
            preemptions=table["preemptions"],
            admitted=table["admitted"],
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class InstanceColumns(Accounts):
    """Instances at one moment. `service` is the number of the service.

    `concurrent_seconds` are without the time in which all instances run now.
    """

    rows: Rows
    node: np.typing.NDArray[np.int32]
    """The number of the node that the instance runs on."""
    waited_seconds: Floats
    """Time since it began to wait; 0 while it runs."""
    preempted_startup_seconds: Floats
    preemptions: np.typing.NDArray[np.int32]
    admitted: Floats
    """Unix time of its admission."""


def _free_rows(count: int) -> np.typing.NDArray[np.void]:
    rows = np.zeros(count, dtype=_ROW)
    rows["service"] = _FREE
    return rows

"""Checkpoints: the state of each instance up to its horizon, before the transitions that are kept one by one.

They are stored as numbers, since objects take several times the memory.
"""

from array import array
from typing import Any

from collector.features.promises.ledger.instance_state import InstanceState, Run
from collector.features.promises.ledger.transitions import NodeNames

NO_CHECKPOINT = -1
_WIDTH = 12
"""Numbers per checkpoint."""
_HORIZON, _CONCURRENT_SECONDS, _RUNNING_SECONDS = range(3)


class CheckpointPool:
    """Checkpoints, each identified by its place."""

    def __init__(self, nodes: NodeNames) -> None:
        self._nodes = nodes
        self._numbers = array("d")
        self._runs: list[tuple[Any, ...]] = []
        """Incarnation, node and start-up time of each run, one after the other."""
        self._pending: list[str] = []
        self._free: list[int] = []

    def add(self, state: InstanceState, horizon: float, concurrent_seconds: float) -> int:
        """Add the checkpoint of an instance; returns its place."""
        numbers = array(
            "d",
            (
                horizon,
                concurrent_seconds,
                state.running_seconds,
                state.admitted,
                state.discarded_seconds,
                state.paused_seconds,
                state.preempted_startup_seconds,
                state.since,
                state.completed,
                state.withdrawn,
                state.preemptions,
                self._nodes.number(state.last_node),
            ),
        )
        if not self._free:
            self._free.append(len(self._runs))
            self._numbers.extend(numbers)
            self._runs.append(())
            self._pending.append("")
        place = self._free.pop()
        self._numbers[_WIDTH * place : _WIDTH * (place + 1)] = numbers
        self._runs[place] = tuple(each for name, run in state.runs.items() for each in (name, *run))
        self._pending[place] = state.pending
        return place

    def release(self, place: int) -> None:
        """Forget a checkpoint."""
        self._runs[place], self._pending[place] = (), ""
        self._free.append(place)

    def horizon(self, place: int) -> float:
        return self._numbers[_WIDTH * place + _HORIZON]

    def concurrent_seconds(self, place: int) -> float:
        return self._numbers[_WIDTH * place + _CONCURRENT_SECONDS]

    def set_concurrent_seconds(self, place: int, seconds: float) -> None:
        self._numbers[_WIDTH * place + _CONCURRENT_SECONDS] = seconds

    def running_seconds(self, place: int) -> float:
        return self._numbers[_WIDTH * place + _RUNNING_SECONDS]

    def incarnations(self, place: int) -> tuple[str, ...]:
        """The incarnations that run or wait at the horizon; may include an empty one."""
        return (*self._runs[place][::3], self._pending[place])

    def state(self, place: int) -> InstanceState:
        """The state up to the horizon."""
        _, _, running, admitted, discarded, paused, preempted, since, completed, withdrawn, count, node = (
            self._numbers[_WIDTH * place : _WIDTH * (place + 1)]
        )
        runs = self._runs[place]
        return InstanceState(
            admitted=admitted,
            running_seconds=running,
            discarded_seconds=discarded,
            paused_seconds=paused,
            preemptions=int(count),
            preempted_startup_seconds=preempted,
            since=since,
            runs={runs[each]: Run(*runs[each + 1 : each + 3]) for each in range(0, len(runs), 3)},
            pending=self._pending[place],
            last_node=self._nodes.name(int(node)),
            completed=completed,
            withdrawn=withdrawn,
        )

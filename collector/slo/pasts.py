"""The lives of instances up to their horizons: as objects, they would take several times the memory."""

from array import array
from typing import Any

from collector.slo.life import Life, Run
from collector.slo.transitions import NodeNames

NO_PAST = -1
_WIDTH = 12
"""Numbers per past."""
_HORIZON, _CONCURRENT_SECONDS, _RUNNING_SECONDS = range(3)


class PastPool:
    """Pasts, each known by its place."""

    def __init__(self, nodes: NodeNames) -> None:
        self._nodes = nodes
        self._numbers = array("d")
        self._runs: list[tuple[Any, ...]] = []
        """Incarnation, node and start-up time of each run, one after the other."""
        self._pending: list[str] = []
        self._free: list[int] = []

    def add(self, life: Life, horizon: float, concurrent_seconds: float) -> int:
        """Add the past of an instance; returns its place."""
        numbers = array(
            "d",
            (
                horizon,
                concurrent_seconds,
                life.running_seconds,
                life.admitted,
                life.discarded_seconds,
                life.paused_seconds,
                life.preempted_startup_seconds,
                life.since,
                life.completed,
                life.withdrawn,
                life.preemptions,
                self._nodes.number(life.last_node),
            ),
        )
        if not self._free:
            self._free.append(len(self._runs))
            self._numbers.extend(numbers)
            self._runs.append(())
            self._pending.append("")
        place = self._free.pop()
        self._numbers[_WIDTH * place : _WIDTH * (place + 1)] = numbers
        self._runs[place] = tuple(each for name, run in life.runs.items() for each in (name, *run))
        self._pending[place] = life.pending
        return place

    def release(self, place: int) -> None:
        """Forget one."""
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

    def life(self, place: int) -> Life:
        """The life up to the horizon."""
        _, _, running, admitted, discarded, paused, preempted, since, completed, withdrawn, count, node = (
            self._numbers[_WIDTH * place : _WIDTH * (place + 1)]
        )
        runs = self._runs[place]
        return Life(
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

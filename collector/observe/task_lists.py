"""Running tasks as a list that is filtered, searched and sorted, fast enough to search with every key press.

Nothing is created per task but numbers and texts, which Python's garbage collector does not track: with a
tuple for each of 50,000 tasks, its passes would take longer than the sort.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from collector.common.arrays import Floats
from collector.observe.task_columns import ReportedTask
from wire.resources import RESOURCES, Resource

TaskOrder = Literal["name", "node", "service", "cpu", "memory", "disk", "network", "watts"]


@dataclass(frozen=True, slots=True)
class TaskList:
    """A copy of running tasks, of what they use, and of their power."""

    tasks: Sequence[ReportedTask]
    used: Floats
    watts: Floats

    def labelled(self, is_labelled: Callable[[Mapping[str, str]], bool]) -> "TaskList":
        return self._where([is_labelled(each.state.labels) for each in self.tasks])

    def containing(self, text: str) -> "TaskList":
        """The tasks whose name, service, image, node or id contains a text, in any case."""
        part = text.casefold()
        return self._where([part in each.text() for each in self.tasks])

    def ordered(self, order: TaskOrder, *, reverse: bool = False) -> Iterator[ReportedTask]:
        """The tasks by a used resource, by power, or by a text in any case; unknown values always come last.

        Equal ones stay in the order that they have.
        """
        if order == "name":
            names = [each.state.name.casefold() for each in self.tasks]
            places: Iterable[int] = sorted(range(len(names)), key=names.__getitem__, reverse=reverse)
        else:
            values = self._values(order)
            places = np.argsort(-values if reverse else values, kind="stable").tolist()
        # Most lists show the first few only.
        return (self.tasks[place] for place in places)

    def _values(self, order: TaskOrder) -> Floats:
        if order == "node":
            return _ranks([each.node for each in self.tasks])
        if order == "service":
            return _ranks([each.state.service for each in self.tasks])
        if order == "watts":
            return self.watts
        return self.used[:, RESOURCES.index(Resource(order))]

    def _where(self, matching: list[bool]) -> "TaskList":
        places = np.flatnonzero(np.array(matching, np.bool_))
        return TaskList(
            [self.tasks[place] for place in places.tolist()], self.used[places], self.watts[places]
        )


def _ranks(texts: Sequence[str | None]) -> Floats:
    """The place of each text among all, in any case; equal texts have equal ranks, None has NaN."""
    folded = {each: each.casefold() for each in set(texts) if each is not None}
    rank = {each: float(place) for place, each in enumerate(sorted(set(folded.values())))}
    ranks: dict[str | None, float] = {each: rank[text] for each, text in folded.items()}
    return np.array([ranks.get(each, np.nan) for each in texts], dtype=float)

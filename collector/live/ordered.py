"""Many lists in order, of which each element stands in one: found at once, moved without sorting again.

A list is held in runs of bounded length. To find a place takes a bisection among the runs and one within a
run, and to make room moves no more than a run: O(log n) comparisons, and a copy of memory that takes less
time than one of them.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Hashable, Iterator
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
"""An element; those of equal weight stand in the order of their keys, so they must be comparable."""
Name = TypeVar("Name", bound=Hashable)
"""Of a list."""
_LONGEST_RUN = 512
_Element = tuple[float, Any]


class _Runs:
    """One list: runs of elements in order, none of them empty."""

    __slots__ = ("runs",)

    def __init__(self) -> None:
        self.runs: list[list[_Element]] = []

    def add(self, element: _Element) -> None:
        if not self.runs:
            self.runs.append([element])
            return
        place = self._place(element)
        run = self.runs[place]
        insort(run, element)
        if len(run) > _LONGEST_RUN:
            half = len(run) // 2
            self.runs.insert(place + 1, run[half:])
            del run[half:]

    def remove(self, element: _Element) -> None:
        place = self._place(element)
        run = self.runs[place]
        del run[bisect_left(run, element)]
        if not run:
            del self.runs[place]

    def _place(self, element: _Element) -> int:
        """The run that an element belongs to; most lists are short and have but one."""
        return max(0, bisect_right(self.runs, element, key=_first) - 1) if len(self.runs) > 1 else 0


def _first(run: list[_Element]) -> _Element:
    return run[0]


class OrderedLists(Generic[Name, Key]):
    """Elements by ascending weight, in lists that come and go with their elements."""

    def __init__(self) -> None:
        self._lists: dict[Name, _Runs] = {}
        self._where: dict[Key, tuple[Name, float]] = {}

    def put(self, key: Key, name: Name, weight: float) -> None:
        """Let an element stand in a list, and nowhere else."""
        where = self._where.get(key)
        if where == (name, weight):
            return
        if where is not None:
            self.drop(key)
        self._where[key] = (name, weight)
        runs = self._lists.get(name)
        if runs is None:
            runs = self._lists[name] = _Runs()
        runs.add((weight, key))

    def drop(self, key: Key) -> None:
        """Let an element go, if it is there."""
        where = self._where.pop(key, None)
        if where is None:
            return
        name, weight = where
        runs = self._lists[name]
        runs.remove((weight, key))
        if not runs.runs:
            del self._lists[name]

    def where(self, key: Key) -> tuple[Name, float] | None:
        """The list that an element stands in, and its weight."""
        return self._where.get(key)

    def __contains__(self, name: Name) -> bool:
        """Whether anything stands in a list."""
        return name in self._lists

    def listed(self, name: Name) -> Iterator[Key]:
        """The elements of a list in order."""
        runs = self._lists.get(name)
        if runs is not None:
            for run in runs.runs:
                for _, key in run:
                    yield key

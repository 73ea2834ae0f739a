"""Runs computations, and keeps objects from one to the next."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any


class Workplace:
    """The objects that a worker keeps, one of each kind."""

    def __init__(self) -> None:
        self._kept: dict[type, object] = {}

    def run(
        self, kind: type | None, function: Callable[..., Any], arguments: Sequence[object]
    ) -> Iterator[Any]:
        """Yield what a function yields, or else its result; with a `kind`, it is a method of that object."""
        if kind is not None:
            arguments = (self._kept.setdefault(kind, kind()), *arguments)
        result = function(*arguments)
        if isinstance(result, Iterator):
            yield from result
        else:
            yield result

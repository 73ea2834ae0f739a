"""A source: files of a cgroup, and the function that parses them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class File:
    """A file of a cgroup: its controller, and its names on newer and older kernels."""

    controller: str
    names: tuple[str, ...]


def file(controller: str, *names: str) -> File:
    """Create a file from its names, the preferred one first."""
    return File(controller, names)


@dataclass(frozen=True, slots=True)
class Source(Generic[Value]):
    """`parse` takes the content of each file, None if it cannot be read."""

    files: tuple[File, ...]
    parse: Callable[..., Value]

"""The shape of a source: the files of a cgroup that belong together, and what is made of their text."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class File:
    """A file of a cgroup: the controller that it belongs to, and its names on newer and older kernels."""

    controller: str
    names: tuple[str, ...]


def file(controller: str, *names: str) -> File:
    """A file by its names, the preferred one first."""
    return File(controller, names)


@dataclass(frozen=True, slots=True)
class Source(Generic[Value]):
    """`parse` takes the text of each file, None for one that cannot be read."""

    files: tuple[File, ...]
    parse: Callable[..., Value]

"""The one walk that finds every container of the host."""

import os
from dataclasses import dataclass

from agent.cgroups.paths import ContainerRef, container_of


@dataclass(frozen=True, slots=True)
class Found:
    """A container and its cgroup's path, the same in every hierarchy."""

    container: ContainerRef
    path: str


@dataclass(frozen=True, slots=True)
class Walk:
    """What a walk came back with."""

    found: tuple[Found, ...] = ()
    """By id, each id once."""
    some_forbidden: bool = False
    """There were directories that this user may not list."""


def find_containers(root: str) -> Walk:
    """Walk the hierarchy at `root`, not descending into containers; what goes away meanwhile is not there.

    The root itself is never a container: inside one, it is the host of those that are nested in it.
    """
    found: dict[str, Found] = {}
    some_forbidden = False
    waiting = [""]
    while waiting:
        parent = waiting.pop()
        try:
            with os.scandir(f"{root}/{parent}") as entries:
                names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except PermissionError:
            some_forbidden = True
            continue
        except OSError:
            continue
        for name in names:
            path = f"{parent}/{name}" if parent else name
            container = container_of(path)
            if container is None:
                waiting.append(path)
            else:
                found.setdefault(container.id, Found(container, path))
    return Walk(tuple(found[identifier] for identifier in sorted(found)), some_forbidden)

"""The one walk that finds every container of the host."""

import os
from dataclasses import dataclass

from agent.sources.cgroups.paths import ContainerRef, container_of


@dataclass(frozen=True, slots=True)
class Found:
    """A container and its cgroup's path from the root, the same in every hierarchy."""

    container: ContainerRef
    path: str


@dataclass(frozen=True, slots=True)
class Walk:
    """What a walk came back with."""

    found: tuple[Found, ...] = ()
    """By id, each id once."""
    some_forbidden: bool = False
    """There were directories that this user may not list."""


def find_containers(root: str, subtree: str = "") -> Walk:
    """Walk the hierarchy at `root` from `subtree` on; what goes away meanwhile is not there.

    Containers are not descended into. Where the walk begins is never a container itself: to those that are
    nested in it, it is the host.
    """
    found: dict[str, Found] = {}
    some_forbidden = False
    top, prefix = (f"{root}/{subtree}", f"{subtree}/") if subtree else (root, "")
    waiting = [""]
    while waiting:
        parent = waiting.pop()
        try:
            with os.scandir(f"{top}/{parent}") as entries:
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
                found.setdefault(container.id, Found(container, prefix + path))
    return Walk(tuple(found[identifier] for identifier in sorted(found)), some_forbidden)

"""The containers that the engine has listed or announced. Pure: no clock, no I/O."""

from collections.abc import Mapping
from dataclasses import replace

from agent.sources.docker.models import ContainerInfo, EngineEvent, RuntimeEvent

_MAX_KEPT = 1024
"""Maximum number of containers kept that were created but not started, or ended but not removed."""

ACTIONS = ("create", "start", "rename", "die", "oom", "destroy")
"""Events to subscribe to."""


class ContainerIndex:
    """Running and recently ended containers by ID."""

    def __init__(self) -> None:
        self._containers: dict[str, ContainerInfo] = {}
        self._created_at: dict[str, float] = {}
        self._ended: dict[str, None] = {}
        """Containers that do not run, the first to end first; a start of one of them is a restart."""

    def get(self, container_id: str) -> ContainerInfo | None:
        return self._containers.get(container_id)

    def running(self) -> list[tuple[str, ContainerInfo]]:
        """Id and description of each container that runs."""
        return [(each, info) for each, info in self._containers.items() if each not in self._ended]

    def images(self) -> set[str]:
        """Names of the images of all containers."""
        return {info.image for info in self._containers.values() if info.image}

    def replace_all(self, listing: Mapping[str, ContainerInfo]) -> None:
        """Take over the engine's list, and keep what only events contain."""
        self._ended.clear()
        self._containers = {
            container_id: replace(
                info,
                started_at=old.started_at,
                restarts=old.restarts,
                startup_seconds=old.startup_seconds,
            )
            if (old := self._containers.get(container_id)) is not None
            else info
            for container_id, info in listing.items()
        }

    def apply(self, event: EngineEvent) -> RuntimeEvent | None:
        """Apply an event; returns it for the report if it is a start, an exit or an out-of-memory kill."""
        container_id = event.container_id
        if event.is_of_image:
            return None
        match event.action:
            case "create":
                self._created_at[container_id] = event.unix_seconds
                _remove_oldest(self._created_at)
            case "start":
                return self._start(event)
            case "rename" if container_id in self._containers:
                self._containers[container_id] = replace(self._containers[container_id], name=event.name)
            case "die":
                self._ended[container_id] = None
                for removed in _remove_oldest(self._ended):
                    self._containers.pop(removed, None)
                return RuntimeEvent(
                    "die", container_id, event.name, event.unix_seconds, exit_code=event.exit_code
                )
            case "oom":
                return RuntimeEvent("oom", container_id, event.name, event.unix_seconds)
            case "destroy":
                for table in (self._containers, self._created_at, self._ended):
                    table.pop(container_id, None)
        return None

    def _start(self, event: EngineEvent) -> RuntimeEvent:
        container_id = event.container_id
        created_at = self._created_at.pop(container_id, None)
        startup_seconds = None if created_at is None else max(0.0, event.unix_seconds - created_at)
        info = replace(event.describe(), startup_seconds=startup_seconds)
        before = self._containers.get(container_id)
        if before is not None and container_id in self._ended:
            info = replace(info, restarts=(before.restarts or 0) + 1, startup_seconds=before.startup_seconds)
        self._ended.pop(container_id, None)
        self._containers[container_id] = info
        return RuntimeEvent("start", container_id, info.name, event.unix_seconds, startup_seconds)


def _remove_oldest(table: dict[str, float] | dict[str, None]) -> list[str]:
    """Limit the size of a table; returns the IDs that were removed."""
    surplus = list(table)[: max(0, len(table) - _MAX_KEPT)]
    for container_id in surplus:
        del table[container_id]
    return surplus

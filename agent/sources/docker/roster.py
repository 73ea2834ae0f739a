"""Who is there by the engine's word, and what became of them. No I/O and no clock."""

from collections.abc import Mapping
from dataclasses import replace

from agent.sources.docker.info import ContainerInfo, RuntimeEvent
from agent.sources.docker.models import EngineEvent

_MOST_REMEMBERED = 1024
"""Of containers that were made but not started, and of those that ended but were not removed."""

ACTIONS = ("create", "start", "rename", "die", "oom", "destroy")
"""What has to be heard of."""


class Roster:
    """Every container that runs, and lately ran, as the engine described it."""

    def __init__(self) -> None:
        self._known: dict[str, ContainerInfo] = {}
        self._created_at: dict[str, float] = {}
        self._ended: dict[str, None] = {}
        """Those that do not run, the longest dead first; a start of one of them is a restart."""

    def get(self, container_id: str) -> ContainerInfo | None:
        return self._known.get(container_id)

    def renew(self, listing: Mapping[str, ContainerInfo]) -> None:
        """Take the list of those that run; what only events told of them stays."""
        self._ended.clear()
        self._known = {
            container_id: replace(
                info,
                started_at=old.started_at,
                restarts=old.restarts,
                startup_seconds=old.startup_seconds,
            )
            if (old := self._known.get(container_id)) is not None
            else info
            for container_id, info in listing.items()
        }

    def apply(self, event: EngineEvent) -> RuntimeEvent | None:
        """Bring the roster up to date; gives what others should hear of."""
        container_id = event.container_id
        match event.action:
            case "create":
                self._created_at[container_id] = event.unix_seconds
                _forget_oldest(self._created_at)
            case "start":
                return self._start(event)
            case "rename" if container_id in self._known:
                self._known[container_id] = replace(self._known[container_id], name=event.name)
            case "die":
                self._ended[container_id] = None
                for forgotten in _forget_oldest(self._ended):
                    self._known.pop(forgotten, None)
                return RuntimeEvent(
                    "die", container_id, event.name, event.unix_seconds, exit_code=event.exit_code
                )
            case "oom":
                return RuntimeEvent("oom", container_id, event.name, event.unix_seconds)
            case "destroy":
                for table in (self._known, self._created_at, self._ended):
                    table.pop(container_id, None)
        return None

    def _start(self, event: EngineEvent) -> RuntimeEvent:
        container_id = event.container_id
        created_at = self._created_at.pop(container_id, None)
        startup_seconds = None if created_at is None else max(0.0, event.unix_seconds - created_at)
        info = replace(event.describe(), startup_seconds=startup_seconds)
        before = self._known.get(container_id)
        if before is not None and container_id in self._ended:
            info = replace(info, restarts=(before.restarts or 0) + 1, startup_seconds=before.startup_seconds)
        self._ended.pop(container_id, None)
        self._known[container_id] = info
        return RuntimeEvent("start", container_id, info.name, event.unix_seconds, startup_seconds)


def _forget_oldest(table: dict[str, float] | dict[str, None]) -> list[str]:
    """Keep a table within bounds; gives the ids that fell out."""
    surplus = list(table)[: max(0, len(table) - _MOST_REMEMBERED)]
    for container_id in surplus:
        del table[container_id]
    return surplus

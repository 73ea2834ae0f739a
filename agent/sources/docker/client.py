"""The containers that the engine has listed or announced, and the connection to it."""

import asyncio
import json
import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import aiohttp
import msgspec

from agent.sources.docker.models import (
    ContainerInfo,
    EngineEvent,
    RuntimeEvent,
    parse_event,
    parse_images,
    parse_listing,
)
from wire.messages import Gap

log = logging.getLogger(__name__)

_MAX_KEPT = 1024
"""Maximum number of containers kept that were created but not started, or ended but not removed."""

_ACTIONS = ("create", "start", "rename", "die", "oom", "destroy")
"""Events to subscribe to."""
_IMAGE_ACTIONS = ("pull", "load", "import", "tag", "untag", "delete")
_FILTERS = {"type": ["container", "image"], "event": [*_ACTIONS, *_IMAGE_ACTIONS]}
_RETRY_SECONDS = (1.0, 2.0, 5.0, 10.0, 30.0)
_CONNECT_SECONDS = 5.0
_LIST_SECONDS = 30.0
_IMAGES_SECONDS = 5.0
"""Minimum time between two lists of images: a pull of many is one change."""
_MAX_EVENTS = 4096
"""Events are kept until the next sample; beyond this number the oldest are lost."""


class ContainerIndex:
    """Running and recently ended containers by ID. Pure: no clock, no I/O."""

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
        if event.type == "image":
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


class DockerWatcher(ContainerIndex):
    """Keeps itself up to date while `run` runs: lists once, follows events, reconnects after a loss."""

    def __init__(self, socket: Path) -> None:
        super().__init__()
        self._socket = socket
        self._events: deque[RuntimeEvent] = deque(maxlen=_MAX_EVENTS)
        self._has_responded = False
        self._failures = 0
        self._images_changed = asyncio.Event()
        self.images: tuple[str, ...] | None = None
        """Names of the engine's images; None until it has listed them."""
        self.gap: Gap | None = None
        """Set while the engine is not available."""
        self.listed = asyncio.Event()
        """Set after the first response, or the first failure, of the engine."""

    def take_events(self) -> list[RuntimeEvent]:
        """Events since the last call, in the engine's order."""
        taken = list(self._events)
        self._events.clear()
        return taken

    async def run(self) -> None:
        while True:
            try:
                await self._watch()
            except (OSError, aiohttp.ClientError, ValueError, msgspec.MsgspecError) as error:
                self._set_unavailable(error)
            self.listed.set()
            await asyncio.sleep(_RETRY_SECONDS[min(self._failures, len(_RETRY_SECONDS) - 1)])
            self._failures += 1

    async def _watch(self) -> None:
        connector = aiohttp.UnixConnector(path=str(self._socket))
        async with (
            aiohttp.ClientSession("http://engine", connector=connector) as session,
            session.get(
                "/events",
                params={"filters": json.dumps(_FILTERS)},
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
                raise_for_status=True,
            ) as events,
        ):
            # Events before the list, so that no container that starts in between is missed.
            timeout = aiohttp.ClientTimeout(total=_LIST_SECONDS)
            async with session.get("/containers/json", timeout=timeout, raise_for_status=True) as listing:
                self.replace_all(dict(parse_listing(await listing.read())))
            self._set_available()
            self._images_changed.set()
            images = asyncio.create_task(self._follow_images(session))
            try:
                async for line in events.content:
                    self._follow(parse_event(line))
            finally:
                images.cancel()
        raise ConnectionResetError  # the engine closed the stream, which never ends by itself

    def _follow(self, event: EngineEvent) -> None:
        if (changes := self.apply(event)) is not None:
            self._events.append(changes)
        info = self.get(event.container_id) if event.action == "start" else None
        if event.type == "image" or (info is not None and info.image not in (self.images or ())):
            self._images_changed.set()

    async def _follow_images(self, session: aiohttp.ClientSession) -> None:
        """List the images, and again after changes; stop if the engine does not allow it."""
        timeout = aiohttp.ClientTimeout(total=_LIST_SECONDS)
        while True:
            await self._images_changed.wait()
            self._images_changed.clear()
            try:
                async with session.get("/images/json", timeout=timeout, raise_for_status=True) as response:
                    in_use = {info.image for info in self._containers.values() if info.image}
                    self.images = parse_images(await response.read(), in_use)
            except (OSError, aiohttp.ClientError, msgspec.MsgspecError) as error:
                log.info("docker: images are not listed (%s)", _reason(error, self._socket))
                return
            await asyncio.sleep(_IMAGES_SECONDS)

    def _set_available(self) -> None:
        if self.gap is not None:
            log.info("docker: the engine at %s is available again", self._socket)
        self.gap = None
        self._failures = 0
        self._has_responded = True
        self.listed.set()

    def _set_unavailable(self, error: Exception) -> None:
        if self.gap is None:
            affected = "new containers" if self._has_responded else "containers"
            self.gap = Gap("container names", f"{_reason(error, self._socket)}; {affected} are listed by ID")
            if self.listed.is_set():  # an engine that was never there is logged once, with all gaps
                log.warning("docker: %s", self.gap.why)


def _reason(error: Exception, socket: Path) -> str:
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    match cause:
        case FileNotFoundError():
            return f"no Docker engine listens at {socket}"
        case PermissionError():
            return f"no permission to use the Docker engine at {socket} (add this user to the socket's group)"
        case ConnectionRefusedError():
            return f"the Docker engine at {socket} is not running"
        case ConnectionResetError() | aiohttp.ClientPayloadError() | aiohttp.ServerDisconnectedError():
            return f"the Docker engine at {socket} closed the connection"
        case _:
            return f"the Docker engine at {socket} does not respond ({str(cause) or type(cause).__name__})"

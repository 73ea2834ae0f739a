"""The connection to the engine: list once, follow events, reconnect when it is lost."""

import asyncio
import json
import logging
from collections import deque
from pathlib import Path

import aiohttp
import msgspec

from agent.sources.docker.index import ACTIONS, ContainerIndex
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

_IMAGE_ACTIONS = ("pull", "load", "import", "tag", "untag", "delete")
_FILTERS = {"type": ["container", "image"], "event": [*ACTIONS, *_IMAGE_ACTIONS]}
_RETRY_SECONDS = (1.0, 2.0, 5.0, 10.0, 30.0)
_CONNECT_SECONDS = 5.0
_LIST_SECONDS = 30.0
_IMAGES_SECONDS = 5.0
"""Minimum time between two lists of images: a pull of many is one change."""
_MAX_EVENTS = 4096
"""Events are kept until the next sample; beyond this number the oldest are lost."""


class DockerWatcher:
    """Keeps the names of all containers up to date while `run` runs."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._index = ContainerIndex()
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

    def get(self, container_id: str) -> ContainerInfo | None:
        return self._index.get(container_id)

    def running(self) -> list[tuple[str, ContainerInfo]]:
        """Id and description of each container that runs."""
        return self._index.running()

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
            self._index.replace_all(await self._list(session))
            self._set_available()
            self._images_changed.set()
            images = asyncio.create_task(self._follow_images(session))
            try:
                async for line in events.content:
                    self._apply(parse_event(line))
            finally:
                images.cancel()
        raise ConnectionResetError  # the engine closed the stream, which never ends by itself

    def _apply(self, event: EngineEvent) -> None:
        if (changes := self._index.apply(event)) is not None:
            self._events.append(changes)
        info = self._index.get(event.container_id) if event.action == "start" else None
        if event.is_of_image or (info is not None and info.image not in (self.images or ())):
            self._images_changed.set()

    async def _follow_images(self, session: aiohttp.ClientSession) -> None:
        """List the images, and again after changes; stop if the engine does not allow it."""
        timeout = aiohttp.ClientTimeout(total=_LIST_SECONDS)
        while True:
            await self._images_changed.wait()
            self._images_changed.clear()
            try:
                async with session.get("/images/json", timeout=timeout, raise_for_status=True) as response:
                    self.images = parse_images(await response.read(), self._index.images())
            except (OSError, aiohttp.ClientError, msgspec.MsgspecError) as error:
                log.info("docker: images are not listed (%s)", _reason(error, self._socket))
                return
            await asyncio.sleep(_IMAGES_SECONDS)

    async def _list(self, session: aiohttp.ClientSession) -> dict[str, ContainerInfo]:
        timeout = aiohttp.ClientTimeout(total=_LIST_SECONDS)
        async with session.get("/containers/json", timeout=timeout, raise_for_status=True) as response:
            return dict(parse_listing(await response.read()))

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

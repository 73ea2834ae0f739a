"""The connection to the engine: list once, follow events, reconnect when it is lost."""

import asyncio
import json
import logging
from collections import deque
from pathlib import Path

import aiohttp
import msgspec

from agent.sources.docker.index import ACTIONS, ContainerIndex
from agent.sources.docker.models import ContainerInfo, RuntimeEvent, parse_event, parse_listing
from wire.messages import Gap

log = logging.getLogger(__name__)

_FILTERS = {"type": ["container"], "event": list(ACTIONS)}
_RETRY_SECONDS = (1.0, 2.0, 5.0, 10.0, 30.0)
_CONNECT_SECONDS = 5.0
_LIST_SECONDS = 30.0
_MAX_EVENTS = 4096
"""Events are kept until the next sample; beyond this number the oldest are lost."""


class DockerWatcher:
    """Keeps the names of all containers up to date while `run` runs."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._index = ContainerIndex()
        self._events: deque[RuntimeEvent] = deque(maxlen=_MAX_EVENTS)
        self._has_answered = False
        self._failures = 0
        self.gap: Gap | None = None
        """Set while the engine is not available."""
        self.listed = asyncio.Event()
        """Set after the first answer, or the first failure, of the engine."""

    def get(self, container_id: str) -> ContainerInfo | None:
        return self._index.get(container_id)

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
            async for line in events.content:
                if (changes := self._index.apply(parse_event(line))) is not None:
                    self._events.append(changes)
        raise ConnectionResetError  # the engine closed the stream, which never ends by itself

    async def _list(self, session: aiohttp.ClientSession) -> dict[str, ContainerInfo]:
        timeout = aiohttp.ClientTimeout(total=_LIST_SECONDS)
        async with session.get("/containers/json", timeout=timeout, raise_for_status=True) as response:
            return dict(parse_listing(await response.read()))

    def _set_available(self) -> None:
        if self.gap is not None:
            log.info("docker: the engine at %s is available again", self._socket)
        self.gap = None
        self._failures = 0
        self._has_answered = True
        self.listed.set()

    def _set_unavailable(self, error: Exception) -> None:
        if self.gap is None:
            affected = "new containers" if self._has_answered else "containers"
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
            return f"the Docker engine at {socket} does not answer ({str(cause) or type(cause).__name__})"

"""The conversation with the engine: asked once, then listened to, and looked for again when it is lost."""

import asyncio
import json
import logging
from collections import deque
from pathlib import Path

import aiohttp
import msgspec

from agent.sources.docker.info import ContainerInfo, RuntimeEvent
from agent.sources.docker.models import parse_event, parse_listing
from agent.sources.docker.roster import ACTIONS, Roster
from wire.messages import Gap

log = logging.getLogger(__name__)

_FILTERS = {"type": ["container"], "event": list(ACTIONS)}
_RETRY_SECONDS = (1.0, 2.0, 5.0, 10.0, 30.0)
_CONNECT_SECONDS = 5.0
_LIST_SECONDS = 30.0
_MOST_EVENTS = 4096
"""Events wait for the next sample; a burst beyond this loses the oldest."""


class DockerNames:
    """Knows all containers by name; `run` keeps it so for as long as it is not cancelled."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._roster = Roster()
        self._happened: deque[RuntimeEvent] = deque(maxlen=_MOST_EVENTS)
        self._has_answered = False
        self._failures = 0
        self.gap: Gap | None = None
        """Set while the engine cannot be asked."""
        self.listed = asyncio.Event()
        """Set when the engine has answered, or has been found absent, for the first time."""

    def get(self, container_id: str) -> ContainerInfo | None:
        return self._roster.get(container_id)

    def take_events(self) -> list[RuntimeEvent]:
        """What happened since this was last called, in the engine's order."""
        taken = list(self._happened)
        self._happened.clear()
        return taken

    async def run(self) -> None:
        while True:
            try:
                await self._watch()
            except (OSError, aiohttp.ClientError, ValueError, msgspec.MsgspecError) as error:
                self._lost(error)
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
            # Listened first, listed then: what starts in between is in both, and nothing is in neither.
            self._roster.renew(await self._list(session))
            self._found()
            async for line in events.content:
                if (happened := self._roster.apply(parse_event(line))) is not None:
                    self._happened.append(happened)
        raise ConnectionResetError  # the engine closed the stream, which has no end of its own

    async def _list(self, session: aiohttp.ClientSession) -> dict[str, ContainerInfo]:
        timeout = aiohttp.ClientTimeout(total=_LIST_SECONDS)
        async with session.get("/containers/json", timeout=timeout, raise_for_status=True) as answer:
            return dict(parse_listing(await answer.read()))

    def _found(self) -> None:
        if self.gap is not None:
            log.info("docker: the engine at %s answers again", self._socket)
        self.gap = None
        self._failures = 0
        self._has_answered = True
        self.listed.set()

    def _lost(self, error: Exception) -> None:
        if self.gap is None:
            who = "new containers" if self._has_answered else "containers"
            self.gap = Gap("container names", f"{_reason(error, self._socket)}; {who} go by their ids")
            if self.listed.is_set():  # an engine that was never there is said once, with all that is missing
                log.warning("docker: %s", self.gap.why)


def _reason(error: Exception, socket: Path) -> str:
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    match cause:
        case FileNotFoundError():
            return f"no Docker engine listens at {socket}"
        case PermissionError():
            return f"not allowed to ask the Docker engine at {socket} (join the group that owns it)"
        case ConnectionRefusedError():
            return f"the Docker engine at {socket} is not running"
        case ConnectionResetError() | aiohttp.ClientPayloadError() | aiohttp.ServerDisconnectedError():
            return f"the Docker engine at {socket} has gone away"
        case _:
            return f"the Docker engine at {socket} does not answer ({str(cause) or type(cause).__name__})"

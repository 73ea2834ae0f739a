"""Names, images and services of containers, from the Docker engine (or Podman's socket).

Counters never come from here: the engine is asked once for the list and then only listened to. A
start event carries the name, the image and the labels, so nothing has to be asked per container.
Spoken over aiohttp, which the agent has anyway: an SDK would cost a third of its memory for two GETs.
"""

import asyncio
import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from wire.messages import Gap

log = logging.getLogger(__name__)

_EVENTS = {"type": ["container"], "event": ["start", "rename", "destroy"]}
_RETRY_SECONDS = (1.0, 2.0, 5.0, 10.0, 30.0)


@dataclass(frozen=True, slots=True)
class ContainerInfo:
    """What the runtime knows of a container."""

    name: str
    image: str | None = None
    service: str | None = None
    started_at: float | None = None


def service_of(labels: Mapping[str, str]) -> str | None:
    """The workload a container belongs to, as its orchestrator calls it."""
    if name := labels.get("com.docker.swarm.service.name"):
        return name
    project, service = labels.get("com.docker.compose.project"), labels.get("com.docker.compose.service")
    if project and service:
        return f"{project}/{service}"
    namespace, pod = labels.get("io.kubernetes.pod.namespace"), labels.get("io.kubernetes.pod.name")
    return f"{namespace}/{pod}" if namespace and pod else None


def parse_listing(body: bytes) -> Iterator[tuple[str, ContainerInfo]]:
    """Id and description of each container in an answer to `GET /containers/json`."""
    for entry in json.loads(body):
        names = entry.get("Names") or [entry["Id"][:12]]
        yield (
            entry["Id"],
            ContainerInfo(
                # A legacy link is listed as another name with one more slash; the own name is the shortest.
                name=min(names, key=lambda name: name.count("/")).removeprefix("/"),
                image=entry.get("Image"),
                service=service_of(entry.get("Labels") or {}),
            ),
        )


def apply_event(known: dict[str, ContainerInfo], event: Mapping[str, Any]) -> None:
    """Bring `known` up to date with one line of `GET /events`."""
    container_id = event["Actor"]["ID"]
    attributes: Mapping[str, str] = event["Actor"].get("Attributes") or {}
    match event.get("Action"):
        case "start":
            known[container_id] = ContainerInfo(
                name=attributes.get("name", container_id[:12]),
                image=attributes.get("image"),
                service=service_of(attributes),
                started_at=event.get("timeNano", 0) / 1e9 or None,
            )
        case "rename" if container_id in known:
            old = known[container_id]
            known[container_id] = ContainerInfo(
                attributes.get("name", old.name), old.image, old.service, old.started_at
            )
        case "destroy":
            known.pop(container_id, None)


class DockerNames:
    """Keeps the names of all containers; `run` does so for as long as it is not cancelled."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._known: dict[str, ContainerInfo] = {}
        self.gap: Gap | None = None
        """Set while the engine cannot be asked."""
        self.listed = asyncio.Event()
        """Set when the engine has answered, or has been found absent, for the first time."""

    def get(self, container_id: str) -> ContainerInfo | None:
        return self._known.get(container_id)

    async def run(self) -> None:
        failures = 0
        while True:
            try:
                await self._watch()
                failures = 0
            except (OSError, aiohttp.ClientError, ValueError, KeyError) as error:
                self._lost(error)
            self.listed.set()
            await asyncio.sleep(_RETRY_SECONDS[min(failures, len(_RETRY_SECONDS) - 1)])
            failures += 1

    async def _watch(self) -> None:
        connector = aiohttp.UnixConnector(path=str(self._socket))
        async with aiohttp.ClientSession("http://engine", connector=connector) as session:
            # Listen first, then list: what starts in between is in both, and nothing is in neither.
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
            filters = {"filters": json.dumps(_EVENTS)}
            async with session.get(
                "/events", params=filters, timeout=timeout, raise_for_status=True
            ) as events:
                listing = await self._list(session)
                self._known = {
                    **listing,
                    **{k: v for k, v in self._known.items() if k in listing and v.started_at},
                }
                self._found()
                async for line in events.content:
                    apply_event(self._known, json.loads(line))
        raise ConnectionResetError("the engine closed the stream of events")

    async def _list(self, session: aiohttp.ClientSession) -> dict[str, ContainerInfo]:
        async with session.get("/containers/json", raise_for_status=True) as answer:
            return dict(parse_listing(await answer.read()))

    def _found(self) -> None:
        if self.gap is not None:
            log.info("docker: the engine at %s answers again", self._socket)
        self.gap = None
        self.listed.set()

    def _lost(self, error: Exception) -> None:
        if self.gap is None:
            self.gap = Gap("container names", f"{_reason(error, self._socket)}; containers go by their ids")
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
        case _:
            return f"the Docker engine at {socket} does not answer ({str(cause) or type(cause).__name__})"

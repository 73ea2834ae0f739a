"""Sends requests to containers, and collects the response times of each until they are reported.

A label says which port of a container to probe; the engine knows its address.
"""

import asyncio
import logging
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import msgspec

from agent.features.probing.settings import ProbeConfig
from agent.sources.docker import ContainerInfo
from wire.address import Address, parse_ip
from wire.errors import INVALID_JSON
from wire.messages import MAX_PROBED_CONTAINERS, PROBE_LABEL, ContainerProbe
from wire.sketch import Sketch

log = logging.getLogger(__name__)

_REPORT_SECONDS = 10.0
"""Time between two reports of response times."""
_MAX_CONTAINERS = 50
"""Maximum number of containers that are probed."""
_ENGINE_TIMEOUT_SECONDS = 5.0
_LOOKUP_INTERVAL_SECONDS = 10.0
"""Minimum time between two lookups of the address of a container that fails."""
_MAX_BODY_BYTES = 64 << 10
"""Maximum number of bytes that are read of a response."""
_SERVER_ERROR = 500
"""Lowest status that is a failure of the service."""
_LABEL = re.compile(r"(?P<port>\d{1,5})(?P<path>/[!-~]*)?")
_MAX_PORT = 65_535
_MAX_PATH_LENGTH = 512
_LOOPBACK = "127.0.0.1"


@dataclass(slots=True)
class _ProbedContainer:
    """A container that is probed, from its start until it ends."""

    id: str
    info: ContainerInfo
    port: int
    path: str
    lookup: tuple[str | None, float] | None = None
    """Its address, None if the host cannot reach it, and when the engine was asked for it."""
    is_busy: bool = False
    """A request is pending: one at a time, so that a slow container does not get more load."""


class ContainerProber:
    """Probes the containers of the host while `run` runs."""

    def __init__(
        self,
        running: Callable[[], Iterable[tuple[str, ContainerInfo]]],
        socket: Path,
        config: ProbeConfig,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._running, self._socket, self._config, self._clock = running, socket, config, clock
        self._probed: dict[str, _ProbedContainer] = {}
        self._times: dict[str, tuple[Sketch, int]] = {}
        """Response times per container since the last report, and how many requests failed."""
        self._taken_at = clock()

    def take(self) -> tuple[ContainerProbe, ...]:
        """Return the response times that are due in a report; none before it is time."""
        now = self._clock()
        if now - self._taken_at < _REPORT_SECONDS:
            return ()
        self._taken_at = now
        taken, self._times = self._times, {}
        return tuple(
            ContainerProbe(container=name, seconds=sketch, failed=failures)
            for name, (sketch, failures) in sorted(taken.items())
        )

    def add(self, container: str, seconds: float, *, failed: bool) -> None:
        """Add one request; a failed one counts with its timeout."""
        if container not in self._times and len(self._times) >= MAX_PROBED_CONTAINERS:
            return
        sketch, failures = self._times.get(container, (Sketch(), 0))
        sketch.add(seconds)
        self._times[container] = sketch, failures + failed

    async def run(self) -> None:
        timeout = aiohttp.ClientTimeout(total=self._config.timeout_seconds)
        # A new connection per request, as most clients of a load-balanced service have.
        connector = aiohttp.TCPConnector(force_close=True, limit=_MAX_CONTAINERS)
        engine_connector = aiohttp.UnixConnector(path=str(self._socket))
        async with (
            # Responses are only timed: they are not decompressed, and no cookie is stored.
            aiohttp.ClientSession(
                connector=connector,
                timeout=timeout,
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
            ) as session,
            aiohttp.ClientSession("http://engine", connector=engine_connector) as engine,
            asyncio.TaskGroup() as group,
        ):
            while True:
                self._update_containers()
                for each in self._probed.values():
                    if not each.is_busy:
                        each.is_busy = True
                        group.create_task(self._probe(session, engine, each))
                await asyncio.sleep(self._config.interval_seconds)

    def _update_containers(self) -> None:
        before, self._probed = self._probed, {}
        for container, info in self._running():
            target = parse_target(info.labels.get(PROBE_LABEL, ""))
            if target is None or len(self._probed) >= _MAX_CONTAINERS:
                continue
            probed = before.get(container)
            # After a restart, another container may have the address.
            if probed is None or probed.info.started_at != info.started_at:
                probed = _ProbedContainer(container, info, *target)
            probed.info, (probed.port, probed.path) = info, target
            self._probed[container] = probed

    async def _probe(
        self, session: aiohttp.ClientSession, engine: aiohttp.ClientSession, probed: _ProbedContainer
    ) -> None:
        try:
            if probed.lookup is None:
                probed.lookup = await _look_up_address(engine, probed.id), self._clock()
            address, made_at = probed.lookup
            if address is None:
                return
            seconds, failed = await self._get(session, Address(address, probed.port).url + probed.path)
            self.add(probed.id, seconds, failed=failed)
            if failed and self._clock() - made_at >= _LOOKUP_INTERVAL_SECONDS:
                probed.lookup = None
        except (aiohttp.ClientError, OSError, TimeoutError, *INVALID_JSON) as error:
            log.debug("the engine does not describe container %s: %s", probed.id, error)
        finally:
            probed.is_busy = False

    async def _get(self, session: aiohttp.ClientSession, url: str) -> tuple[float, bool]:
        """Return the duration of a request, the timeout if it failed, and whether it failed."""
        began = self._clock()
        try:
            # A redirect could lead to another host.
            async with session.get(url, allow_redirects=False) as response:
                await response.content.read(_MAX_BODY_BYTES)
                if response.status < _SERVER_ERROR:
                    return self._clock() - began, False
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            log.debug("probe of %s failed: %s", url, error)
        return self._config.timeout_seconds, True


async def _look_up_address(engine: aiohttp.ClientSession, container: str) -> str | None:
    """Return an address of a container on the host itself or on one of its bridges; None if it has none."""
    for address, network in parse_addresses(await _read(engine, f"/containers/{container}/json")):
        if network is None or is_bridge(await _read(engine, f"/networks/{network}")):
            return address
    return None


async def _read(engine: aiohttp.ClientSession, path: str) -> bytes:
    timeout = aiohttp.ClientTimeout(total=_ENGINE_TIMEOUT_SECONDS)
    async with engine.get(path, timeout=timeout, raise_for_status=True) as response:
        return await response.read()


# --- Labels and descriptions --------------------------------------------------------------------


def parse_target(label: str) -> tuple[int, str] | None:
    """Port and path, from a label such as `8080` or `8080/health`; None if it is invalid."""
    found = _LABEL.fullmatch(label.strip())
    if found is None or len(found["path"] or "") > _MAX_PATH_LENGTH:
        return None
    port = int(found["port"])
    return (port, found["path"] or "/") if 0 < port <= _MAX_PORT else None


class _Endpoint(msgspec.Struct, frozen=True):
    address: str = msgspec.field(name="IPAddress", default="")
    network: str = msgspec.field(name="NetworkID", default="")


class _NetworkSettings(msgspec.Struct, rename="pascal", frozen=True):
    networks: dict[str, _Endpoint] = {}


class _HostConfig(msgspec.Struct, rename="pascal", frozen=True):
    network_mode: str = ""


class _Inspected(msgspec.Struct, rename="pascal", frozen=True):
    network_settings: _NetworkSettings = _NetworkSettings()
    host_config: _HostConfig = _HostConfig()


class _Network(msgspec.Struct, rename="pascal", frozen=True):
    driver: str = ""


def parse_addresses(body: bytes) -> list[tuple[str, str | None]]:
    """Return the addresses of a container, and their networks, from `GET /containers/{id}/json`.

    With host networking, its address is the loopback address, without a network. Raise `MsgspecError`.
    """
    inspected = msgspec.json.decode(body, type=_Inspected)
    networks = inspected.network_settings.networks
    if inspected.host_config.network_mode == "host" or "host" in networks:
        return [(_LOOPBACK, None)]
    found: list[tuple[str, str | None]] = []
    for _, each in sorted(networks.items()):
        address = parse_ip(each.address)
        if address is None or address.is_loopback or address.is_link_local or address.is_multicast:
            continue
        if each.network:
            found.append((str(address), each.network))
    return found


def is_bridge(body: bytes) -> bool:
    """Whether `GET /networks/{id}` describes a bridge of this host. Raise `MsgspecError`.

    The host has no route to addresses in an overlay: a request to one may reach another machine.
    """
    return msgspec.json.decode(body, type=_Network).driver == "bridge"

"""Sends requests to containers, and collects the response times per service until they are reported."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import aiohttp

from agent.config import ProbeConfig
from agent.probing.targets import ProbeTarget, is_bridge, parse_addresses, parse_target
from agent.sources.docker import ContainerInfo
from wire.errors import INVALID_JSON
from wire.messages import MAX_NAME_LENGTH, MAX_PROBED_SERVICES, PROBE_LABEL, ServiceProbe
from wire.sketch import Sketch

log = logging.getLogger(__name__)

_ENGINE_SECONDS = 5.0
_ASK_AGAIN_SECONDS = 10.0
"""After a failed request, the address of a container is asked for again, but no more often than this."""
_MAX_BODY_BYTES = 64 << 10
"""What is read of a response."""
_FAILURE = 500
"""Statuses from this one on are failures of the service."""


class Containers(Protocol):
    """The containers of the host; `DockerWatcher` implements it."""

    def running(self) -> Iterable[tuple[str, ContainerInfo]]:
        """Id and description of each container that runs."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What the engine said about a container."""

    address: str | None
    """None if it has none that the host can reach."""
    started_at: float | None
    """Of the run that it is about: after a restart, the address may be that of another container."""
    asked_at: float


@dataclass(frozen=True, slots=True)
class _Probed:
    """A container that is probed."""

    id: str
    info: ContainerInfo
    target: ProbeTarget


class ResponseTimes:
    """Response times per service since the last report. Pure."""

    def __init__(self) -> None:
        self._services: dict[str, tuple[Sketch, int]] = {}

    def add(self, service: str, seconds: float, *, failed: bool) -> None:
        """Count one request; a failed one counts with the time that it may take at most."""
        name = service[:MAX_NAME_LENGTH]
        if name not in self._services and len(self._services) >= MAX_PROBED_SERVICES:
            return
        sketch, failures = self._services.get(name, (Sketch(), 0))
        sketch.add(seconds)
        self._services[name] = sketch, failures + failed

    def take(self) -> tuple[ServiceProbe, ...]:
        """Return what was counted since the last call."""
        taken, self._services = self._services, {}
        return tuple(
            ServiceProbe(service=name, seconds=sketch, failed=failures)
            for name, (sketch, failures) in sorted(taken.items())
        )


class ContainerProber:
    """Probes the containers of the host while `run` runs."""

    def __init__(
        self,
        containers: Containers,
        socket: Path,
        config: ProbeConfig,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._containers, self._socket, self._config, self._clock = containers, socket, config, clock
        self._known: dict[str, _Known] = {}
        """By container."""
        self._busy: set[str] = set()
        """Containers with a request that is not answered: one at a time, so that a probe adds no load."""
        self._times = ResponseTimes()
        self._taken_at = clock()

    def take(self) -> tuple[ServiceProbe, ...]:
        """Return the response times that are due in a report; none before `report_seconds` have passed."""
        now = self._clock()
        if now - self._taken_at < self._config.report_seconds:
            return ()
        self._taken_at = now
        return self._times.take()

    async def run(self) -> None:
        timeout = aiohttp.ClientTimeout(total=self._config.timeout_seconds)
        # A new connection per request, as a client that was balanced to this container has.
        connector = aiohttp.TCPConnector(force_close=True, limit=self._config.max_containers)
        engine = aiohttp.UnixConnector(path=str(self._socket))
        async with (
            # Whatever a container answers is only timed: not decompressed, and no cookie is kept.
            aiohttp.ClientSession(
                connector=connector,
                timeout=timeout,
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
            ) as session,
            aiohttp.ClientSession("http://engine", connector=engine) as asking,
            asyncio.TaskGroup() as group,
        ):
            while True:
                for each in self._targets():
                    if each.id not in self._busy:
                        self._busy.add(each.id)
                        group.create_task(self._probe(session, asking, each))
                await asyncio.sleep(self._config.interval_seconds)

    def _targets(self) -> list[_Probed]:
        found: list[_Probed] = []
        for container, info in self._containers.running():
            label = info.labels.get(PROBE_LABEL)
            target = None if label is None else parse_target(label)
            if target is not None and len(found) < self._config.max_containers:
                found.append(_Probed(container, info, target))
        self._known = {
            each.id: known
            for each in found
            if (known := self._known.get(each.id)) is not None and known.started_at == each.info.started_at
        }
        return found

    async def _probe(
        self, session: aiohttp.ClientSession, asking: aiohttp.ClientSession, probed: _Probed
    ) -> None:
        try:
            address = await self._address(asking, probed)
            if address is not None:
                seconds, failed = await self._get(session, probed.target.url(address))
                self._times.add(probed.info.service or probed.info.name, seconds, failed=failed)
                known = self._known.get(probed.id)
                if failed and known is not None and self._clock() - known.asked_at >= _ASK_AGAIN_SECONDS:
                    del self._known[probed.id]
        finally:
            self._busy.discard(probed.id)

    async def _get(self, session: aiohttp.ClientSession, url: str) -> tuple[float, bool]:
        """Return how long a request took, and whether it failed: it then counts with the timeout."""
        began = self._clock()
        try:
            # A redirect could lead to another host.
            async with session.get(url, allow_redirects=False) as response:
                await response.content.read(_MAX_BODY_BYTES)
                if response.status < _FAILURE:
                    return self._clock() - began, False
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            log.debug("probe of %s failed: %s", url, error)
        return self._config.timeout_seconds, True

    async def _address(self, asking: aiohttp.ClientSession, probed: _Probed) -> str | None:
        """Return the address of a container; the engine is asked once for each run of it."""
        known = self._known.get(probed.id)
        if known is None:
            try:
                address = await _reachable_address(asking, probed.id)
            except (aiohttp.ClientError, OSError, TimeoutError, *INVALID_JSON) as error:
                log.debug("the engine does not describe container %s: %s", probed.id, error)
                return None
            known = self._known[probed.id] = _Known(address, probed.info.started_at, self._clock())
        return known.address


async def _reachable_address(asking: aiohttp.ClientSession, container: str) -> str | None:
    """Return an address of a container on the host itself or a bridge of it; None if it has none."""
    for endpoint in parse_addresses(await _read(asking, f"/containers/{container}/json")):
        if endpoint.network is None or is_bridge(await _read(asking, f"/networks/{endpoint.network}")):
            return endpoint.address
    return None


async def _read(asking: aiohttp.ClientSession, path: str) -> bytes:
    timeout = aiohttp.ClientTimeout(total=_ENGINE_SECONDS)
    async with asking.get(path, timeout=timeout, raise_for_status=True) as response:
        return await response.read()

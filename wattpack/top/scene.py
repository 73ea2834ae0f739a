"""The nodes and containers at one moment, from a report or from a collector."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Iterable, Mapping

import aiohttp
import msgspec

from agent.sampling.ticker import ticks
from wattpack.client.collector import Collector, UnavailableError, explain_unavailable, open_session
from wire.messages import Alert, ContainerPower, Gap, NodePower, Pressure, Report
from wire.resources import Quantities, Resource

_TIMEOUT = aiohttp.ClientTimeout(total=10)
UP, SUSPECT, DOWN = "up", "suspect", "down"


class _Lenient(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Ignores unknown fields: the collector may be newer."""


class Node(_Lenient, frozen=True):
    """A node."""

    name: str
    state: str = UP
    used: Quantities = Quantities()
    capacity: Quantities = Quantities()
    learned_capacities: tuple[Resource, ...] = ()
    pressure: Pressure = Pressure()
    disk_busy_ratio: float | None = None
    power: NodePower | None = None
    gaps: tuple[Gap, ...] = ()

    @property
    def node(self) -> str:
        """Its name, as of a container."""
        return self.name

    @property
    def service(self) -> None:
        """None, in place of that of a container."""


class Container(_Lenient, frozen=True):
    """A running container."""

    node: str
    id: str
    name: str
    service: str | None = None
    used: Quantities = Quantities()
    limit: Quantities = Quantities()
    pressure: Pressure = Pressure()
    power: ContainerPower | None = None


class OpenAlert(_Lenient, frozen=True):
    """An open alert of a node."""

    node: str
    resource: Resource
    evidence: str
    opened_at: float
    container: str | None = None
    name: str | None = None


class Scene(_Lenient, frozen=True):
    """All nodes, containers and alerts."""

    at: float
    nodes: tuple[Node, ...] = ()
    containers: tuple[Container, ...] = ()
    alerts: tuple[OpenAlert, ...] = ()
    problem: str | None = None
    """Why this scene is out of date; null if it is current."""


def scene_of(report: Report, alerts: Iterable[Alert] = ()) -> Scene:
    """The scene of one node, from its full report."""
    node = report.node
    parts: dict[str, Iterable[msgspec.Struct]] = {"containers": report.containers, "alerts": alerts}
    found = {
        name: [{**msgspec.to_builtins(each), "node": node} for each in every] for name, every in parts.items()
    }
    state = {} if report.state is None else msgspec.to_builtins(report.state)
    return msgspec.convert({"at": report.at, "nodes": [{**state, "name": node}], **found}, Scene)


async def remote_scenes(
    url: str, interval_seconds: float, environment: Mapping[str, str] = os.environ
) -> AsyncGenerator[Scene, None]:
    """Yield one scene per interval; if the collector does not answer, the last one with the problem."""
    last: Scene | None = None
    async with open_session(_TIMEOUT, environment) as session:
        collector = Collector(session, url.rstrip("/"))
        async for _ in ticks(interval_seconds, time.monotonic):
            try:
                last = await _fetch(collector)
            except UnavailableError as error:
                if last is None:
                    raise explain_unavailable(url, error) from None
                last = msgspec.structs.replace(last, problem=f"the collector at {url} {error}")
            yield last


async def _fetch(collector: Collector) -> Scene:
    nodes, containers, alerts = await asyncio.gather(
        collector.get_all("/v1/nodes"),
        collector.get_all("/v1/containers"),
        collector.get_all("/v1/alerts", state="open", kind="node"),
    )
    try:
        return msgspec.convert(
            {"at": time.time(), "nodes": nodes, "containers": containers, "alerts": alerts}, Scene
        )
    except msgspec.ValidationError as error:
        raise UnavailableError(f"sends an invalid response ({error})") from None

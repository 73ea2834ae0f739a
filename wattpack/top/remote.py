"""Scenes of all nodes of a collector."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Mapping

import aiohttp
import msgspec

from agent.sampling.ticker import ticks
from wattpack.client.collector import Collector
from wattpack.client.session import UnavailableError, explain_unavailable, open_session
from wattpack.top.scene import Scene

_TIMEOUT = aiohttp.ClientTimeout(total=10)


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

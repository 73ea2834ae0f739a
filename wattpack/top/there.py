"""All hosts that a collector knows, as it tells of them."""

import asyncio
import time
from collections.abc import AsyncGenerator

import aiohttp
import msgspec

from agent.sampling.ticker import ticks
from wattpack.client.collector import Collector, NoAnswerError, unanswered
from wattpack.client.questions import asking
from wattpack.top.scene import Scene

_PATIENCE = aiohttp.ClientTimeout(total=10)


async def scenes_there(url: str, interval_seconds: float) -> AsyncGenerator[Scene, None]:
    """One scene per interval; when the collector falls silent, the last one again, with the reason."""
    last: Scene | None = None
    async with asking(_PATIENCE) as session:
        collector = Collector(session, url.rstrip("/"))
        async for _ in ticks(interval_seconds, time.monotonic):
            try:
                last = await _ask(collector)
            except NoAnswerError as error:
                if last is None:
                    raise unanswered(url, error) from None
                last = msgspec.structs.replace(last, trouble=f"the collector at {url} {error}")
            yield last


async def _ask(collector: Collector) -> Scene:
    nodes, containers, alerts = await asyncio.gather(
        collector.ask_all("/v1/nodes"),
        collector.ask_all("/v1/containers"),
        collector.ask_all("/v1/alerts", state="open", kind="node"),
    )
    try:
        return msgspec.convert(
            {"at": time.time(), "nodes": nodes, "containers": containers, "alerts": alerts}, Scene
        )
    except msgspec.ValidationError as error:
        raise NoAnswerError(f"answers something else ({error})") from None

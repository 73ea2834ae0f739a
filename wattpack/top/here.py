"""This host, looked at by ourselves: no agent has to run."""

import asyncio
import socket
import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import suppress

from agent.bottlenecks.detector import Watch
from agent.config import AgentConfig
from agent.sampling.node_sample import Picture
from agent.sampling.observer import Observer
from agent.sampling.ticker import ticks
from wattpack.top.scene import Container, Node, Scene, Shortage
from wire.messages import Alert

_FIRST_LOOK_SECONDS = 1.0
_PATIENCE_WITH_THE_ENGINE_SECONDS = 2.0


async def scenes_here(config: AgentConfig, interval_seconds: float) -> AsyncGenerator[Scene, None]:
    """One scene per interval; the first comes sooner."""
    observer, watch = Observer(config), Watch(config.bottleneck)
    node = config.node or socket.gethostname()
    names = observer.names
    naming = None if names is None else asyncio.create_task(names.run())
    try:
        if names is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(names.listed.wait(), _PATIENCE_WITH_THE_ENGINE_SECONDS)
        await asyncio.to_thread(observer.look)
        await asyncio.sleep(min(_FIRST_LOOK_SECONDS, interval_seconds))
        async for _ in ticks(interval_seconds, time.monotonic):
            picture = await asyncio.to_thread(observer.look)
            assert picture is not None, "there was a look before, to compare this one with"
            watch.examine(picture)
            yield scene_of(node, picture, watch.open)
    finally:
        if naming is not None:
            naming.cancel()
            with suppress(asyncio.CancelledError):
                await naming


def scene_of(node: str, picture: Picture, alerts: Iterable[Alert]) -> Scene:
    """A picture as a scene of one node."""
    sample = picture.sample
    return Scene(
        at=sample.unix_seconds,
        nodes=(
            Node(
                name=node,
                used=sample.used,
                capacity=sample.capacity,
                learned_capacities=sample.learned_capacities,
                pressure=sample.pressure,
                disk_busy_ratio=sample.disk_busy_ratio,
                power=picture.power,
                gaps=picture.gaps,
            ),
        ),
        containers=tuple(
            Container(
                node=node,
                id=each.id,
                name=each.info.name,
                service=each.info.service,
                used=each.sample.used,
                limit=each.sample.limit,
                pressure=each.sample.pressure,
                power=each.power,
            )
            for each in picture.containers
        ),
        alerts=tuple(
            Shortage(
                node=node,
                resource=alert.resource,
                evidence=alert.evidence,
                opened_at=alert.opened_at,
                container=alert.container,
                name=alert.name,
            )
            for alert in alerts
        ),
    )

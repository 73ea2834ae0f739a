"""Scenes of this host, sampled directly: no agent has to run."""

import asyncio
import socket
import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import suppress

from agent.bottlenecks.detector import BottleneckDetector
from agent.config import AgentConfig
from agent.sampling.node_sample import NodeSample
from agent.sampling.sampler import Sampler
from agent.sampling.ticker import ticks
from wattpack.top.scene import Container, Node, OpenAlert, Scene
from wire.messages import Alert

_FIRST_INTERVAL_SECONDS = 1.0
_ENGINE_TIMEOUT_SECONDS = 2.0


async def local_scenes(config: AgentConfig, interval_seconds: float) -> AsyncGenerator[Scene, None]:
    """Yield one scene per interval; the first comes sooner."""
    sampler, detector = Sampler(config), BottleneckDetector(config.bottleneck)
    node = config.node or socket.gethostname()
    names = sampler.names
    naming = None if names is None else asyncio.create_task(names.run())
    try:
        if names is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(names.listed.wait(), _ENGINE_TIMEOUT_SECONDS)
        await asyncio.to_thread(sampler.take_sample)
        await asyncio.sleep(min(_FIRST_INTERVAL_SECONDS, interval_seconds))
        async for _ in ticks(interval_seconds, time.monotonic):
            sample = await asyncio.to_thread(sampler.take_sample)
            assert sample is not None, "the first reading was taken above"
            detector.update(sample)
            yield scene_of(node, sample, detector.open_alerts)
    finally:
        if naming is not None:
            naming.cancel()
            with suppress(asyncio.CancelledError):
                await naming


def scene_of(node: str, sample: NodeSample, alerts: Iterable[Alert]) -> Scene:
    """Convert a sample to a scene of one node."""
    rates = sample.rates
    return Scene(
        at=rates.unix_seconds,
        nodes=(
            Node(
                name=node,
                used=rates.used,
                capacity=rates.capacity,
                learned_capacities=rates.learned_capacities,
                pressure=rates.pressure,
                disk_busy_ratio=rates.disk_busy_ratio,
                power=sample.power,
                gaps=sample.gaps,
            ),
        ),
        containers=tuple(
            Container(
                node=node,
                id=each.id,
                name=each.info.name,
                service=each.info.service,
                used=each.rates.used,
                limit=each.rates.limit,
                pressure=each.rates.pressure,
                power=each.power,
            )
            for each in sample.containers
        ),
        alerts=tuple(
            OpenAlert(
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

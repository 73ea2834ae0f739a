"""Scenes of this host, sampled directly: no agent has to run."""

import asyncio
import time
from collections.abc import AsyncGenerator

from agent.bottlenecks.detector import BottleneckDetector
from agent.config import AgentConfig
from agent.main import following, full_report, node_name
from agent.sampling.sampler import Sampler
from agent.sampling.ticker import ticks
from wattpack.top.scene import Scene, scene_of

_FIRST_INTERVAL_SECONDS = 1.0


async def local_scenes(config: AgentConfig, interval_seconds: float) -> AsyncGenerator[Scene, None]:
    """Yield one scene per interval; the first comes sooner."""
    sampler, detector = Sampler(config), BottleneckDetector(config.bottleneck)
    async with following(sampler.names):
        await asyncio.to_thread(sampler.take_sample)
        await asyncio.sleep(min(_FIRST_INTERVAL_SECONDS, interval_seconds))
        async for _ in ticks(interval_seconds, time.monotonic):
            sample = await asyncio.to_thread(sampler.take_sample)
            assert sample is not None, "the first reading was taken above"
            detector.update(sample)
            yield scene_of(full_report(node_name(config), sample), detector.open_alerts)

"""Round-trip times to other nodes.

`prober` sends probe requests to the peers that the collector chose, and replies to those of peers; `endpoint`
is the UDP socket of both. `exchange` sends the results to the collector, and receives peers and keys from it.
"""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agent.features import AgentParts, Feature, StartedFeature
from agent.features.mesh.metrics import PEER_LOSS_METRICS, PEER_METRICS, collect_metrics
from agent.features.mesh.settings import MeshConfig


@asynccontextmanager
async def _start(parts: AgentParts) -> AsyncIterator[StartedFeature | None]:
    settings = parts.config.section(MeshConfig)
    if not settings.enabled:
        yield None
        return
    from agent.features.mesh.mesh import open_mesh  # noqa: PLC0415 - takes memory that most agents do not need

    async with open_mesh(parts.node, settings, parts.config.collector) as mesh:
        yield StartedFeature(
            run=mesh.run, collect_metrics=lambda: collect_metrics(mesh.peers.results(time.monotonic()))
        )


FEATURE = Feature(
    name="mesh",
    settings={"mesh": MeshConfig},
    metrics=(*PEER_METRICS, *PEER_LOSS_METRICS),
    start=_start,
)

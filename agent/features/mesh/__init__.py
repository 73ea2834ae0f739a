"""Round-trip times to other nodes.

`endpoint` sends probe requests to the peers that the collector chose, and replies to those of peers.
`exchange` sends the results to the collector, and receives peers and keys from it.
"""

import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager

from prometheus_client.core import Metric

from agent.features import AgentParts, Feature, StartedFeature
from agent.features.mesh.settings import MeshConfig
from wire.mesh import PeerResult
from wire.metrics import MetricSpec, metric_families

_ROUND_TRIP: MetricSpec[tuple[str, str, float | None]] = MetricSpec(
    name="wattpack_peer_round_trip_seconds",
    help="Round-trip time to another node over the last five minutes, in seconds.",
    labels={"peer": lambda each: each[0], "quantile": lambda each: each[1]},
    value=lambda each: each[2],
)
_LOST: MetricSpec[PeerResult] = MetricSpec(
    name="wattpack_peer_lost_ratio",
    help="Share of probes to another node without a reply over the last five minutes.",
    labels={"peer": lambda each: each.peer},
    value=lambda each: each.lost_ratio,
)


def _collect_metrics(results: Sequence[PeerResult]) -> Iterator[Metric]:
    quantiles = [
        (each.peer, quantile, seconds)
        for each in results
        for quantile, seconds in (("0.5", each.p50_seconds), ("0.95", each.p95_seconds))
    ]
    yield from metric_families([_ROUND_TRIP], quantiles)
    yield from metric_families([_LOST], results)


@asynccontextmanager
async def _start(parts: AgentParts) -> AsyncIterator[StartedFeature]:
    from agent.features.mesh.exchange import open_mesh  # noqa: PLC0415 - memory that most agents do not need

    async with open_mesh(parts.node, parts.config.section(MeshConfig), parts.config.collector) as mesh:
        yield StartedFeature(
            run=mesh.run, collect_metrics=lambda: _collect_metrics(mesh.peers.results(time.monotonic()))
        )


FEATURE = Feature(key="mesh", settings=MeshConfig, metrics=(_ROUND_TRIP, _LOST), start=_start)

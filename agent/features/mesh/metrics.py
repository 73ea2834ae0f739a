"""Metrics of the network between this node and its peers."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from prometheus_client.core import Metric

from wire.mesh import PeerResult
from wire.metrics import MetricSpec, metric_families


class _Quantile(NamedTuple):
    peer: str
    quantile: str
    seconds: float | None


def collect_metrics(results: Sequence[PeerResult]) -> Iterator[Metric]:
    """The metrics of all peers that were probed."""
    quantiles = [
        _Quantile(each.peer, quantile, seconds)
        for each in results
        for quantile, seconds in (("0.5", each.p50_seconds), ("0.95", each.p95_seconds))
    ]
    yield from metric_families(PEER_METRICS, quantiles)
    yield from metric_families(PEER_LOSS_METRICS, results)


PEER_METRICS: tuple[MetricSpec[_Quantile], ...] = (
    MetricSpec(
        name="wattpack_peer_round_trip_seconds",
        help="Round-trip time to another node over the last five minutes, in seconds.",
        labels={"peer": lambda each: each.peer, "quantile": lambda each: each.quantile},
        value=lambda each: each.seconds,
    ),
)

PEER_LOSS_METRICS: tuple[MetricSpec[PeerResult], ...] = (
    MetricSpec(
        name="wattpack_peer_lost_ratio",
        help="Share of probes to another node without a reply over the last five minutes.",
        labels={"peer": lambda each: each.peer},
        value=lambda each: each.lost_ratio,
    ),
)

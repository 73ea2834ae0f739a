"""Metrics of the network between this node and its peers."""

from dataclasses import dataclass

from agent.exposition.state import AgentState
from wire.metrics import MetricSpec


@dataclass(frozen=True, slots=True)
class PeerQuantile:
    """A quantile of the round-trip times to a peer."""

    peer: str
    quantile: str
    seconds: float | None


@dataclass(frozen=True, slots=True)
class PeerLoss:
    """Share of probes to a peer without a reply."""

    peer: str
    lost_ratio: float


def peer_quantiles(agent: AgentState) -> list[PeerQuantile]:
    """The round-trip times to each peer that was probed."""
    return [
        each
        for peer, summary in agent.peer_summaries()
        for each in (
            PeerQuantile(peer, "0.5", summary.p50_seconds),
            PeerQuantile(peer, "0.95", summary.p95_seconds),
        )
    ]


def peer_losses(agent: AgentState) -> list[PeerLoss]:
    """The lost probes to each peer that was probed."""
    return [PeerLoss(peer, summary.lost_ratio) for peer, summary in agent.peer_summaries()]


PEER_METRICS: tuple[MetricSpec[PeerQuantile], ...] = (
    MetricSpec(
        name="wattpack_peer_round_trip_seconds",
        kind="gauge",
        help="Round-trip time to another node over the last five minutes, in seconds.",
        labels={"peer": lambda each: each.peer, "quantile": lambda each: each.quantile},
        value=lambda each: each.seconds,
    ),
)

PEER_LOSS_METRICS: tuple[MetricSpec[PeerLoss], ...] = (
    MetricSpec(
        name="wattpack_peer_lost_ratio",
        kind="gauge",
        help="Share of probes to another node without a reply over the last five minutes.",
        labels={"peer": lambda each: each.peer},
        value=lambda each: each.lost_ratio,
    ),
)

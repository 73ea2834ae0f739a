"""Metrics of the agent itself: how it is doing, what it cannot see, and what it warns of."""

from dataclasses import dataclass

from agent.exposition.state import AgentState
from wire.messages import Gap
from wire.metrics import MetricSpec
from wire.resources import RESOURCES, Resource
from wire.version import __version__

AGENT_METRICS: tuple[MetricSpec[AgentState], ...] = (
    MetricSpec(
        name="wattpack_agent_build_info",
        kind="gauge",
        help="The agent that answers; always 1.",
        labels={"version": lambda _: __version__},
        value=lambda _: 1,
    ),
    MetricSpec(
        name="wattpack_agent_samples_total",
        kind="counter",
        help="Samples taken.",
        value=lambda agent: agent.samples,
    ),
    MetricSpec(
        name="wattpack_agent_sample_timestamp_seconds",
        kind="gauge",
        help="When the last sample was taken, in Unix time.",
        value=lambda agent: agent.sample.rates.unix_seconds if agent.sample else None,
    ),
    MetricSpec(
        name="wattpack_agent_missed_samples_total",
        kind="counter",
        help="Samples left out because the one before took too long.",
        value=lambda agent: agent.missed,
    ),
    MetricSpec(
        name="wattpack_agent_delivered_reports_total",
        kind="counter",
        help="Reports that the collector took.",
        value=lambda agent: agent.sender.delivered,
    ),
    MetricSpec(
        name="wattpack_agent_dropped_reports_total",
        kind="counter",
        help="Reports given up: no more room to keep them, too old, damaged, or refused for good.",
        value=lambda agent: agent.sender.dropped,
    ),
    MetricSpec(
        name="wattpack_agent_queued_reports",
        kind="gauge",
        help="Reports that wait for the collector.",
        value=lambda agent: len(agent.sender),
    ),
    MetricSpec(
        name="wattpack_agent_spool_bytes",
        kind="gauge",
        help="Room that the waiting reports take.",
        value=lambda agent: agent.sender.stored_bytes,
    ),
    MetricSpec(
        name="wattpack_agent_clock_offset_seconds",
        kind="gauge",
        help="How far the collector's clock is ahead of this node's.",
        value=lambda agent: agent.sender.clock_offset_seconds,
    ),
)


@dataclass(frozen=True, slots=True)
class AlertState:
    """Whether the node is short of a resource."""

    resource: Resource
    is_open: bool


def alert_states(agent: AgentState) -> list[AlertState]:
    """One entry per resource, whether there is an alert or not."""
    return [AlertState(resource, resource in agent.alerts) for resource in RESOURCES]


ALERT_METRICS: tuple[MetricSpec[AlertState], ...] = (
    MetricSpec(
        name="wattpack_agent_alert",
        kind="gauge",
        help="1 while the node is short of the resource, else 0.",
        labels={"resource": lambda shortage: shortage.resource},
        value=lambda shortage: shortage.is_open,
    ),
)

GAP_METRICS: tuple[MetricSpec[Gap], ...] = (
    MetricSpec(
        name="wattpack_agent_gap",
        kind="gauge",
        help="Something that the agent cannot see on this node; always 1.",
        labels={"what": lambda gap: gap.what, "why": lambda gap: gap.why},
        value=lambda _: 1,
    ),
)

"""Metrics of the agent itself, its alerts, and what it cannot measure."""

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
        help="Version of the agent, as a label. Always 1.",
        labels={"version": lambda _: __version__},
        value=lambda _: 1,
    ),
    MetricSpec(
        name="wattpack_agent_samples_total",
        kind="counter",
        help="Samples that the agent has taken.",
        value=lambda agent: agent.samples,
    ),
    MetricSpec(
        name="wattpack_agent_sample_timestamp_seconds",
        kind="gauge",
        help="Unix time of the last sample, in seconds.",
        value=lambda agent: agent.sample.rates.unix_seconds if agent.sample else None,
    ),
    MetricSpec(
        name="wattpack_agent_missed_samples_total",
        kind="counter",
        help="Samples skipped because the previous sample took too long.",
        value=lambda agent: agent.missed,
    ),
    MetricSpec(
        name="wattpack_agent_delivered_reports_total",
        kind="counter",
        help="Reports that the collector has accepted.",
        value=lambda agent: agent.sender.delivered,
    ),
    MetricSpec(
        name="wattpack_agent_dropped_reports_total",
        kind="counter",
        help="Reports that were lost: spool full, too old, damaged, or rejected by the collector.",
        value=lambda agent: agent.sender.dropped,
    ),
    MetricSpec(
        name="wattpack_agent_queued_reports",
        kind="gauge",
        help="Reports waiting to be sent to the collector.",
        value=lambda agent: len(agent.sender),
    ),
    MetricSpec(
        name="wattpack_agent_spool_bytes",
        kind="gauge",
        help="Size of the reports waiting to be sent, in bytes.",
        value=lambda agent: agent.sender.stored_bytes,
    ),
    MetricSpec(
        name="wattpack_agent_clock_offset_seconds",
        kind="gauge",
        help="Clock of the collector minus clock of this node, in seconds.",
        value=lambda agent: agent.sender.clock_offset_seconds,
    ),
)


@dataclass(frozen=True, slots=True)
class AlertState:
    """Whether an alert is open for a resource."""

    resource: Resource
    is_open: bool


def alert_states(agent: AgentState) -> list[AlertState]:
    """One entry per resource, with or without an open alert."""
    return [AlertState(resource, resource in agent.alerts) for resource in RESOURCES]


ALERT_METRICS: tuple[MetricSpec[AlertState], ...] = (
    MetricSpec(
        name="wattpack_agent_alert",
        kind="gauge",
        help="1 while the resource is a bottleneck of the node, else 0.",
        labels={"resource": lambda alert: alert.resource},
        value=lambda alert: alert.is_open,
    ),
)

GAP_METRICS: tuple[MetricSpec[Gap], ...] = (
    MetricSpec(
        name="wattpack_agent_gap",
        kind="gauge",
        help="Value that the agent cannot measure on this node (what), and the reason (why). Always 1.",
        labels={"what": lambda gap: gap.what, "why": lambda gap: gap.why},
        value=lambda _: 1,
    ),
)

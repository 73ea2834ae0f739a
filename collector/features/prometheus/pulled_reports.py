"""Create reports from the data that a pull reads from a store. Pure.

Every pull makes one heartbeat per node: its whole state, with the samples since the last pull. Older samples,
read after an outage of the collector or the store, come as a heartbeat of their own time. Sequence numbers
follow from the time, so that samples read twice make the same report, and an older report never replaces the
present state.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from collector.features.prometheus.reader import NodeTimestamps, StoredNodeState
from collector.history.interface import PULLED
from wire.messages import Alert, ContainerUsage, Heartbeat, Report
from wire.resources import ratio

Item = TypeVar("Item")

_EVIDENCE: Final = "the agent's metrics report a bottleneck"


@dataclass(frozen=True, slots=True)
class PulledNode:
    """The data of one node in one pull."""

    timestamps: NodeTimestamps
    state: StoredNodeState
    alerts: Sequence[Alert]
    """Open alerts, and those that just closed."""
    usage: Sequence[ContainerUsage] = ()
    """The usage of its containers since the last pull."""
    sample_seconds: float = 0.0
    """Interval of its samples."""


@dataclass(frozen=True, slots=True)
class Pull:
    """One pull, which turns the data of nodes into reports."""

    at: float
    """The time that was queried."""
    interval_seconds: float

    def present_report(self, node: str, found: PulledNode) -> Report:
        """A heartbeat with the present state of a node."""
        return Report(
            node=node,
            boot=PULLED,
            sequence=_sequence(self.at),
            at=found.timestamps.sampled_at,
            state=found.state.state,
            containers=found.state.containers,
            alerts=tuple(found.alerts),
            heartbeat=self._heartbeat(found.state.agent_version, found.sample_seconds, found.usage),
        )

    def past_report(
        self, node: str, until: float, sample_seconds: float, usage: Sequence[ContainerUsage]
    ) -> Report:
        """A heartbeat with the usage of the containers of a node before the last pull."""
        return Report(
            node=node,
            boot=PULLED,
            sequence=_sequence(until) - 1,
            at=until,
            heartbeat=self._heartbeat("unknown", sample_seconds, usage),
        )

    def _heartbeat(
        self, agent_version: str, sample_seconds: float, usage: Sequence[ContainerUsage]
    ) -> Heartbeat:
        # Scrapes and pulls are not in step: up to two intervals may pass between two new samples.
        return Heartbeat(
            agent_version=agent_version,
            sample_seconds=sample_seconds,
            beacon_seconds=2 * self.interval_seconds,
            usage=tuple(usage),
        )


def _sequence(at: float) -> int:
    """The sequence number of a pull: even for a present state, the odd number below for earlier usage."""
    return 2 * round(at * 1000)


def list_alerts(
    timestamps: NodeTimestamps, stored: StoredNodeState, open_alerts: Iterable[Alert]
) -> Iterator[Alert]:
    """The alerts of a heartbeat: all open ones, and those of `open_alerts` that just closed."""
    open_now = {alert.resource: alert for alert in open_alerts}
    for resource, is_short in stored.short_of.items():
        alert = open_now.get(resource)
        if is_short:
            opened_at = timestamps.sampled_at if alert is None else alert.opened_at
            used_ratio = ratio(stored.state.used, stored.state.capacity, resource)
            yield Alert(resource, opened_at, _EVIDENCE, ratio=used_ratio)
        elif alert is not None:
            yield Alert(
                resource, alert.opened_at, alert.evidence, alert.ratio, closed_at=timestamps.sampled_at
            )


def batches(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """Batches of at most `size` items."""
    for start in range(0, len(items), size):
        yield items[start : start + size]

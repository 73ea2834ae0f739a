"""What a look at the store comes to: reports, each with a key of its own. Pure.

Every look gives a heartbeat per node: the whole truth, with the samples since the look before. Samples from
longer ago, read when the collector or the store comes back, are told by a heartbeat of their time. Keys
follow from time, so what is read twice is the same report; and an older one never counts for the present.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from collector.history.prometheus.reader import PULLED, NodeTimestamps, StoredNodeState
from wire.messages import Alert, ContainerUsage, Heartbeat, Report
from wire.resources import ratio

Item = TypeVar("Item")

_EVIDENCE: Final = "the agent's own metrics say that the node is short of it"


@dataclass(frozen=True, slots=True)
class StoredNode:
    """All that a look finds of one node."""

    seen: NodeTimestamps
    told: StoredNodeState
    alerts: Sequence[Alert]
    """Those that last, or ended."""
    usage: Sequence[ContainerUsage] = ()
    """What its containers used since the look before."""
    sample_seconds: float = 0.0
    """How far its samples are apart."""


@dataclass(frozen=True, slots=True)
class StoreReading:
    """One look at the store."""

    at: float
    """The time that was asked for."""
    every_seconds: float

    def now(self, node: str, found: StoredNode) -> Report:
        """All that is known of a node."""
        return Report(
            node=node,
            boot=PULLED,
            sequence=_sequence(self.at),
            at=found.seen.sampled_at,
            state=found.told.state,
            containers=found.told.containers,
            alerts=tuple(found.alerts),
            heartbeat=self._heartbeat(found.told.agent_version, found.sample_seconds, found.usage),
        )

    def earlier(
        self, node: str, until: float, sample_seconds: float, usage: Sequence[ContainerUsage]
    ) -> Report:
        """What the containers of a node used, longer ago."""
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
        # Scrapes and looks beat out of step: twice the time between looks may pass between two that are new.
        return Heartbeat(
            agent_version=agent_version,
            sample_seconds=sample_seconds,
            beacon_seconds=2 * self.every_seconds,
            usage=tuple(usage),
        )


def _sequence(at: float) -> int:
    """Even for all that is known; the odd number below it is left for what is told late."""
    return 2 * round(at * 1000)


def alerts_of(seen: NodeTimestamps, told: StoredNodeState, known: Iterable[Alert]) -> Iterator[Alert]:
    """What lasts or ended, given the alerts of the node that are known to be open.

    What lasts is told every time, as a heartbeat does: one that it does not name is over.
    """
    open_now = {alert.resource: alert for alert in known}
    for resource, is_short in told.short_of.items():
        alert = open_now.get(resource)
        if is_short:
            opened_at = seen.sampled_at if alert is None else alert.opened_at
            used_ratio = ratio(told.state.used, told.state.capacity, resource)
            yield Alert(resource, opened_at, _EVIDENCE, ratio=used_ratio)
        elif alert is not None:
            yield Alert(resource, alert.opened_at, alert.evidence, alert.ratio, closed_at=seen.sampled_at)


def grouped(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """A few at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]

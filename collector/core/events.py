"""Events of nodes and containers, as the API lists them and as subscribers get them."""

import msgspec

from collector.web.event_stream import MAX_MESSAGES, EventStream, Topic
from wire.messages import Event, EventKind, Report, encode


class NodeEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened to a node or a container."""

    node: str
    kind: EventKind
    """What happened."""
    at: float
    container: str | None
    name: str | None
    """Name of the container; null if it is not about a container."""
    lifetime_seconds: float | None
    startup_seconds: float | None
    exit_code: int | None
    cpu_seconds_total: float | None
    """CPU time of a container that ended, up to the last sample."""
    joules_total: float | None
    """Energy that a container that ended added to the draw of its node while the agent watched it."""

    @staticmethod
    def of(node: str, event: Event) -> "NodeEvent":
        """An event that a node reported."""
        return NodeEvent(node=node, **msgspec.structs.asdict(event))


_MOST_PUBLISHED = MAX_MESSAGES // 10
"""Events of one report that subscribers get: a flood must not end all subscriptions. All are stored."""


def publish_events(stream: EventStream, report: Report) -> None:
    """Send the events of a new report to the subscribers."""
    for event in report.events[:_MOST_PUBLISHED]:
        stream.publish(Topic.EVENT, encode(NodeEvent.of(report.node, event)))

"""The bottlenecks that one node told of: which are open, and which were of late.

`(resource, opened_at)` names an alert of one run of the agent; of what was said about it, the word with the
highest sequence counts. An agent has at most one alert open per resource, tells of it again with every
heartbeat, and knows nothing of those before its own run. So one that was followed by another, that a
heartbeat does not tell of, or whose run has ended, is closed, though the word that should have said so was
lost. Then nobody knows when it was: its `closed_at` stays empty.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from wire.messages import Alert
from wire.resources import Resource

KEPT = 20
"""Alerts that are remembered per resource of a node."""


class AlertState(StrEnum):
    """Whether a bottleneck lasts."""

    OPEN = "open"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class ReportedAlert:
    """The last word about an alert."""

    node: str
    boot: str
    sequence: int
    alert: Alert


@dataclass(slots=True)
class NodeAlerts:
    """Those of one node."""

    _by_resource: dict[Resource, dict[tuple[float, str], ReportedAlert]] = field(
        default_factory=lambda: defaultdict(dict)
    )

    def take(self, said: ReportedAlert) -> None:
        """Take in what was said about an alert; late and repeated words change nothing."""
        known = self._by_resource[said.alert.resource]
        key = (said.alert.opened_at, said.boot)
        if key not in known or said.sequence > known[key].sequence:
            known[key] = said
        if len(known) > KEPT:
            del known[min(known)]

    def listed(self, boot: str, complete_until: int = 0) -> Iterator[tuple[ReportedAlert, bool]]:
        """Every alert, and whether it is open, where `boot` is the run that counts.

        A heartbeat tells of every open one: what was last said before that of `complete_until` is over.
        """
        for known in self._by_resource.values():
            latest = max((key for key, said in known.items() if said.boot == boot), default=None)
            for key, said in known.items():
                lasts = said.alert.closed_at is None and said.sequence >= complete_until
                yield said, key == latest and lasts

    def open_resources(self, boot: str, complete_until: int = 0) -> frozenset[Resource]:
        """What the node is short of now, where `boot` is the run that counts."""
        listed = self.listed(boot, complete_until)
        return frozenset(said.alert.resource for said, is_open in listed if is_open)

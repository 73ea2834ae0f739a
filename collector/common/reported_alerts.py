"""The alerts that one node reported: which are open, and which were closed recently.

`(resource, opened_at)` identifies an alert of one run of the agent; the report with the highest sequence
number counts. An agent has at most one open alert per resource, repeats it with every heartbeat, and does not
know the alerts of earlier runs. So an alert is closed if another one followed, if a heartbeat leaves it out,
or if its run ended, even when the report that closed it was lost. Its `closed_at` is then unknown.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from collector.common.report_key import ReportKey
from wire.messages import Alert
from wire.resources import Resource

KEPT = 20
"""Alerts that are kept per resource of a node."""


class AlertState(StrEnum):
    """Whether an alert is open."""

    OPEN = "open"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class ReportedAlert(ReportKey):
    """The newest report of an alert."""

    alert: Alert


@dataclass(slots=True)
class NodeAlerts:
    """The alerts of one node."""

    _by_resource: dict[Resource, dict[tuple[float, str], ReportedAlert]] = field(
        default_factory=lambda: defaultdict(dict)
    )

    def add(self, reported: ReportedAlert) -> None:
        """Add a report of an alert; late and repeated ones change nothing."""
        alerts = self._by_resource[reported.alert.resource]
        key = (reported.alert.opened_at, reported.boot)
        if key not in alerts or reported.sequence > alerts[key].sequence:
            alerts[key] = reported
        if len(alerts) > KEPT:
            del alerts[min(alerts)]

    def listed(self, boot: str, complete_until: int = 0) -> Iterator[tuple[ReportedAlert, bool]]:
        """Every alert, and whether it is open; `boot` is the present run.

        A heartbeat repeats every open alert: one last reported before `complete_until` is closed.
        """
        for alerts in self._by_resource.values():
            latest = max((key for key, each in alerts.items() if each.boot == boot), default=None)
            for key, each in alerts.items():
                is_open = each.alert.closed_at is None and each.sequence >= complete_until
                yield each, key == latest and is_open

    def open_alerts(self, boot: str, complete_until: int = 0) -> dict[Resource, Alert]:
        """The open alert of each resource that has one; `boot` is the present run."""
        listed = self.listed(boot, complete_until)
        return {each.alert.resource: each.alert for each, is_open in listed if is_open}

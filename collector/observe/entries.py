"""One node of the registry, and the entries that readers get."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from collector.analysis.usage import UsageRing
from collector.common.liveness import Liveness
from collector.common.reported_alerts import AlertState, NodeAlerts, ReportedAlert
from collector.observe.agent_run import AgentRun
from collector.observe.usage.tracker import UsageTracker
from wire.messages import Alert, Report
from wire.resources import Resource

NO_USAGE = UsageRing()
_MOST_OTHER_BOOTS = 100


@dataclass(slots=True)
class TrackedNode:
    """The state of one node in the registry."""

    run: AgentRun
    usage: UsageTracker
    first_report_at: float
    last_report_at: float
    """When the last report of any run arrived, by the collector's clock."""
    beacon_seconds: float = 0.0
    """Beacon interval, from the last heartbeat of any run."""
    alerts: NodeAlerts = field(default_factory=NodeAlerts)
    previous_boot: str = ""
    duplicate_at: float = 0.0
    """When the collector last noticed that two agents report under this name."""
    _other_boots: dict[str, None] = field(default_factory=dict)
    """Runs on another machine of the same name, which are refused."""

    @property
    def machine(self) -> str | None:
        """The machine of the present run; None if it is unknown."""
        return None if self.run.heartbeat is None else self.run.heartbeat.value.machine

    @property
    def sample_seconds(self) -> float:
        """Time between two samples of its agent; a second if it does not report it."""
        heartbeat = self.run.heartbeat
        return (0.0 if heartbeat is None else heartbeat.value.sample_seconds) or 1.0

    def is_other_machine(self, report: Report) -> bool:
        """Whether a report of another run comes from another machine than this node."""
        if report.heartbeat is not None and report.heartbeat.machine != self.machine:
            self._other_boots[report.boot] = None
            if len(self._other_boots) > _MOST_OTHER_BOOTS:
                del self._other_boots[next(iter(self._other_boots))]
            return True
        return report.boot in self._other_boots

    def open_alerts(self) -> dict[Resource, Alert]:
        return self.alerts.open_alerts(self.run.boot, self.run.complete_until)


@dataclass(frozen=True, slots=True)
class NodeEntry:
    """A node and its containers at this moment. Do not keep it: the registry changes what it refers to."""

    name: str
    liveness: Liveness
    last_report_at: float
    """By the collector's clock."""
    run: AgentRun
    tracker: UsageTracker

    @property
    def usage(self) -> Mapping[str, UsageRing]:
        """The usage of its containers, by id."""
        return self.tracker.current()

    def usage_of(self, container: str) -> UsageRing:
        """The usage of one of its containers, by id; empty before its first histogram arrives."""
        return self.tracker.current_of(container) or NO_USAGE


@dataclass(frozen=True, slots=True)
class AlertEntry:
    """An alert that a node reported."""

    reported: ReportedAlert
    state: AlertState
    liveness: Liveness
    """Liveness of the node."""


_MAX_ENDED = 10_000
"""Services without containers whose energy is kept, so that it goes on when they run again."""


@dataclass(frozen=True, slots=True)
class ServicePower:
    """A service with containers that report power."""

    service: str
    watts: float
    joules_total: float


class ServiceEnergy:
    """Adds up the power of services over time, since the collector started."""

    def __init__(self) -> None:
        self._at: float | None = None
        self._watts: Mapping[str, float] = {}
        self._joules: dict[str, float] = {}

    def update(self, watts: Mapping[str, float], now: float) -> list[ServicePower]:
        """Count the time since the last update at the power set then; `watts` is the power from now on."""
        seconds = 0.0 if self._at is None else max(0.0, now - self._at)
        for service, before in self._watts.items():
            self._joules[service] = self._joules.get(service, 0.0) + before * seconds
        self._at, self._watts = now, dict(watts)
        if len(self._joules) > len(watts) + _MAX_ENDED:
            self._joules = {service: self._joules.get(service, 0.0) for service in watts}
        return [ServicePower(name, each, self._joules.get(name, 0.0)) for name, each in watts.items()]

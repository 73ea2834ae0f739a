"""What the agent knows at this moment, for whoever asks."""

from agent.delivery.sender import ReportSender
from agent.sampling.node_sample import NodeSample
from wire.messages import Alert
from wire.resources import Resource


class AgentState:
    """The last picture, the bottlenecks there are, and how the agent is doing itself."""

    def __init__(self, sender: ReportSender) -> None:
        self.sample: NodeSample | None = None
        self.alerts: dict[Resource, Alert] = {}
        """Those that are open."""
        self.samples = 0
        self.missed = 0
        self.sender = sender

    def note(self, alert: Alert) -> None:
        """Keep what an alert says."""
        if alert.closed_at is None:
            self.alerts[alert.resource] = alert
        else:
            self.alerts.pop(alert.resource, None)

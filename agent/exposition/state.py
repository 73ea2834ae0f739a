"""The agent's current state, for `/metrics`."""

import time
from typing import TYPE_CHECKING

from agent.delivery.sender import ReportSender
from agent.sampling.node_sample import NodeSample
from wire.messages import Alert
from wire.resources import Resource

if TYPE_CHECKING:
    from agent.mesh.mesh import Mesh
    from agent.mesh.window import Summary
    from agent.probing.prober import ContainerProber


class AgentState:
    """The last sample, the open alerts, and counters of the agent itself."""

    def __init__(self, sender: ReportSender) -> None:
        self.sample: NodeSample | None = None
        self.alerts: dict[Resource, Alert] = {}
        """Open alerts."""
        self.samples = 0
        self.missed = 0
        self.sender = sender
        self.mesh: Mesh | None = None
        """None if the mesh is off."""
        self.prober: ContainerProber | None = None
        """None if containers are not probed."""

    def peer_summaries(self) -> "list[tuple[str, Summary]]":
        """The results of probes, by the name of the peer."""
        return [] if self.mesh is None else self.mesh.peers.summaries(time.monotonic())

    def update_alert(self, alert: Alert) -> None:
        """Add an open alert, or remove a closed one."""
        if alert.closed_at is None:
            self.alerts[alert.resource] = alert
        else:
            self.alerts.pop(alert.resource, None)

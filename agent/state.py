"""What the agent knows at this moment, for whoever asks."""

from agent.deliver import Outbox
from wire.messages import Report


class AgentState:
    """What the agent knows now: the last report, and how it is doing itself."""

    def __init__(self, outbox: Outbox) -> None:
        self.report: Report | None = None
        self.samples = 0
        self.missed = 0
        self.outbox = outbox

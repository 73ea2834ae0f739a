"""What the agent makes of the engine's words."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class ContainerInfo:
    """What the runtime knows of a container."""

    name: str
    image: str | None = None
    service: str | None = None
    """The workload that it belongs to, as its orchestrator calls it."""
    started_at: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    restarts: int | None = None
    """How often it was started again under the same id, since the agent has known it.

    The engine's own count is not in its list, and asking for each container would cost it more than
    the agent may; a count from the agent's start on is enough to see a crash loop.
    """
    startup_seconds: float | None = None
    """From the order to make it to the moment it ran, where the agent heard both."""


@dataclass(frozen=True, slots=True)
class RuntimeEvent:
    """Something that the engine did with a container, or saw happen to it."""

    kind: Literal["start", "die", "oom"]
    container_id: str
    name: str
    unix_seconds: float
    startup_seconds: float | None = None
    exit_code: int | None = None

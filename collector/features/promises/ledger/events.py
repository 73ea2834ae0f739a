"""Lifecycle events of instances: from agents, drivers, the collector's own queue, or recorded logs."""

from dataclasses import dataclass
from enum import StrEnum


class LifecycleKind(StrEnum):
    """What happened to an incarnation, or to its instance."""

    WAITING = "waiting"
    """The incarnation was created and does not run yet."""
    STARTED = "started"
    """The incarnation runs from then on."""
    ENDED = "ended"
    """The incarnation no longer runs. Its instance waits for the next one from then on, unless it is a
    completed batch instance."""
    WITHDRAWN = "withdrawn"
    """The instance is no longer wanted: its service was scaled down or removed."""


class Ending(StrEnum):
    """Why an incarnation ended."""

    COMPLETED = "completed"
    """It exited by itself, with success."""
    FAILED = "failed"
    PREEMPTED = "preempted"
    """It was stopped to make room for another."""
    LOST = "lost"
    """Its node is silent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleEvent:
    """A lifecycle event of an instance.

    An incarnation is one container, task or pod; an instance is all incarnations of one slot.
    """

    at: float
    """Unix time by the collector's clock."""
    kind: LifecycleKind
    service: str
    incarnation: str = ""
    """The id of the incarnation; may be empty for a withdrawal that names its `slot`."""
    slot: str | None = None
    """The slot of the instance, unique within the service; None if the source does not name it."""
    node: str | None = None
    startup_seconds: float | None = None
    """Time that the start took, from the choice of a node until the container ran; None if unknown."""
    ending: Ending | None = None
    """The reason of `ENDED`; None if unknown."""

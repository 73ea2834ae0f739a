"""Events in the life of an instance: from agents, drivers, the collector's own queue, or recorded logs."""

from dataclasses import dataclass
from enum import StrEnum


class LifecycleKind(StrEnum):
    """What happened to an incarnation, or to its instance."""

    WAITING = "waiting"
    """It was created and does not run yet."""
    STARTED = "started"
    """It runs from then on."""
    ENDED = "ended"
    """It no longer runs. Its instance waits for the next incarnation from then on, unless it is a completed
    batch instance."""
    WITHDRAWN = "withdrawn"
    """The instance is no longer wanted: its service was scaled down or removed."""


class Ending(StrEnum):
    """Why an incarnation ended."""

    COMPLETED = "completed"
    """By itself, with success."""
    FAILED = "failed"
    PREEMPTED = "preempted"
    """It was stopped to make room for others."""
    LOST = "lost"
    """Its node is silent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleEvent:
    """One event.

    An incarnation is one container, task or pod; an instance is all incarnations of one slot.
    """

    at: float
    """Unix time by the collector's clock."""
    kind: LifecycleKind
    service: str
    incarnation: str = ""
    """Its id; may be empty if `slot` names the instance of a withdrawal."""
    slot: str | None = None
    """The slot that the source names, unique within the service; None if it names none."""
    node: str | None = None
    startup_seconds: float | None = None
    """Time that the start took, from the choice of a node until the container ran; None if unknown."""
    ending: Ending | None = None
    """Of `ENDED`; None if unknown."""

"""Lifecycle events of instances: from agents, drivers, the collector's own queue, or recorded logs."""

from enum import StrEnum

import msgspec


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


class Transition(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What happened to an incarnation of an instance: one container, task or pod."""

    at: float
    """Unix time by the collector's clock."""
    kind: LifecycleKind
    incarnation: str = ""
    """Its id; may be empty for a withdrawal that names its slot."""
    node: str = ""
    """Empty if unknown."""
    startup_seconds: float | None = None
    """Time that the start took, from the choice of a node until the container ran; None if unknown."""
    ending: Ending | None = None
    """The reason of `ENDED`; None if unknown."""


class LifecycleEvent(Transition, frozen=True, array_like=True, gc=False, kw_only=True):
    """A transition, and the instance that it is about: all incarnations of one slot of a service."""

    service: str
    slot: str | None = None
    """Unique within the service; None if the source does not name it."""

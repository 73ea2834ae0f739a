"""How long actions took on this cluster, by the journal: what moves and switching cost follows from it."""

import msgspec


class Experience(msgspec.Struct, frozen=True):
    """Mean times that carried-out actions took, until the orchestrator had completed them."""

    move_seconds: float | None = None
    """Of the moves of all services; None before the first one."""
    move_seconds_of: dict[str, float] = {}
    """Of the moves of single services."""
    boot_seconds: float = 0.0
    """From the command that switches a node on until it is ready."""
    shutdown_seconds: float = 0.0
    """From the drain of a node until it is off."""
    on_since: dict[str, float] = {}
    """Unix time at which a node was last switched on, by its name."""


NO_EXPERIENCE = Experience()

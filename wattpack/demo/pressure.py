"""The pressure of the demo's nodes and containers, from their load. Pure."""

from wire.messages import Pressure

CROWDED_RATIO = 0.7
"""CPU usage of a node above which tasks wait for a core."""
_BUSY_RATIO, _NEAR_LIMIT_RATIO = 0.5, 0.8


def node_pressure(cpu_ratio: float, disk_busy_ratio: float) -> Pressure:
    """Pressure of a node, by the use of its cores and the share of time that its disk is active."""
    cpu = min(0.9, 2.2 * max(0.0, cpu_ratio - CROWDED_RATIO))
    return Pressure(round(cpu, 4), 0.0, round(0.6 * max(0.0, disk_busy_ratio - _BUSY_RATIO), 4))


def container_pressure(cpu_cores: float, limit_cores: float | None) -> Pressure:
    """Pressure of a container, by the cores that it uses and may use."""
    return Pressure(
        round(min(1.0, max(0.0, cpu_cores / (limit_cores or 1.0) - _NEAR_LIMIT_RATIO)), 4), 0.0, 0.0
    )

"""When a resource of the node is a bottleneck."""

from typing import Annotated

from msgspec import Meta

from agent.config.section import Section


class BottleneckConfig(Section, frozen=True):
    """When a resource of the node is a bottleneck. A limit of 0 disables its check."""

    cpu_ratio: Annotated[
        float, Meta(ge=0, le=1, description="Limit of CPU usage, as a share of all cores.")
    ] = 0.9
    memory_ratio: Annotated[
        float, Meta(ge=0, le=1, description="Limit of memory usage, as a share of all memory.")
    ] = 0.9
    disk_ratio: Annotated[
        float, Meta(ge=0, le=1, description="Limit of the share of time that the busiest disk is active.")
    ] = 0.9
    iowait_ratio: Annotated[
        float, Meta(ge=0, le=1, description="Limit of the share of CPU time spent waiting for disks.")
    ] = 0.3
    network_ratio: Annotated[
        float, Meta(ge=0, le=1, description="Limit of network traffic, as a share of the link speed.")
    ] = 0.9
    cpu_pressure_ratio: Annotated[
        float, Meta(ge=0, le=1, description="Limit of the share of time that tasks wait for a CPU (PSI).")
    ] = 0.6
    memory_pressure_ratio: Annotated[
        float, Meta(ge=0, le=1, description="Limit of the share of time that tasks wait for memory (PSI).")
    ] = 0.2
    disk_pressure_ratio: Annotated[
        float, Meta(ge=0, le=1, description="Limit of the share of time that tasks wait for a disk (PSI).")
    ] = 0.5
    samples: Annotated[
        int,
        Meta(ge=1, le=1000, description="Consecutive samples above a limit that open an alert."),
    ] = 4
    hysteresis_points: Annotated[
        float,
        Meta(
            ge=0,
            le=100,
            description="Distance from the limit at which an alert closes, in percentage points: all values"
            " must be lower by this much for `samples` consecutive samples.",
        ),
    ] = 10.0

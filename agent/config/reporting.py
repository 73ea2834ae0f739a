"""What is reported, and when: thresholds and intervals."""

from typing import Annotated

from msgspec import Meta

from agent.config.section import Section


class ReportingConfig(Section, frozen=True):
    """When a report is sent to the collector, and what it contains."""

    host_window_seconds: Annotated[
        float, Meta(gt=0, le=3600, description="Window over which samples of the host are averaged.")
    ] = 30.0
    container_window_seconds: Annotated[
        float, Meta(gt=0, le=3600, description="Window over which samples of a container are averaged.")
    ] = 45.0
    threshold_points: Annotated[
        float,
        Meta(
            ge=0,
            le=100,
            description="Change that causes a report: percentage points of the host's capacity, or of the"
            " container's limit, since the last reported window. 0 reports every window.",
        ),
    ] = 10.0
    beacon_seconds: Annotated[
        float,
        Meta(
            ge=1,
            le=3600,
            description="Maximum time between two reports. If nothing changed, an empty report shows that the"
            " node is up.",
        ),
    ] = 30.0
    heartbeat_seconds: Annotated[
        float,
        Meta(
            ge=1,
            le=86_400,
            description="Time between two full reports, with all containers and a histogram of all samples.",
        ),
    ] = 300.0
    top_containers: Annotated[
        int,
        Meta(
            ge=0,
            le=100,
            description="Number of containers with the highest usage in each heartbeat, per resource.",
        ),
    ] = 3

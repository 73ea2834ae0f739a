"""Settings of `qos-driven`."""

from typing import Annotated

from msgspec import Meta

from collector.policies.interface import STALE_SECONDS, PolicySettings

_YEAR_SECONDS = 366 * 86_400.0


class QueueSettings(PolicySettings, frozen=True):
    """Settings of every policy that passes over the queue."""

    stale_seconds: Annotated[
        float,
        Meta(
            gt=0,
            le=_YEAR_SECONDS,
            description="Maximum age of a node's last report for starts and stops on it.",
        ),
    ] = STALE_SECONDS
    sample_ratio: Annotated[
        float,
        Meta(
            gt=0,
            le=1,
            description="Share of all nodes with room after which the search for more ends. Less than 1 saves"
            " checks, and spreads containers less evenly.",
        ),
    ] = 1.0


class QosSettings(QueueSettings, frozen=True):
    """Settings of `qos-driven`."""

    margin_seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=_YEAR_SECONDS,
            description="Safety margin: a container that can wait less than this before its promise breaks is"
            " stopped only for one that is more important, or that is equally important and more urgent.",
        ),
    ] = 10.0
    limits_overhead: Annotated[
        bool,
        Meta(
            description="Whether a container whose starts took all the time that its promise leaves (a tenth"
            " for a promise of 0.9) is no longer stopped for others of the same or lower importance."
        ),
    ] = True
    exact: Annotated[
        bool,
        Meta(
            description="Whether to use the rules of the study as published: without a minimum wait and run,"
            " containers are exchanged about every period."
        ),
    ] = False

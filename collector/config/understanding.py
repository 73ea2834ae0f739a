"""How containers and services are made out."""

from typing import Annotated

from msgspec import Meta

from collector.config.section import Section
from wire.resources import Resource


class EnvelopeConfig(Section, frozen=True):
    """What a container is reckoned to need, from the histograms of all its samples.

    One percentile for all resources is wrong: CPU is shared smoothly, memory kills who runs out of it, disk
    and network are used in bursts.
    """

    cpu: Annotated[
        float, Meta(gt=0, le=1, description="The share of time in which its need of CPU is not exceeded.")
    ] = 0.90
    memory: Annotated[float, Meta(gt=0, le=1, description="Likewise of memory.")] = 0.99
    disk: Annotated[float, Meta(gt=0, le=1, description="Likewise of disk bandwidth.")] = 0.90
    network: Annotated[float, Meta(gt=0, le=1, description="Likewise of network bandwidth.")] = 0.97
    bursts: Annotated[
        tuple[Resource, ...],
        Meta(
            description="Of these resources not that percentile stands for the need, but the mean of what "
            "lies above it: how large bursts are, not only how rare."
        ),
    ] = (Resource.DISK, Resource.NETWORK)
    window_hours: Annotated[
        float,
        Meta(ge=8, le=24, description="Samples before this are forgotten, in steps of eight hours."),
    ] = 24.0
    half_life_hours: Annotated[
        float, Meta(gt=0, le=24 * 366, description="After so long a sample counts half.")
    ] = 24.0


class AnalysisConfig(Section, frozen=True):
    """How often the whole cluster is thought through, and what of it is kept."""

    period_seconds: Annotated[
        float,
        Meta(ge=1, le=86_400, description="How often services and classes are made out anew."),
    ] = 60.0
    anew_seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=86_400,
            description="How often that goes over every container, and not only over those that were heard of"
            " since; 0 means every time.",
        ),
    ] = 3600.0
    watch_seconds: Annotated[
        float,
        Meta(ge=1, le=3600, description="How often bottlenecks are looked for that no single node can see."),
    ] = 10.0
    classes: Annotated[
        int,
        Meta(
            ge=0,
            le=8,
            description="How many classes of containers there are; 0 means as many as set them apart best.",
        ),
    ] = 4
    profile_seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=30 * 86_400,
            description="A service is known once its containers were watched for so long, together.",
        ),
    ] = 600.0
    forget_services_after_days: Annotated[
        float,
        Meta(gt=0, le=366, description="A known service that did not run for so long is a stranger again."),
    ] = 30.0

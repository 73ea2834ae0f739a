"""Liveness of nodes, envelopes, analysis, and the price and emissions of energy."""

from typing import Annotated, ClassVar

from msgspec import Meta

from wire.resources import Resource
from wire.settings import Section


class LivenessConfig(Section, frozen=True):
    """When a node is suspect, down, or no longer listed."""

    down_after_beacons: Annotated[
        float,
        Meta(
            gt=0,
            le=1000,
            description="Beacon intervals without a report before a node is down. After half of them it is"
            " suspect.",
        ),
    ] = 4.0
    forget_after_hours: Annotated[
        float,
        Meta(gt=0, le=24 * 366, description="Time without a report before a node is no longer listed."),
    ] = 6.0


class EnvelopeConfig(Section, frozen=True):
    """The expected need of a container, from the histograms of its samples.

    Each resource has its own percentile: CPU is shared smoothly, a container that runs out of memory is
    killed, disk and network are used in bursts.
    """

    cpu: Annotated[
        float, Meta(gt=0, le=1, description="Percentile of CPU usage that counts as the need of a container.")
    ] = 0.90
    memory: Annotated[
        float,
        Meta(gt=0, le=1, description="Percentile of memory usage that counts as the need of a container."),
    ] = 0.99
    disk: Annotated[
        float, Meta(gt=0, le=1, description="Percentile of disk bandwidth that counts as the need.")
    ] = 0.90
    network: Annotated[
        float, Meta(gt=0, le=1, description="Percentile of network bandwidth that counts as the need.")
    ] = 0.97
    bursts: Annotated[
        tuple[Resource, ...],
        Meta(
            description="Resources whose need is the mean of the samples above the percentile, instead of the"
            " percentile itself, to account for the size of bursts."
        ),
    ] = (Resource.DISK, Resource.NETWORK)


class AnalysisConfig(Section, frozen=True):
    """How often services, groups and bottlenecks are analysed."""

    interval_seconds: Annotated[
        float,
        Meta(ge=1, le=86_400, description="Time between two passes over the services that changed."),
    ] = 60.0
    full_pass_seconds: ClassVar[float] = 3600.0
    """Time between two passes over every container, which correct missed changes."""
    bottleneck_seconds: ClassVar[float] = 10.0
    """Time between two checks for bottlenecks that no single node can detect."""
    groups: Annotated[
        int,
        Meta(
            ge=0,
            le=8,
            description="Number of container groups (k-means). 0 chooses the number that fits best.",
        ),
    ] = 4
    profile_seconds: ClassVar[float] = 600.0
    """Observed running time of its containers after which a service counts as profiled."""
    forget_services_after_days: ClassVar[float] = 30.0
    """Time after which a service that no longer runs is forgotten."""
    max_ended_services_per_node: ClassVar[int] = 2500
    """Maximum number of remembered services that no longer run and ran on one node only, per node. Beyond
    it the oldest are forgotten."""


class EnergyConfig(Section, frozen=True):
    """Price and emissions, shown next to energy. Each is a number, or the result of a PromQL query."""

    price_per_kwh: Annotated[
        float, Meta(ge=0, le=1e6, description="Price of a kilowatt-hour, such as 0.32. 0 shows no price.")
    ] = 0.0
    currency: Annotated[
        str, Meta(max_length=12, description="Currency of the price, such as EUR, for display only.")
    ] = ""
    price_query: Annotated[
        str,
        Meta(
            description="PromQL query for the price of a kilowatt-hour, such as"
            ' avg(electricity_price{area="AT"}). It overrides `price_per_kwh`. It is sent to the server in'
            " `[store]`, or else to the one in `[pull]`; a period has the mean price over its time."
        ),
    ] = ""
    co2_grams_per_kwh: Annotated[
        float,
        Meta(
            ge=0,
            le=1e6,
            description="Grams of CO2 that a kilowatt-hour emits, such as 380. 0 shows no emissions.",
        ),
    ] = 0.0
    co2_query: Annotated[
        str,
        Meta(
            description="PromQL query for the grams of CO2 of a kilowatt-hour, sent to the same server as"
            " `price_query`. It overrides `co2_grams_per_kwh`."
        ),
    ] = ""

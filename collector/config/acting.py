"""When the collector acts, and how much at once."""

from typing import Annotated

from msgspec import Meta

from collector.config.section import Section


class ControlConfig(Section, frozen=True):
    """When plans are made and carried out. With the driver `none` they are only shown and kept."""

    policy: Annotated[str, Meta(description="The policy that answers bottlenecks; empty lets them be.")] = (
        "draps"
    )
    timer_policy: Annotated[
        str,
        Meta(
            description="The policy that is asked every `every_seconds`, such as `least-watts`,"
            " `consolidate` or `energy4cloud`; empty is none."
        ),
    ] = ""
    look_seconds: Annotated[
        float, Meta(ge=0.1, le=3600, description="How often bottlenecks are looked for.")
    ] = 5.0
    every_seconds: Annotated[
        float, Meta(ge=1, le=86_400, description="How often `timer_policy` is asked.")
    ] = 300.0
    view_seconds: Annotated[
        float,
        Meta(ge=1, le=3600, description="How often the orchestrator is asked what it knows."),
    ] = 15.0
    verify_seconds: Annotated[
        float,
        Meta(
            ge=1,
            le=3600,
            description="What was done must show in the agents' own data within this time, or is undone.",
        ),
    ] = 60.0
    settle_seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=86_400,
            description="A node that lost or got a container is left alone for so long: what that did must"
            " show first.",
        ),
    ] = 60.0
    stale_seconds: Annotated[
        float,
        Meta(gt=0, le=3600, description="Nothing is done with a node that was not heard of for longer."),
    ] = 60.0
    moves_at_once: Annotated[
        int, Meta(ge=1, le=1000, description="No more containers are on their way at once.")
    ] = 1
    moves_per_hour: Annotated[
        int, Meta(ge=0, le=100_000, description="No more containers are moved within an hour.")
    ] = 20
    cool_down_seconds: Annotated[
        float, Meta(ge=0, le=30 * 86_400, description="A service is moved no sooner again.")
    ] = 600.0
    room_seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=86_400,
            description="Room that had to be made for a container is kept for it this long, or until it is"
            " seen there, unless the request says how long.",
        ),
    ] = 600.0
    motion_ratio: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="No larger share of a service's replicas is on its way at once; one always may be.",
        ),
    ] = 0.5
    motion_memory_bytes: Annotated[
        int,
        Meta(ge=0, le=1 << 50, description="No more memory is on its way at once: it must be filled anew."),
    ] = 16 << 30
    allowed: Annotated[
        str,
        Meta(
            description="When acting is allowed: times such as `mon-fri 22:00-06:00, sun`, separated by"
            " commas; empty is always."
        ),
    ] = ""
    forbidden: Annotated[
        str, Meta(description="When it is not, in the same words; counts more than `allowed`.")
    ] = ""
    time_zone: Annotated[str, Meta(description="Where those times hold, such as Europe/Vienna.")] = "UTC"
    opt_in: Annotated[
        bool,
        Meta(description="Touch only services that carry the label `wattpack.act` = `allowed`."),
    ] = False
    lease_file: Annotated[
        str,
        Meta(
            description="A small SQLite file on a disk that all collectors of the cluster share; only who"
            " holds the lease in it acts. Empty puts it beside the history; with `history.store ="
            ' "prometheus"` it must be given.'
        ),
    ] = ""
    lease_seconds: Annotated[
        float,
        Meta(ge=3, le=3600, description="Who holds the lease and is silent for so long loses it."),
    ] = 30.0
    keep_decisions: Annotated[
        int, Meta(ge=10, le=100_000, description="So many decisions are kept on record.")
    ] = 1000
    keep_input_bytes: Annotated[
        int,
        Meta(
            ge=0,
            le=1 << 40,
            description="What they were made from is kept up to this size, compressed; the oldest goes.",
        ),
    ] = 64 << 20

"""The collector's settings: every key, its default, its bounds and what it is for."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from wire.address import COLLECTOR_DEFAULT, parse_address
from wire.complaint import Complaint


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of the TOML file."""


class Http(_Section, frozen=True):
    """What the collector serves: the API, the page, `/metrics`."""

    listen: Annotated[
        str,
        Meta(description="Address to serve on, host:port; loopback only, as there are no tokens yet."),
    ] = COLLECTOR_DEFAULT
    max_body_bytes: Annotated[
        int,
        Meta(ge=1024, le=1 << 30, description="Largest request body, unpacked; above it the answer is 413."),
    ] = 8 << 20

    def __post_init__(self) -> None:
        if not parse_address(self.listen).is_loopback:
            raise Complaint(
                f"the collector does not listen on {self.listen}, which other machines can reach, as it has "
                f"no way yet to tell who may: choose a loopback address such as {COLLECTOR_DEFAULT}"
            )


class History(_Section, frozen=True):
    """What is kept on disk."""

    path: Annotated[
        str,
        Meta(description="The SQLite file; `:memory:` keeps nothing. Its folder is made if it is missing."),
    ] = "/var/lib/wattpack/collector.db"
    retention_hours: Annotated[float, Meta(gt=0, le=24 * 366, description="How long samples are kept.")] = 6.0


class Liveness(_Section, frozen=True):
    """When a node counts as suspect, as down, as gone."""

    suspect_after_beacons: Annotated[
        float,
        Meta(gt=0, le=1000, description="A node not heard of for so many of its own beacons is suspect."),
    ] = 2.0
    down_after_beacons: Annotated[
        float,
        Meta(gt=0, le=1000, description="A node not heard of for so many of its own beacons is down."),
    ] = 4.0
    shortest_beacon_seconds: Annotated[
        float,
        Meta(
            gt=0,
            le=3600,
            description="Beacons count as no closer than this, also while a node has not told its own.",
        ),
    ] = 5.0
    forget_after_hours: Annotated[
        float, Meta(gt=0, le=24 * 366, description="A node not heard of for so long is no longer listed.")
    ] = 6.0


class CollectorConfig(_Section, frozen=True):
    """The collector's file, `collector.toml`."""

    http: Http = Http()
    history: History = History()
    liveness: Liveness = Liveness()
    store: Annotated[
        Literal["sqlite", "prometheus"],
        Meta(
            description="`sqlite` needs nothing installed. `prometheus` sends all time series to the store in"
            " `[store]` as well; the SQLite file then holds the last hours, and what is no series."
        ),
    ] = "sqlite"
class Endpoint(_Section, frozen=True):
    """A server that is spoken to over HTTP, and who the collector is there."""

    url: Annotated[str, Meta(description="Its address, such as http://prometheus:9090; empty is none.")] = ""
    username: Annotated[str, Meta(description="For basic authentication; empty shows none.")] = ""
    password_file: Annotated[str, Meta(description="The file that holds the password.")] = ""
    token_file: Annotated[str, Meta(description="The file that holds a bearer token; instead of both.")] = ""
    ca_file: Annotated[
        str, Meta(description="Who signs its certificate, in PEM; empty trusts whom the system trusts.")
    ] = ""
    cert_file: Annotated[str, Meta(description="The certificate to show it, in PEM; empty shows none.")] = ""
    key_file: Annotated[str, Meta(description="The key of `cert_file`, unless that holds it too.")] = ""
    timeout_seconds: Annotated[float, Meta(gt=0, le=600, description="Patience with one request.")] = 30.0


class Store(Endpoint, frozen=True):
    """The Prometheus-compatible store of `history.store`: remote write in, PromQL out."""

    write_url: Annotated[
        str, Meta(description="Where it takes remote write, if that is not `/api/v1/write` below `url`.")
    ] = ""
    outbox_max_bytes: Annotated[
        int,
        Meta(
            ge=1 << 20,
            le=1 << 40,
            description="Room on disk for what the store has not taken yet; when it is full the oldest goes.",
        ),
    ] = 256 << 20


class Pull(Endpoint, frozen=True):
    """Nodes that are read from a Prometheus which scrapes their agents, instead of reporting here.

    With `history.store = "prometheus"` and no `url`, that store is read: what other collectors put there is
    known here as well.
    """

    every_seconds: Annotated[float, Meta(ge=1, le=3600, description="Time between two looks.")] = 15.0
    settle_seconds: Annotated[
        float,
        Meta(ge=0, le=300, description="How far back a look goes, as scrapes take a while to be seen."),
    ] = 5.0
    node_label: Annotated[
        str, Meta(description="The label that holds a node's name.", pattern="^[a-zA-Z_][a-zA-Z0-9_]*$")
    ] = "instance"
    back_hours: Annotated[
        float,
        Meta(ge=0, le=24 * 31, description="How much of the past is read where nothing is known yet."),
    ] = 24.0


    def __post_init__(self) -> None:
        if self.down_after_beacons < self.suspect_after_beacons:
            raise Complaint(
                f"liveness.down_after_beacons ({self.down_after_beacons:g}) must not be below "
                f"suspect_after_beacons ({self.suspect_after_beacons:g}): a node is suspect before it is down"
            )


class Envelopes(_Section, frozen=True):
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
        Meta(ge=8, le=168, description="Samples before this are forgotten, in steps of eight hours."),
    ] = 24.0
    half_life_hours: Annotated[
        float, Meta(gt=0, le=24 * 366, description="After so long a sample counts half.")
    ] = 24.0


class Understanding(_Section, frozen=True):
    """How often the whole cluster is thought through, and what of it is kept."""

    period_seconds: Annotated[
        float,
        Meta(ge=1, le=86_400, description="How often services and classes are made out anew."),
    ] = 60.0
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


class Placement(_Section, frozen=True):
    """What decisions go by where nobody said otherwise."""

    default_class: Annotated[
        int,
        Meta(
            ge=1,
            le=4,
            description="The class of a container without the label `wattpack.class`: 1 means that nothing "
            "is ever taken from it, 4 that it bears being overbooked twofold.",
        ),
    ] = 1
    domain_label: Annotated[
        str,
        Meta(description="The label of a node that says what it would fail together with: a rack, a zone."),
    ] = "zone"
    failure_half_life_hours: Annotated[
        float,
        Meta(gt=0, le=24 * 366, description="After so long, a container that died counts half."),
    ] = 1.0
    snapshot_seconds: Annotated[
        float,
        Meta(ge=0, le=60, description="Decisions are made on what was known at most so long ago."),
    ] = 1.0


class NodeRule(_Section, frozen=True):
    """What holds for the nodes whose name fits a pattern; of several rules that fit, the last counts."""

    labels: dict[str, str] = {}
    """Added to those that an orchestrator tells."""
    generation: Literal["any", "nursery", "young", "old"] | None = None
    accepts: bool | None = None
    """Whether it may be given containers."""

    envelopes: Envelopes = Envelopes()
    understanding: Understanding = Understanding()
    placement: Placement = Placement()
    nodes: Annotated[
        dict[str, NodeRule],
        Meta(
            description='`[nodes."rack1-*"]`, a table per name or pattern, with `labels` (a table of texts), '
            "`generation` (any, nursery, young, old) and `accepts` (true, false). Of several that fit a node "
            "the last counts. The labels `wattpack.generation` and `wattpack.accept` say the same."
        ),
    ] = {}

"""The collector's settings: every key, its default, its bounds and what it is for."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from wire.address import COLLECTOR_DEFAULT, parse_address
from wire.complaint import Complaint
from wire.resources import Resource


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of the TOML file."""


class Http(_Section, frozen=True):
    """What the collector serves: the API, the page, `/metrics`."""

    listen: Annotated[
        str,
        Meta(
            description="Address to serve on, host:port; one that other machines can reach needs tokens, and"
            " TLS."
        ),
    ] = COLLECTOR_DEFAULT
    names: Annotated[
        str,
        Meta(
            description="Names by which other machines call the collector, separated by commas; a request by"
            " any other name is refused. Addresses need not be listed."
        ),
    ] = ""
    insecure_plaintext: Annotated[
        bool,
        Meta(
            description="Listen where other machines can reach it even without TLS: whoever can listen on the"
            " way can read every token."
        ),
    ] = False
    max_body_bytes: Annotated[
        int,
        Meta(ge=1024, le=1 << 30, description="Largest request body, unpacked; above it the answer is 413."),
    ] = 8 << 20

    body_timeout_seconds: Annotated[
        float,
        Meta(gt=0, le=3600, description="A body that takes longer to arrive is given up; the answer is 408."),
    ] = 20.0
    max_streams: Annotated[
        int,
        Meta(ge=0, le=10_000, description="So many may listen to `/v1/stream` at once; beyond, 429."),
    ] = 100

    def __post_init__(self) -> None:
        parse_address(self.listen)

    @property
    def other_names(self) -> frozenset[str]:
        """`names` one by one, in small letters."""
        return frozenset(name for each in self.names.split(",") if (name := each.strip().lower()))


class Tls(_Section, frozen=True):
    """Encryption of what is served. A renewed file is used from the next connection on."""

    certificate: Annotated[
        str, Meta(description="The certificate, with those that lead to its root, in PEM; empty is no TLS.")
    ] = ""
    key: Annotated[str, Meta(description="Its key, in PEM, without a password.")] = ""
    client_ca: Annotated[
        str,
        Meta(
            description="Who signs the nodes' certificates, in PEM. A node that shows one, with its name in"
            " it, needs no token; empty asks for none."
        ),
    ] = ""

    def __post_init__(self) -> None:
        if bool(self.certificate) != bool(self.key):
            raise Complaint("tls.certificate and tls.key belong together: set both, or none")
        if self.client_ca and not self.certificate:
            raise Complaint(
                "tls.client_ca needs TLS to ask for certificates: set tls.certificate and tls.key"
            )


class Access(_Section, frozen=True):
    """Who may report and ask."""

    tokens: Annotated[
        str,
        Meta(
            description="The file of tokens, kept by `wattpack token`. Where it exists, everything but"
            " `/healthz` and `/readyz` needs one; empty never asks for any."
        ),
    ] = "/var/lib/wattpack/tokens.jsonl"


class Ingest(_Section, frozen=True):
    """How much may wait to be kept; beyond, the answer is 429, and agents send it again later."""

    max_waiting_reports: Annotated[
        int, Meta(ge=100, le=1_000_000, description="Reports of all nodes that wait for the history.")
    ] = 5000
    max_waiting_reports_per_node: Annotated[
        int, Meta(ge=100, le=1_000_000, description="Reports of one node, so that it leaves room for others.")
    ] = 300
    max_waiting_bytes: Annotated[
        int,
        Meta(ge=1 << 20, le=1 << 40, description="Bodies that are being read or wait, unpacked, together."),
    ] = 64 << 20


class History(_Section, frozen=True):
    """What is kept on disk."""

    store: Annotated[
        Literal["sqlite", "prometheus"],
        Meta(
            description="`sqlite` needs nothing installed. `prometheus` sends all time series to the store in"
            " `[store]` as well; the SQLite file then holds the last hours, and what is no series."
        ),
    ] = "sqlite"
    path: Annotated[
        str,
        Meta(description="The SQLite file; `:memory:` keeps nothing. Its folder is made if it is missing."),
    ] = "/var/lib/wattpack/collector.db"
    retention_hours: Annotated[float, Meta(gt=0, le=24 * 366, description="How long samples are kept.")] = 6.0
    detail_days: Annotated[
        float,
        Meta(gt=0, le=3660, description="How long means, maxima and energy of each five minutes are kept."),
    ] = 30.0
    hourly_days: Annotated[float, Meta(gt=0, le=3660, description="The same of each hour.")] = 366.0
    max_size_bytes: Annotated[
        int,
        Meta(
            ge=16 << 20,
            le=1 << 50,
            description="The file and its log never take more room; near it, the oldest samples go early.",
        ),
    ] = 4 << 30


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
        Meta(ge=8, le=24, description="Samples before this are forgotten, in steps of eight hours."),
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
    oldest_seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=600,
            description="Where the cluster is so large that a look at all of it takes a while, hints go by"
            " the last one meanwhile, unless it is older than this.",
        ),
    ] = 5.0
    policy: Annotated[
        str, Meta(description="What decides where a question does not say; `GET /v1/policies` lists them.")
    ] = "least-watts"
    scheduled_seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=3600,
            description="A pod that kube-scheduler asks about counts on the node that got most points until"
            " it is seen, for at most so long; 0 never counts it.",
        ),
    ] = 30.0

    def __post_init__(self) -> None:
        # Most who read settings decide nothing, and policies bring a numeric stack with them.
        from collector.policies.table import POLICIES  # noqa: PLC0415 - said above

        if self.policy not in POLICIES:
            raise Complaint(
                f"placement.policy: there is no {self.policy!r}: choose one of {', '.join(POLICIES)}"
            )


class Driver(_Section, frozen=True):
    """Who carries out what was decided."""

    name: Annotated[
        Literal["none", "swarm", "docker", "kubernetes"],
        Meta(
            description="`none` only shows what it would do. `swarm` asks a manager, `docker` the engine of"
            " each host, `kubernetes` the API server (install wattpack[kubernetes])."
        ),
    ] = "none"
    managers: Annotated[
        str,
        Meta(
            description="Swarm's managers, separated by commas, such as unix:///var/run/docker.sock or"
            " tcp://10.0.0.1:2376; the next is asked where one does not answer."
        ),
    ] = "unix:///var/run/docker.sock"
    engines: Annotated[
        dict[str, str],
        Meta(
            description='`[driver.engines]`, a line per host, such as web1 = "tcp://10.0.0.11:2376": for'
            " `docker` all hosts, for `swarm` those where limits may be cut."
        ),
    ] = {}
    ca_file: Annotated[
        str, Meta(description="Who signs the certificates of tcp:// addresses, in PEM; empty is no TLS.")
    ] = ""
    cert_file: Annotated[str, Meta(description="The certificate to show there, in PEM.")] = ""
    key_file: Annotated[str, Meta(description="The key of `cert_file`, unless that holds it too.")] = ""
    kubeconfig: Annotated[
        str,
        Meta(
            description="The file that says how to reach Kubernetes; empty takes what a pod is given, or"
            " else what kubectl would take."
        ),
    ] = ""
    request_seconds: Annotated[float, Meta(gt=0, le=600, description="Patience with one request.")] = 10.0
    healthy_seconds: Annotated[
        float,
        Meta(
            gt=0,
            le=3600,
            description="What starts anew must be healthy within this time, or all is put back.",
        ),
    ] = 60.0
    watch_seconds: Annotated[
        float, Meta(ge=0, le=600, description="It must stay so for this long to count as moved.")
    ] = 5.0
    empty_seconds: Annotated[
        float, Meta(gt=0, le=86_400, description="A node must be empty so long after it was drained.")
    ] = 300.0
    refuse_seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=86_400,
            description="What is moved away from a node is kept from it for so long by every hint, and by"
            " Kubernetes' scheduler where that asks the extender.",
        ),
    ] = 600.0
    power_off_command: Annotated[
        str,
        Meta(description="Switches a node off; its name is added as the last argument. Empty never does."),
    ] = ""
    power_on_command: Annotated[str, Meta(description="Switches a node on, likewise.")] = ""
    power_grace_seconds: Annotated[
        float, Meta(ge=0, le=3600, description="Between the end of its last container and that command.")
    ] = 10.0
    power_seconds: Annotated[
        float,
        Meta(gt=0, le=86_400, description="Such a command, and then the node, may take so long each."),
    ] = 300.0

    @property
    def manager_addresses(self) -> tuple[str, ...]:
        """`managers` one by one."""
        return tuple(address for each in self.managers.split(",") if (address := each.strip()))


class Acting(_Section, frozen=True):
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


class NodeRule(_Section, frozen=True):
    """What holds for the nodes whose name fits a pattern; of several rules that fit, the last counts."""

    labels: dict[str, str] = {}
    """Added to those that an orchestrator tells."""
    generation: Literal["any", "nursery", "young", "old"] | None = None
    accepts: bool | None = None
    """Whether it may be given containers."""


class CollectorConfig(_Section, frozen=True):
    """The collector's file, `collector.toml`."""

    http: Http = Http()
    tls: Tls = Tls()
    access: Access = Access()
    ingest: Ingest = Ingest()
    history: History = History()
    store: Store = Store()
    pull: Pull = Pull()
    liveness: Liveness = Liveness()
    envelopes: Envelopes = Envelopes()
    understanding: Understanding = Understanding()
    placement: Placement = Placement()
    acting: Acting = Acting()
    driver: Driver = Driver()
    nodes: Annotated[
        dict[str, NodeRule],
        Meta(
            description='`[nodes."rack1-*"]`, a table per name or pattern, with `labels` (a table of texts), '
            "`generation` (any, nursery, young, old) and `accepts` (true, false). Of several that fit a node "
            "the last counts. The labels `wattpack.generation` and `wattpack.accept` say the same."
        ),
    ] = {}
    policies: Annotated[
        dict[str, dict[str, Any]],
        Meta(
            description="`[policies.draps]`, a table per policy with its settings, as `GET /v1/policies`"
            " lists them; those not told are its defaults. They count where the collector itself decides."
        ),
    ] = {}

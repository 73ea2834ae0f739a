"""The collector's settings: every key with its default, its bounds and its meaning.

The server and control have modules of their own, everything else of the core is here, and features add
tables. Settings are validated when they are created; the rest of the collector reads no files.
"""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from msgspec import Meta, field

from collector.common.extensions import extend, extensions
from collector.config.control import ControlConfig, DriverConfig, PlacementConfig
from collector.config.server import AccessConfig, HttpConfig, LimitsConfig, TlsConfig
from wire.errors import UserError
from wire.resources import Resource
from wire.settings import Section, Settings, add_tables

__all__ = [
    "AccessConfig",
    "ControlConfig",
    "DriverConfig",
    "HttpConfig",
    "LimitsConfig",
    "PlacementConfig",
    "TlsConfig",
]


class LivenessConfig(Section, frozen=True):
    """When a node is suspect, down, or no longer listed."""

    down_after_beacons: Annotated[float, Meta(gt=0, le=1000)] = 4.0
    """Beacon intervals without a report before a node is down. After half of them it is suspect."""
    forget_after_hours: Annotated[float, Meta(gt=0, le=24 * 366)] = 6.0
    """Time without a report before a node is no longer listed."""


class EnvelopeConfig(Section, frozen=True):
    """The expected need of a container, from the histograms of its samples.

    Each resource has its own percentile: CPU is shared smoothly, a container that runs out of memory is
    killed, disk and network are used in bursts.
    """

    cpu: Annotated[float, Meta(gt=0, le=1)] = 0.90
    """Percentile of CPU usage that counts as the need of a container."""
    memory: Annotated[float, Meta(gt=0, le=1)] = 0.99
    """Percentile of memory usage that counts as the need of a container."""
    disk: Annotated[float, Meta(gt=0, le=1)] = 0.90
    """Percentile of disk bandwidth that counts as the need."""
    network: Annotated[float, Meta(gt=0, le=1)] = 0.97
    """Percentile of network bandwidth that counts as the need."""
    bursts: tuple[Resource, ...] = (Resource.DISK, Resource.NETWORK)
    """Resources whose need is the mean of the samples above the percentile, instead of the percentile itself,
    to account for the size of bursts."""


class AnalysisConfig(Section, frozen=True):
    """How often services, groups and bottlenecks are analysed."""

    interval_seconds: Annotated[float, Meta(ge=1, le=86_400)] = 60.0
    """Time between two passes over the services that changed."""
    full_pass_seconds: ClassVar[float] = 3600.0
    """Time between two passes over every container, which correct missed changes."""
    bottleneck_seconds: ClassVar[float] = 10.0
    """Time between two checks for bottlenecks that no single node can detect."""
    groups: Annotated[int, Meta(ge=0, le=8)] = 4
    """Number of container groups (k-means). 0 chooses the number that fits best."""
    outlier_ratio: Annotated[float, Meta(ge=1)] = 4.0
    """A node does not count for a service if it reports this many times more use than three quarters of its
    other nodes, and an alert names it. By default, what is far out by Tukey's rule, whatever the others use.
    Raise it if the nodes of your services honestly differ by more, such as that of a leader."""
    profile_seconds: ClassVar[float] = 600.0
    """Observed running time of its containers after which a service counts as profiled."""
    forget_services_after_days: ClassVar[float] = 30.0
    """Time after which a service that no longer runs is forgotten."""
    max_ended_services_per_node: ClassVar[int] = 2500
    """Maximum number of remembered services that no longer run and ran on one node only, per node. Beyond
    it the oldest are forgotten."""


class EnergyConfig(Section, frozen=True):
    """Price and emissions, shown next to energy. Each is a number, or the result of a PromQL query."""

    price_per_kwh: Annotated[float, Meta(ge=0, le=1e6)] = 0.0
    """Price of a kilowatt-hour, such as 0.32. 0 shows no price."""
    currency: Annotated[str, Meta(max_length=12)] = ""
    """Currency of the price, such as EUR, for display only."""
    price_query: str = ""
    """PromQL query for the price of a kilowatt-hour, such as avg(electricity_price{area="AT"}). It overrides
    `price_per_kwh`. It is sent to the server in `[store]`, or else to the one in `[pull]`; a period has the
    mean price over its time."""
    co2_grams_per_kwh: Annotated[float, Meta(ge=0, le=1e6)] = 0.0
    """Grams of CO2 that a kilowatt-hour emits, such as 380. 0 shows no emissions."""
    co2_query: str = ""
    """PromQL query for the grams of CO2 of a kilowatt-hour, sent to the same server as `price_query`. It
    overrides `co2_grams_per_kwh`."""


class EndpointConfig(Section, frozen=True):
    """A server that the collector connects to over HTTP, with its credentials."""

    url: str = ""
    """URL of the server, such as http://prometheus:9090. Empty disables it."""
    credentials_file: str = ""
    """File with `USER:PASSWORD` for basic authentication, or with a bearer token. Empty sends neither."""
    ca_file: str = ""
    """CA file for the server's certificate, in PEM. Empty uses the system's CAs."""
    cert_file: str = ""
    """Client certificate file, in PEM. Empty sends no certificate."""
    key_file: str = ""
    """Key file of `cert_file`. Empty if `cert_file` contains the key."""
    timeout_seconds: ClassVar[float] = 30.0
    """Timeout of one request."""


class HistoryConfig(Section, frozen=True):
    """The history on disk."""

    store: Literal["sqlite", "prometheus"] = "sqlite"
    """`sqlite` requires no other service. `prometheus` also sends all time series to the store in `[store]`;
    the SQLite file then keeps the last hours and everything that is not a time series."""
    path: str = "/var/lib/wattpack/collector.db"
    """SQLite file. `:memory:` keeps nothing on disk. A missing directory is created."""
    retention_hours: Annotated[float, Meta(gt=0, le=24 * 366)] = 6.0
    """Time after which samples are deleted."""
    detail_days: Annotated[float, Meta(gt=0, le=3660)] = 30.0
    """Time after which five-minute means, maxima and energy are deleted."""
    hourly_days: Annotated[float, Meta(gt=0, le=3660)] = 366.0
    """Time after which hourly means, maxima and energy are deleted."""
    rollup_seconds: Annotated[float, Meta(ge=1, le=3600)] = 60.0
    """Time between two passes that add new reports to the means and energy accounts, and delete old
    samples."""
    max_size_bytes: Annotated[int, Meta(ge=16 << 20, le=1 << 50)] = 4 << 30
    """Maximum size of the file and its write-ahead log. Near it, samples are deleted before their retention
    ends, starting with the oldest of the nodes that take the most space."""
    min_free_bytes: ClassVar[int] = 128 << 20
    """Free space on the disk below which the history is read-only: reports are refused and wait in the
    agents' spools, queries are answered."""
    outbox_share: ClassVar[int] = 16
    """Samples that a store has not accepted yet may take this part of `max_size_bytes`, in a file of their
    own. Beyond it the oldest are deleted."""


class StoreConfig(EndpointConfig, frozen=True):
    """The Prometheus-compatible store of `history.store`: written by remote write, queried by PromQL."""

    write_url: str = ""
    """Remote write URL, if it is not `/api/v1/write` below `url`."""


class PullConfig(EndpointConfig, frozen=True):
    """Nodes that are pulled from a Prometheus that scrapes their agents; these agents send no reports.

    With `history.store = "prometheus"` and no `url`, nodes are pulled from that store, so that this collector
    also knows the nodes of other collectors that write to it.
    """

    interval_seconds: Annotated[float, Meta(ge=1, le=3600)] = 15.0
    """Time between two queries."""
    settle_seconds: ClassVar[float] = 5.0
    """Delay before samples are read, because a scrape becomes visible only after some time."""
    node_label: Annotated[str, Meta(pattern="^[a-zA-Z_][a-zA-Z0-9_]*$")] = "instance"
    """Label that contains the node's name."""
    backfill_hours: ClassVar[float] = 24.0
    """How far back the data of a new node is read: as far as envelopes reach."""


class _CoreConfig(Settings, frozen=True):
    """The settings file of the collector, `collector.toml`."""

    http: HttpConfig = HttpConfig()
    tls: TlsConfig = TlsConfig()
    access: AccessConfig = AccessConfig()
    limits: LimitsConfig = LimitsConfig()
    history: HistoryConfig = HistoryConfig()
    store: StoreConfig = StoreConfig()
    pull: PullConfig = PullConfig()
    liveness: LivenessConfig = LivenessConfig()
    envelopes: EnvelopeConfig = EnvelopeConfig()
    analysis: AnalysisConfig = AnalysisConfig()
    energy: EnergyConfig = EnergyConfig()
    placement: PlacementConfig = PlacementConfig()
    control: ControlConfig = ControlConfig()
    driver: DriverConfig = DriverConfig()
    nodes: dict[str, dict[str, str]] = field(default_factory=dict)
    """`[nodes."rack1-*"]`: a table per node name or pattern with labels in addition to those from the
    orchestrator, such as `zone = "a"` or `"wattpack.generation" = "old"`. The last matching table wins."""
    policies: dict[str, dict[str, Any]] = field(default_factory=dict)
    """`[policies.draps]`: a table per policy with its settings, as listed by `GET /v1/policies`. They apply
    to decisions of the collector itself, and are the defaults of requests."""

    def __post_init__(self) -> None:
        if self.history.store == "prometheus" and not self.store.url:
            raise UserError(
                'store.url: empty, but history.store is "prometheus": set it to the address of the store,'
                " such as http://127.0.0.1:8428"
            )
        if not (self.store.url or self.pull.url):
            for key, promql in (
                ("price_query", self.energy.price_query),
                ("co2_query", self.energy.co2_query),
            ):
                if promql:
                    raise UserError(
                        f"energy.{key}: no store can answer it: set store.url or pull.url to the address of a"
                        " Prometheus, or remove the query"
                    )


if TYPE_CHECKING:
    CollectorConfig = _CoreConfig
else:
    CollectorConfig = add_tables(
        _CoreConfig,
        {key: table for each in extensions("settings") for key, table in each.TABLES.items()},
        extend("settings", "CHECKS"),
        name="CollectorConfig",
    )

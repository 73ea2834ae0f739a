"""The collector's settings: every key with its default, its bounds and its meaning.

One module per topic, and the tables that features add. Settings are validated when they are created; the
rest of the collector reads no files.
"""

from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, field

from collector.common.extensions import extend, extensions
from collector.config.brownout import BrownoutConfig, PowerConfig
from collector.config.cluster import AnalysisConfig, ApplicationRule, EnvelopeConfig, LivenessConfig, NodeRule
from collector.config.control import ControlConfig, DriverConfig, PlacementConfig
from collector.config.elastic import ElasticRule
from collector.config.energy import EnergyConfig
from collector.config.network import MeshConfig
from collector.config.server import AccessConfig, HttpConfig, IngestConfig, LimitsConfig, TlsConfig
from collector.config.storage import EndpointConfig, HistoryConfig, PullConfig, StoreConfig
from wire.errors import UserError
from wire.settings import Settings, add_tables

__all__ = [
    "AccessConfig",
    "AnalysisConfig",
    "ApplicationRule",
    "BrownoutConfig",
    "CollectorConfig",
    "ControlConfig",
    "DriverConfig",
    "ElasticRule",
    "EndpointConfig",
    "EnergyConfig",
    "EnvelopeConfig",
    "HistoryConfig",
    "HttpConfig",
    "IngestConfig",
    "LimitsConfig",
    "LivenessConfig",
    "MeshConfig",
    "NodeRule",
    "PlacementConfig",
    "PowerConfig",
    "PullConfig",
    "StoreConfig",
    "TlsConfig",
]


class _CoreConfig(Settings, frozen=True):
    """The settings file of the collector, `collector.toml`."""

    http: HttpConfig = HttpConfig()
    tls: TlsConfig = TlsConfig()
    access: AccessConfig = AccessConfig()
    ingest: IngestConfig = IngestConfig()
    limits: LimitsConfig = LimitsConfig()
    history: HistoryConfig = HistoryConfig()
    store: StoreConfig = StoreConfig()
    pull: PullConfig = PullConfig()
    liveness: LivenessConfig = LivenessConfig()
    mesh: MeshConfig = MeshConfig()
    envelopes: EnvelopeConfig = EnvelopeConfig()
    analysis: AnalysisConfig = AnalysisConfig()
    energy: EnergyConfig = EnergyConfig()
    placement: PlacementConfig = PlacementConfig()
    control: ControlConfig = ControlConfig()
    brownout: BrownoutConfig = BrownoutConfig()
    power: PowerConfig = PowerConfig()
    driver: DriverConfig = DriverConfig()
    nodes: Annotated[
        dict[str, NodeRule],
        Meta(
            description='`[nodes."rack1-*"]`: a table per node name or pattern with `labels` (a table of'
            " strings), `generation` (any, nursery, young, old) and `accepts` (true, false). The last"
            " matching table wins. The labels `wattpack.generation` and `wattpack.accept` mean the same."
        ),
    ] = field(default_factory=dict)
    applications: Annotated[
        dict[str, ApplicationRule],
        Meta(
            description="`[applications.shop]`: a table per application with `delay_max_seconds` (maximum"
            " round-trip time between its nodes; overrides the label `wattpack.delay-max`). Needed only"
            " without Swarm or Kubernetes, for an application whose services run on several nodes: labels of"
            " a node do not affect services of other nodes unless the application is named here."
        ),
    ] = field(default_factory=dict)
    elastic: Annotated[
        dict[str, ElasticRule],
        Meta(
            description="`[elastic.web]`: a table per service that is scaled with its load, by its name in"
            " the orchestrator. [elastic.md](elastic.md) lists the keys, such as `metric_max`"
            " (bound of the response time in seconds, or of the metric of `query`), `replicas_max` (10) and"
            " `policy`. Labels `wattpack.elastic*` of the service mean the same."
        ),
    ] = field(default_factory=dict)
    policies: Annotated[
        dict[str, dict[str, Any]],
        Meta(
            description="`[policies.draps]`: a table per policy with its settings, as listed by"
            " `GET /v1/policies`. They apply to decisions of the collector itself, and are the defaults of"
            " requests."
        ),
    ] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check references."""
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
        self._check_policies()
        self._check_elastic()

    def _check_policies(self) -> None:
        from collector.policies.resolve import resolve  # noqa: PLC0415 - policies import numpy

        for name, settings in self.policies.items():
            try:
                resolve(name, settings)
            except UserError as error:
                raise UserError(f"policies.{name}: {error}") from error

    def _check_elastic(self) -> None:
        from collector.elastic.table import ELASTIC_POLICIES  # noqa: PLC0415 - policies import numpy

        for name, rule in self.elastic.items():
            if rule.query and not self.store.url:
                raise UserError(
                    f"store.url: empty, but [elastic.{name}] has a query: set it to the address of the store,"
                    " such as http://127.0.0.1:9090"
                )
            if rule.policy not in ELASTIC_POLICIES:
                near = get_close_matches(rule.policy, ELASTIC_POLICIES, n=1)
                names = ", ".join(ELASTIC_POLICIES)
                advice = f"did you mean {near[0]!r}?" if near else f"choose one of {names}"
                raise UserError(f"elastic.{name}.policy: there is no policy {rule.policy!r}: {advice}")


if TYPE_CHECKING:
    CollectorConfig = _CoreConfig
else:
    CollectorConfig = add_tables(
        _CoreConfig,
        {key: table for each in extensions("settings") for key, table in each.TABLES.items()},
        extend("settings", "CHECKS"),
        name="CollectorConfig",
    )

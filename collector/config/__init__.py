"""The collector's settings: every key with its default, its bounds and its meaning.

One module per topic, and the tables that features add. Settings are validated when they are created; the
rest of the collector reads no files.
"""

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, field

from collector.common.extensions import extend, extensions
from collector.config.cluster import AnalysisConfig, EnergyConfig, EnvelopeConfig, LivenessConfig
from collector.config.control import ControlConfig, DriverConfig, PlacementConfig
from collector.config.server import AccessConfig, HttpConfig, LimitsConfig, TlsConfig
from collector.config.storage import EndpointConfig, HistoryConfig, PullConfig, StoreConfig
from wire.errors import UserError
from wire.settings import Settings, add_tables

__all__ = [
    "AccessConfig",
    "AnalysisConfig",
    "CollectorConfig",
    "ControlConfig",
    "DriverConfig",
    "EndpointConfig",
    "EnergyConfig",
    "EnvelopeConfig",
    "HistoryConfig",
    "HttpConfig",
    "LimitsConfig",
    "LivenessConfig",
    "PlacementConfig",
    "PullConfig",
    "StoreConfig",
    "TlsConfig",
]


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
    nodes: Annotated[
        dict[str, dict[str, str]],
        Meta(
            description='`[nodes."rack1-*"]`: a table per node name or pattern with labels in addition to'
            ' those from the orchestrator, such as `zone = "a"` or `"wattpack.generation" = "old"`. The last'
            " matching table wins."
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


if TYPE_CHECKING:
    CollectorConfig = _CoreConfig
else:
    CollectorConfig = add_tables(
        _CoreConfig,
        {key: table for each in extensions("settings") for key, table in each.TABLES.items()},
        extend("settings", "CHECKS"),
        name="CollectorConfig",
    )

"""All settings together."""

from typing import Annotated, Any

from msgspec import Meta, field

from collector.config.acting import ControlConfig
from collector.config.driver import DriverConfig
from collector.config.hints import PlacementConfig
from collector.config.history import HistoryConfig, StoreConfig
from collector.config.http import AccessConfig, HttpConfig, IngestConfig, TlsConfig
from collector.config.nodes import LivenessConfig, NodeRule
from collector.config.pull import PullConfig
from collector.config.section import Section
from collector.config.understanding import AnalysisConfig, EnvelopeConfig


class CollectorConfig(Section, frozen=True):
    """The collector's file, `collector.toml`."""

    http: HttpConfig = HttpConfig()
    tls: TlsConfig = TlsConfig()
    access: AccessConfig = AccessConfig()
    ingest: IngestConfig = IngestConfig()
    history: HistoryConfig = HistoryConfig()
    store: StoreConfig = StoreConfig()
    pull: PullConfig = PullConfig()
    liveness: LivenessConfig = LivenessConfig()
    envelopes: EnvelopeConfig = EnvelopeConfig()
    understanding: AnalysisConfig = AnalysisConfig()
    placement: PlacementConfig = PlacementConfig()
    acting: ControlConfig = ControlConfig()
    driver: DriverConfig = DriverConfig()
    nodes: Annotated[
        dict[str, NodeRule],
        Meta(
            description='`[nodes."rack1-*"]`, a table per name or pattern, with `labels` (a table of texts), '
            "`generation` (any, nursery, young, old) and `accepts` (true, false). Of several that fit a node "
            "the last counts. The labels `wattpack.generation` and `wattpack.accept` say the same."
        ),
    ] = field(default_factory=dict)
    policies: Annotated[
        dict[str, dict[str, Any]],
        Meta(
            description="`[policies.draps]`, a table per policy with its settings, as `GET /v1/policies`"
            " lists them; those not told are its defaults. They count where the collector itself decides."
        ),
    ] = field(default_factory=dict)

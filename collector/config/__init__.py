"""The collector's settings: every key, its default, its bounds and what it is for.

A module per room, each with tables of `collector.toml`; `whole` puts them together. They are values, checked
when they are made: whoever needs some is given them, and knows no files.
"""

from collector.config.acting import ControlConfig
from collector.config.driver import DriverConfig
from collector.config.endpoint import EndpointConfig
from collector.config.hints import PlacementConfig
from collector.config.history import HistoryConfig, StoreConfig
from collector.config.http import AccessConfig, HttpConfig, IngestConfig, TlsConfig
from collector.config.nodes import LivenessConfig, NodeRule
from collector.config.pull import PullConfig
from collector.config.understanding import AnalysisConfig, EnvelopeConfig
from collector.config.whole import CollectorConfig

__all__ = [
    "AccessConfig",
    "AnalysisConfig",
    "CollectorConfig",
    "ControlConfig",
    "DriverConfig",
    "EndpointConfig",
    "EnvelopeConfig",
    "HistoryConfig",
    "HttpConfig",
    "IngestConfig",
    "LivenessConfig",
    "NodeRule",
    "PlacementConfig",
    "PullConfig",
    "StoreConfig",
    "TlsConfig",
]

"""The collector's settings: every key, its default, its bounds and what it is for.

A module per room, each with tables of `collector.toml`; `whole` puts them together. They are values, checked
when they are made: whoever needs some is given them, and knows no files.
"""

from collector.config.acting import Acting
from collector.config.driver import Driver
from collector.config.endpoint import Endpoint
from collector.config.hints import Placement
from collector.config.history import History, Store
from collector.config.http import Access, Http, Ingest, Tls
from collector.config.nodes import Liveness, NodeRule
from collector.config.pull import Pull
from collector.config.understanding import Envelopes, Understanding
from collector.config.whole import CollectorConfig

__all__ = [
    "Access",
    "Acting",
    "CollectorConfig",
    "Driver",
    "Endpoint",
    "Envelopes",
    "History",
    "Http",
    "Ingest",
    "Liveness",
    "NodeRule",
    "Placement",
    "Pull",
    "Store",
    "Tls",
    "Understanding",
]

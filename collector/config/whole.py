"""All settings together."""

from typing import Annotated, Any

from msgspec import Meta, field

from collector.config.acting import Acting
from collector.config.driver import Driver
from collector.config.hints import Placement
from collector.config.history import History, Store
from collector.config.http import Access, Http, Ingest, Tls
from collector.config.nodes import Liveness, NodeRule
from collector.config.pull import Pull
from collector.config.section import Section
from collector.config.understanding import Envelopes, Understanding


class CollectorConfig(Section, frozen=True):
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
    ] = field(default_factory=dict)
    policies: Annotated[
        dict[str, dict[str, Any]],
        Meta(
            description="`[policies.draps]`, a table per policy with its settings, as `GET /v1/policies`"
            " lists them; those not told are its defaults. They count where the collector itself decides."
        ),
    ] = field(default_factory=dict)

"""Where data is stored, and the Prometheus that nodes are pulled from."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from wire.settings import Section


class EndpointConfig(Section, frozen=True):
    """A server that the collector connects to over HTTP, with its credentials."""

    url: Annotated[
        str, Meta(description="URL of the server, such as http://prometheus:9090. Empty disables it.")
    ] = ""
    credentials_file: Annotated[
        str,
        Meta(
            description="File with `USER:PASSWORD` for basic authentication, or with a bearer token. Empty"
            " sends neither."
        ),
    ] = ""
    ca_file: Annotated[
        str, Meta(description="CA file for the server's certificate, in PEM. Empty uses the system's CAs.")
    ] = ""
    cert_file: Annotated[
        str, Meta(description="Client certificate file, in PEM. Empty sends no certificate.")
    ] = ""
    key_file: Annotated[
        str, Meta(description="Key file of `cert_file`. Empty if `cert_file` contains the key.")
    ] = ""
    timeout_seconds: ClassVar[float] = 30.0
    """Timeout of one request."""


class HistoryConfig(Section, frozen=True):
    """The history on disk."""

    store: Annotated[
        Literal["sqlite", "prometheus"],
        Meta(
            description="`sqlite` requires no other service. `prometheus` also sends all time series to the"
            " store in `[store]`; the SQLite file then keeps the last hours and everything that is not a time"
            " series."
        ),
    ] = "sqlite"
    path: Annotated[
        str,
        Meta(description="SQLite file. `:memory:` keeps nothing on disk. A missing directory is created."),
    ] = "/var/lib/wattpack/collector.db"
    retention_hours: Annotated[
        float, Meta(gt=0, le=24 * 366, description="Time after which samples are deleted.")
    ] = 6.0
    detail_days: Annotated[
        float,
        Meta(gt=0, le=3660, description="Time after which five-minute means, maxima and energy are deleted."),
    ] = 30.0
    hourly_days: Annotated[
        float,
        Meta(gt=0, le=3660, description="Time after which hourly means, maxima and energy are deleted."),
    ] = 366.0
    rollup_seconds: Annotated[
        float,
        Meta(
            ge=1,
            le=3600,
            description="Time between two passes that add new reports to the means and energy accounts, and"
            " delete old samples.",
        ),
    ] = 60.0
    max_size_bytes: Annotated[
        int,
        Meta(
            ge=16 << 20,
            le=1 << 50,
            description="Maximum size of the file and its write-ahead log. Near it, samples are deleted"
            " before their retention ends, starting with the oldest of the nodes that take the most space.",
        ),
    ] = 4 << 30
    min_free_bytes: ClassVar[int] = 128 << 20
    """Free space on the disk below which the history is read-only: reports are refused and wait in the
    agents' spools, queries are answered."""
    outbox_share: ClassVar[int] = 16
    """Samples that a store has not accepted yet may take this part of `max_size_bytes`, in a file of their
    own. Beyond it the oldest are deleted."""


class StoreConfig(EndpointConfig, frozen=True):
    """The Prometheus-compatible store of `history.store`: written by remote write, queried by PromQL."""

    write_url: Annotated[
        str, Meta(description="Remote write URL, if it is not `/api/v1/write` below `url`.")
    ] = ""


class PullConfig(EndpointConfig, frozen=True):
    """Nodes that are pulled from a Prometheus that scrapes their agents; these agents send no reports.

    With `history.store = "prometheus"` and no `url`, nodes are pulled from that store, so that this collector
    also knows the nodes of other collectors that write to it.
    """

    interval_seconds: Annotated[float, Meta(ge=1, le=3600, description="Time between two queries.")] = 15.0
    settle_seconds: ClassVar[float] = 5.0
    """Delay before samples are read, because a scrape becomes visible only after some time."""
    node_label: Annotated[
        str,
        Meta(description="Label that contains the node's name.", pattern="^[a-zA-Z_][a-zA-Z0-9_]*$"),
    ] = "instance"
    backfill_hours: ClassVar[float] = 24.0
    """How far back the data of a new node is read: as far as envelopes reach."""

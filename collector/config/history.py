"""What is kept on disk, and in a store that takes time series."""

from typing import Annotated, Literal

from msgspec import Meta

from collector.config.endpoint import EndpointConfig
from collector.config.section import Section


class HistoryConfig(Section, frozen=True):
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


class StoreConfig(EndpointConfig, frozen=True):
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

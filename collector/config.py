"""The collector's settings: every key, its default, its bounds and what it is for."""

from typing import Annotated

import msgspec
from msgspec import Meta

from wire.address import COLLECTOR_DEFAULT, parse_address
from wire.complaint import Complaint


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of the TOML file."""


class Http(_Section, frozen=True):
    """What the collector serves: the API, the page, `/metrics`."""

    listen: Annotated[
        str,
        Meta(description="Address to serve on, host:port; loopback only, as there are no tokens yet."),
    ] = COLLECTOR_DEFAULT
    max_body_bytes: Annotated[
        int,
        Meta(ge=1024, le=1 << 30, description="Largest request body, unpacked; above it the answer is 413."),
    ] = 8 << 20

    def __post_init__(self) -> None:
        if not parse_address(self.listen).is_loopback:
            raise Complaint(
                f"the collector does not listen on {self.listen}, which other machines can reach, as it has "
                f"no way yet to tell who may: choose a loopback address such as {COLLECTOR_DEFAULT}"
            )


class History(_Section, frozen=True):
    """What is kept on disk."""

    path: Annotated[
        str,
        Meta(description="The SQLite file; `:memory:` keeps nothing. Its folder is made if it is missing."),
    ] = "/var/lib/wattpack/collector.db"
    retention_hours: Annotated[float, Meta(gt=0, le=24 * 366, description="How long samples are kept.")] = 6.0


class Liveness(_Section, frozen=True):
    """When a node counts as silent."""

    silent_after_seconds: Annotated[
        float,
        Meta(
            gt=0,
            le=86_400,
            description="A node not heard of for so long, nor for three of its beacons, counts as silent.",
        ),
    ] = 15.0
    forget_after_hours: Annotated[
        float, Meta(gt=0, le=24 * 366, description="A node silent for so long is no longer listed.")
    ] = 6.0


class CollectorConfig(_Section, frozen=True):
    """The collector's file, `collector.toml`."""

    http: Http = Http()
    history: History = History()
    liveness: Liveness = Liveness()

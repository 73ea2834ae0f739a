"""Where data goes: the collector, the spool in between, and `/metrics`."""

from typing import Annotated

from msgspec import Meta

from agent.config.section import Section
from wire.address import AGENT_DEFAULT, COLLECTOR_DEFAULT, parse_address


class HttpConfig(Section, frozen=True):
    """The agent's own server: `/metrics` and `/healthz`."""

    listen: Annotated[
        str, Meta(description="Address to listen on, host:port. Port 0 chooses a free port.")
    ] = AGENT_DEFAULT
    web_config: Annotated[
        str,
        Meta(
            description="Web configuration file of Prometheus exporters, for TLS and basic authentication."
            " Empty disables both."
        ),
    ] = ""

    names: Annotated[
        str,
        Meta(
            description="Further names of this host, separated by commas. Without `web_config`, requests with"
            " any other Host header are refused. The host name and IP addresses are always accepted."
        ),
    ] = ""

    def __post_init__(self) -> None:
        parse_address(self.listen, "http.listen")

    @property
    def other_names(self) -> frozenset[str]:
        """`names` one by one, in lower case."""
        return frozenset(name for each in self.names.split(",") if (name := each.strip().lower()))


class DeliveryConfig(Section, frozen=True):
    """The collector that receives reports."""

    enabled: Annotated[
        bool, Meta(description="Whether to send reports. `/metrics` is served in either case.")
    ] = True
    url: Annotated[str, Meta(pattern="^https?://", description="URL of the collector.")] = (
        f"http://{COLLECTOR_DEFAULT}"
    )
    timeout_seconds: Annotated[float, Meta(gt=0, le=120, description="Timeout of one request.")] = 10.0
    token_file: Annotated[
        str,
        Meta(
            description="File with this node's token, created by `wattpack token add` on the collector's"
            " host. It is read at every request. Empty sends no token."
        ),
    ] = ""
    ca_file: Annotated[
        str,
        Meta(description="CA file for the collector's certificate, in PEM. Empty uses the system's CAs."),
    ] = ""
    cert_file: Annotated[
        str,
        Meta(
            description="Client certificate file, in PEM, with this node's name. It replaces the token. Empty"
            " sends no certificate."
        ),
    ] = ""
    key_file: Annotated[
        str,
        Meta(
            description="Key file of `cert_file`, in PEM, without a password. Empty if `cert_file` contains"
            " the key."
        ),
    ] = ""


class SpoolConfig(Section, frozen=True):
    """Reports that the collector has not accepted yet, on disk."""

    path: Annotated[
        str,
        Meta(
            description="SQLite file. A missing directory is created. If it is empty or not writable, reports"
            " are kept in memory."
        ),
    ] = "/var/lib/wattpack-agent/spool.db"
    max_bytes: Annotated[
        int,
        Meta(
            ge=1 << 16,
            le=1 << 40,
            description="Maximum size of the spool. Beyond it, the oldest reports are deleted.",
        ),
    ] = 64 << 20
    max_age_hours: Annotated[
        float, Meta(gt=0, le=24 * 366, description="Age at which a report in the spool is deleted.")
    ] = 48.0

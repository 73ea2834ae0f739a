"""What is served, how it is encrypted, who may ask, and how much may wait."""

from typing import Annotated

from msgspec import Meta

from collector.config.section import Section
from wire.address import COLLECTOR_DEFAULT, parse_address
from wire.errors import UserError


class HttpConfig(Section, frozen=True):
    """What the collector serves: the API, the page, `/metrics`."""

    listen: Annotated[
        str,
        Meta(
            description="Address to serve on, host:port; one that other machines can reach needs tokens, and"
            " TLS."
        ),
    ] = COLLECTOR_DEFAULT
    names: Annotated[
        str,
        Meta(
            description="Names by which other machines call the collector, separated by commas; a request by"
            " any other name is refused. Addresses need not be listed."
        ),
    ] = ""
    insecure_plaintext: Annotated[
        bool,
        Meta(
            description="Listen where other machines can reach it even without TLS: whoever can listen on the"
            " way can read every token."
        ),
    ] = False
    max_body_bytes: Annotated[
        int,
        Meta(ge=1024, le=1 << 30, description="Largest request body, unpacked; above it the answer is 413."),
    ] = 8 << 20

    body_timeout_seconds: Annotated[
        float,
        Meta(gt=0, le=3600, description="A body that takes longer to arrive is given up; the answer is 408."),
    ] = 20.0
    max_streams: Annotated[
        int,
        Meta(ge=0, le=10_000, description="So many may listen to `/v1/stream` at once; beyond, 429."),
    ] = 100

    def __post_init__(self) -> None:
        parse_address(self.listen)

    @property
    def other_names(self) -> frozenset[str]:
        """`names` one by one, in small letters."""
        return frozenset(name for each in self.names.split(",") if (name := each.strip().lower()))


class TlsConfig(Section, frozen=True):
    """Encryption of what is served. A renewed file is used from the next connection on."""

    certificate: Annotated[
        str, Meta(description="The certificate, with those that lead to its root, in PEM; empty is no TLS.")
    ] = ""
    key: Annotated[str, Meta(description="Its key, in PEM, without a password.")] = ""
    client_ca: Annotated[
        str,
        Meta(
            description="Who signs the nodes' certificates, in PEM. A node that shows one, with its name in"
            " it, needs no token; empty asks for none."
        ),
    ] = ""

    def __post_init__(self) -> None:
        if bool(self.certificate) != bool(self.key):
            raise UserError("tls.certificate and tls.key belong together: set both, or none")
        if self.client_ca and not self.certificate:
            raise UserError(
                "tls.client_ca needs TLS to ask for certificates: set tls.certificate and tls.key"
            )


class AccessConfig(Section, frozen=True):
    """Who may report and ask."""

    tokens: Annotated[
        str,
        Meta(
            description="The file of tokens, kept by `wattpack token`. Where it exists, everything but"
            " `/healthz` and `/readyz` needs one; empty never asks for any."
        ),
    ] = "/var/lib/wattpack/tokens.jsonl"


class IngestConfig(Section, frozen=True):
    """How much may wait to be kept; beyond, the answer is 429, and agents send it again later."""

    max_waiting_reports: Annotated[
        int, Meta(ge=100, le=1_000_000, description="Reports of all nodes that wait for the history.")
    ] = 5000
    max_waiting_reports_per_node: Annotated[
        int, Meta(ge=100, le=1_000_000, description="Reports of one node, so that it leaves room for others.")
    ] = 300
    max_waiting_bytes: Annotated[
        int,
        Meta(ge=1 << 20, le=1 << 40, description="Bodies that are being read or wait, unpacked, together."),
    ] = 64 << 20

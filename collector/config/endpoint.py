"""Servers that the collector asks."""

from typing import Annotated

from msgspec import Meta

from collector.config.section import Section


class EndpointConfig(Section, frozen=True):
    """A server that is spoken to over HTTP, and who the collector is there."""

    url: Annotated[str, Meta(description="Its address, such as http://prometheus:9090; empty is none.")] = ""
    username: Annotated[str, Meta(description="For basic authentication; empty shows none.")] = ""
    password_file: Annotated[str, Meta(description="The file that holds the password.")] = ""
    token_file: Annotated[str, Meta(description="The file that holds a bearer token; instead of both.")] = ""
    ca_file: Annotated[
        str, Meta(description="Who signs its certificate, in PEM; empty trusts whom the system trusts.")
    ] = ""
    cert_file: Annotated[str, Meta(description="The certificate to show it, in PEM; empty shows none.")] = ""
    key_file: Annotated[str, Meta(description="The key of `cert_file`, unless that holds it too.")] = ""
    timeout_seconds: Annotated[float, Meta(gt=0, le=600, description="Patience with one request.")] = 30.0

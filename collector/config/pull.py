"""Nodes that do not report themselves."""

from typing import Annotated

from msgspec import Meta

from collector.config.endpoint import EndpointConfig


class PullConfig(EndpointConfig, frozen=True):
    """Nodes that are read from a Prometheus which scrapes their agents, instead of reporting here.

    With `history.store = "prometheus"` and no `url`, that store is read: what other collectors put there is
    known here as well.
    """

    every_seconds: Annotated[float, Meta(ge=1, le=3600, description="Time between two looks.")] = 15.0
    settle_seconds: Annotated[
        float,
        Meta(ge=0, le=300, description="How far back a look goes, as scrapes take a while to be seen."),
    ] = 5.0
    node_label: Annotated[
        str, Meta(description="The label that holds a node's name.", pattern="^[a-zA-Z_][a-zA-Z0-9_]*$")
    ] = "instance"
    back_hours: Annotated[
        float,
        Meta(ge=0, le=24 * 31, description="How much of the past is read where nothing is known yet."),
    ] = 24.0

"""The agent's settings: every key, its default, its bounds and what it is for."""

from typing import Annotated

import msgspec
from msgspec import Meta

from wire.address import AGENT_DEFAULT, COLLECTOR_DEFAULT, parse_address


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of the TOML file."""


class Sampling(_Section, frozen=True):
    """How often the host is looked at."""

    period_seconds: Annotated[float, Meta(ge=0.2, le=300, description="Time between two samples.")] = 3.0


class Roots(_Section, frozen=True):
    """Where the kernel's files are mounted; elsewhere when the agent itself runs in a container."""

    proc: Annotated[str, Meta(description="The proc file system.")] = "/proc"
    sys: Annotated[str, Meta(description="The sys file system: cgroups, power meters, block devices.")] = (
        "/sys"
    )


class Docker(_Section, frozen=True):
    """Names, images and services of containers; without it they go by their ids."""

    enabled: Annotated[bool, Meta(description="Ask the engine for names at all.")] = True
    socket: Annotated[str, Meta(description="The engine's socket; Podman's works too.")] = (
        "/var/run/docker.sock"
    )


class Http(_Section, frozen=True):
    """What the agent serves: `/metrics` and `/healthz`."""

    listen: Annotated[str, Meta(description="Address to serve on, host:port. Port 0 takes a free one.")] = (
        AGENT_DEFAULT
    )

    def __post_init__(self) -> None:
        parse_address(self.listen)


class Collector(_Section, frozen=True):
    """Where reports go."""

    enabled: Annotated[
        bool, Meta(description="Send reports at all; `/metrics` is served with or without a collector.")
    ] = True
    url: Annotated[str, Meta(pattern="^https?://", description="The collector's address.")] = (
        f"http://{COLLECTOR_DEFAULT}"
    )
    timeout_seconds: Annotated[float, Meta(gt=0, le=120, description="Patience with one request.")] = 10.0
    queue_bytes: Annotated[
        int,
        Meta(
            ge=1 << 16,
            le=1 << 30,
            description="Memory for reports while the collector is away; then the oldest are dropped.",
        ),
    ] = 8 << 20


class AgentConfig(_Section, frozen=True):
    """The agent's file, `agent.toml`."""

    node: Annotated[
        str, Meta(max_length=253, description="This node's name; empty takes the host's name.")
    ] = ""
    sampling: Sampling = Sampling()
    roots: Roots = Roots()
    docker: Docker = Docker()
    http: Http = Http()
    collector: Collector = Collector()

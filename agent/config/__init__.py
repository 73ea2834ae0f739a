"""The agent's settings: every key, its default, its bounds and what it is for."""

from typing import Annotated

import msgspec
from msgspec import Meta

from wire.address import AGENT_DEFAULT, COLLECTOR_DEFAULT, parse_address


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of the TOML file."""


class SamplingConfig(_Section, frozen=True):
    """How often the host is looked at."""

    period_seconds: Annotated[float, Meta(ge=0.2, le=300, description="Time between two samples.")] = 3.0


class ReportingConfig(_Section, frozen=True):
    """What is said to the collector, and how seldom."""

    host_window_seconds: Annotated[
        float,
        Meta(
            gt=0, le=3600, description="Samples of the host are averaged over so long before they are judged."
        ),
    ] = 30.0
    container_window_seconds: Annotated[
        float, Meta(gt=0, le=3600, description="The same for containers.")
    ] = 45.0
    threshold_points: Annotated[
        float,
        Meta(
            ge=0,
            le=100,
            description="A window is sent when a resource moved by so many percentage points of its capacity,"
            " or of the container's limit, since it was last sent; 0 sends every window.",
        ),
    ] = 10.0
    beacon_seconds: Annotated[
        float, Meta(ge=1, le=3600, description="After so long without a word, the node says that it lives.")
    ] = 30.0
    heartbeat_seconds: Annotated[
        float,
        Meta(
            ge=1,
            le=86_400,
            description="The full state, and a histogram of every sample, are sent this often.",
        ),
    ] = 300.0
    top_containers: Annotated[
        int,
        Meta(
            ge=0, le=100, description="How many of the greediest containers a heartbeat names per resource."
        ),
    ] = 3


class BottleneckConfig(_Section, frozen=True):
    """When the node calls itself short of a resource. A limit of 0 turns that sign off."""

    cpu_ratio: Annotated[float, Meta(ge=0, le=1, description="CPU in use, of all cores.")] = 0.9
    memory_ratio: Annotated[float, Meta(ge=0, le=1, description="Memory in use, of all memory.")] = 0.9
    disk_ratio: Annotated[float, Meta(ge=0, le=1, description="How busy the busiest disk is.")] = 0.9
    iowait_ratio: Annotated[float, Meta(ge=0, le=1, description="CPU time spent waiting for disks.")] = 0.3
    network_ratio: Annotated[float, Meta(ge=0, le=1, description="Traffic, of what the links can carry.")] = (
        0.9
    )
    cpu_pressure_ratio: Annotated[
        float, Meta(ge=0, le=1, description="Share of the time in which something waited for a CPU (PSI).")
    ] = 0.6
    memory_pressure_ratio: Annotated[
        float, Meta(ge=0, le=1, description="Share of the time in which something waited for memory (PSI).")
    ] = 0.2
    disk_pressure_ratio: Annotated[
        float, Meta(ge=0, le=1, description="Share of the time in which something waited for a disk (PSI).")
    ] = 0.5
    samples: Annotated[
        int, Meta(ge=1, le=1000, description="A sign must hold for so many samples in a row to be believed.")
    ] = 4
    hysteresis_points: Annotated[
        float,
        Meta(
            ge=0,
            le=100,
            description="It ends only so many percentage points below the limit, for as many samples.",
        ),
    ] = 10.0


class SpoolConfig(_Section, frozen=True):
    """Reports that the collector has not taken yet, on disk."""

    path: Annotated[
        str,
        Meta(
            description="The file; its folder is made if it is missing. Empty, or where it cannot be written,"
            " reports are kept in memory."
        ),
    ] = "/var/lib/wattpack-agent/spool.db"
    max_bytes: Annotated[
        int,
        Meta(ge=1 << 16, le=1 << 40, description="Room for reports; when it is full the oldest are dropped."),
    ] = 64 << 20
    max_age_hours: Annotated[
        float, Meta(gt=0, le=24 * 366, description="Reports older than this are dropped.")
    ] = 48.0


class HostConfig(_Section, frozen=True):
    """What counts as the host, and what it can do."""

    cgroup: Annotated[
        str,
        Meta(
            description="A cgroup to take as the host, such as /node1 or /lxc/web: its limits are the"
            " capacity, its use is the use. Empty takes the whole machine."
        ),
    ] = ""
    disk_bytes_per_second: Annotated[
        float, Meta(ge=0, description="What the disks can do together; 0 learns it as the most ever seen.")
    ] = 0.0
    network_bytes_per_second: Annotated[
        float,
        Meta(ge=0, description="What the links can carry; 0 asks them, or learns it as the most ever seen."),
    ] = 0.0


class RootsConfig(_Section, frozen=True):
    """Where the kernel's files are mounted; elsewhere when the agent itself runs in a container."""

    proc: Annotated[str, Meta(description="The proc file system.")] = "/proc"
    sys: Annotated[str, Meta(description="The sys file system: cgroups, power meters, block devices.")] = (
        "/sys"
    )


class PowerConfig(_Section, frozen=True):
    """How watts are found where no meter tells all."""

    model: Annotated[
        str,
        Meta(
            description="This host's own power model, as `wattpack calibrate` made it or as the agent"
            " learned it from a meter; empty keeps none."
        ),
    ] = "/var/lib/wattpack-agent/model.json"
    accounts: Annotated[
        str,
        Meta(
            description="Where joules are kept, so that their counters go on over restarts; empty keeps none."
        ),
    ] = "/var/lib/wattpack-agent/energy.json"
    idle_policy: Annotated[
        str,
        Meta(
            pattern="^(none|equal|by-use|by-reservation)$",
            description="How the node's idle power is shared out to containers, beside what they add"
            " themselves: none, equal, by-use or by-reservation.",
        ),
    ] = "none"


class DockerConfig(_Section, frozen=True):
    """Names, images and services of containers; without it they go by their ids."""

    enabled: Annotated[bool, Meta(description="Ask the engine for names at all.")] = True
    socket: Annotated[str, Meta(description="The engine's socket; Podman's works too.")] = (
        "/var/run/docker.sock"
    )


class HttpConfig(_Section, frozen=True):
    """What the agent serves: `/metrics` and `/healthz`."""

    listen: Annotated[str, Meta(description="Address to serve on, host:port. Port 0 takes a free one.")] = (
        AGENT_DEFAULT
    )

    web_config: Annotated[
        str,
        Meta(
            description="A web configuration file as Prometheus' exporters take it, for TLS and basic"
            " authentication; empty serves plainly."
        ),
    ] = ""

    def __post_init__(self) -> None:
        parse_address(self.listen)


class DeliveryConfig(_Section, frozen=True):
    """Where reports go."""

    enabled: Annotated[
        bool, Meta(description="Send reports at all; `/metrics` is served with or without a collector.")
    ] = True
    url: Annotated[str, Meta(pattern="^https?://", description="The collector's address.")] = (
        f"http://{COLLECTOR_DEFAULT}"
    )
    timeout_seconds: Annotated[float, Meta(gt=0, le=120, description="Patience with one request.")] = 10.0
    token_file: Annotated[
        str,
        Meta(
            description="A file that holds this node's token, as `wattpack token add node NAME` showed it on"
            " the collector's host; read at every request. Empty shows none."
        ),
    ] = ""
    ca_file: Annotated[
        str,
        Meta(
            description="Who signs the collector's certificate, in PEM; empty trusts whom this host trusts."
        ),
    ] = ""
    certificate_file: Annotated[
        str,
        Meta(description="A certificate with this node's name in it, in PEM, instead of a token."),
    ] = ""
    key_file: Annotated[
        str, Meta(description="Its key, in PEM, without a password; empty if it stands in the same file.")
    ] = ""


class AgentConfig(_Section, frozen=True):
    """The agent's file, `agent.toml`."""

    node: Annotated[
        str, Meta(max_length=253, description="This node's name; empty takes the host's name.")
    ] = ""
    sampling: SamplingConfig = SamplingConfig()
    host: HostConfig = HostConfig()
    push: ReportingConfig = ReportingConfig()
    bottleneck: BottleneckConfig = BottleneckConfig()
    power: PowerConfig = PowerConfig()
    roots: RootsConfig = RootsConfig()
    docker: DockerConfig = DockerConfig()
    http: HttpConfig = HttpConfig()
    collector: DeliveryConfig = DeliveryConfig()
    spool: SpoolConfig = SpoolConfig()

"""The settings of the agent's core: every key with its default, its bounds and its meaning.

The values are validated on creation; only the command reads files. Each feature has a table of its own.
"""

from pathlib import Path
from typing import Annotated

from msgspec import Meta

from wire.address import AGENT_DEFAULT, COLLECTOR_DEFAULT, parse_address
from wire.settings import Section, Settings


class SamplingConfig(Section, frozen=True):
    """How often the host is sampled."""

    interval_seconds: Annotated[float, Meta(ge=0.2, le=300)] = 3.0
    """Time between two samples."""


class HostConfig(Section, frozen=True):
    """What counts as the host, and its capacity."""

    root: str = "/"
    """Directory in which `proc` and `sys` of the host are mounted, such as /host if the agent runs in a
    container with `-v /:/host:ro`."""
    cgroup: str = ""
    """Cgroup to treat as the host, such as /node1 or /lxc/web: its limits are the capacity, its usage is the
    usage, and its share of the machine's power is its CPU limit divided by the machine's cores. Empty is the
    whole machine."""
    disk_bytes_per_second: Annotated[float, Meta(ge=0, le=1e15)] = 0.0
    """Bandwidth of all disks together. 0 uses the highest bandwidth observed so far."""
    network_bytes_per_second: Annotated[float, Meta(ge=0, le=1e15)] = 0.0
    """Bandwidth of all network interfaces together. 0 uses their link speed or, if they do not report one,
    the highest bandwidth observed so far. That does not show which services are limited by the network: on
    most virtual machines, set it."""

    @property
    def proc(self) -> Path:
        return Path(self.root, "proc")

    @property
    def sys(self) -> Path:
        """The sys file system of the host: cgroups, power meters, network interfaces."""
        return Path(self.root, "sys")


class PowerConfig(Section, frozen=True):
    """How power is estimated, and divided among containers."""

    idle_policy: Annotated[str, Meta(pattern="^(none|equal|by-use|by-reservation)$")] = "none"
    """How the idle power of the node is divided among containers: `none`, `equal`, `by-use` or
    `by-reservation`. The shares are reported separately from the power that containers add."""
    rapl_reader: Annotated[str, Meta(pattern="^(kernel|pyrapl)$")] = "kernel"
    """How RAPL counters are read: `kernel` from the kernel's files, `pyrapl` through the library pyRAPL
    (install wattpack[pyrapl])."""


class DockerConfig(Section, frozen=True):
    """The engine that provides names, images and labels. Without it, containers are listed by ID."""

    socket: str = "/var/run/docker.sock"
    """Socket of the Docker engine, or of Podman. Empty connects to no engine."""


class ReportingConfig(Section, frozen=True):
    """When a report is sent to the collector, and what it contains."""

    window_seconds: Annotated[float, Meta(gt=0, le=3600)] = 30.0
    """Window over which samples of the host are averaged; for a container, half as long again. A window
    contains at least one sample."""
    threshold_points: Annotated[float, Meta(ge=0, le=100)] = 10.0
    """Change that causes a report: percentage points of the host's capacity, or of the container's limit,
    since the last reported window. 0 reports every window. A container without a limit is also reported when
    its usage has doubled or halved, next four times and so on until the next full report; small amounts,
    which for all containers together are less than this share of the host, count as nothing."""
    beacon_seconds: Annotated[float, Meta(ge=1, le=3600)] = 30.0
    """Maximum time between two reports. If nothing changed, an empty report shows that the node is up."""
    heartbeat_seconds: Annotated[float, Meta(ge=1, le=86_400)] = 300.0
    """Time between two full reports, with all containers and a histogram of all samples."""

    @property
    def container_window_seconds(self) -> float:
        return 1.5 * self.window_seconds


class BottleneckConfig(Section, frozen=True):
    """When a resource of the node is a bottleneck. A limit of 0 disables its check."""

    usage_ratio: Annotated[float, Meta(ge=0, le=1)] = 0.9
    """Limit of usage: of all cores, of all memory, of the time that the busiest disk is active, and of the
    link speed of the network."""
    cpu_pressure_ratio: Annotated[float, Meta(ge=0, le=1)] = 0.6
    """Limit of the share of time that tasks wait for a CPU (PSI)."""
    memory_pressure_ratio: Annotated[float, Meta(ge=0, le=1)] = 0.2
    """Limit of the share of time that tasks wait for memory (PSI)."""
    disk_pressure_ratio: Annotated[float, Meta(ge=0, le=1)] = 0.5
    """Limit of the share of time that tasks wait for a disk (PSI). 0 also disables the check of I/O wait."""
    samples: Annotated[int, Meta(ge=1, le=1000)] = 4
    """Consecutive samples above a limit that open an alert. It closes after as many in which all values are
    lower than their limits by ten percentage points."""


class HttpConfig(Section, frozen=True):
    """The agent's own server: `/metrics` and `/healthz`."""

    listen: str = AGENT_DEFAULT
    """Address to listen on, host:port. Port 0 chooses a free port."""
    web_config: str = ""
    """Web configuration file of Prometheus exporters, for TLS and basic authentication. Empty disables
    both."""

    names: str = ""
    """Further names of this host, separated by commas. Without `web_config`, requests with any other Host
    header are refused. The host name and IP addresses are always accepted."""

    def __post_init__(self) -> None:
        parse_address(self.listen, "http.listen")

    @property
    def other_names(self) -> frozenset[str]:
        """`names` one by one, in lower case."""
        return frozenset(name for each in self.names.split(",") if (name := each.strip().lower()))


class DeliveryConfig(Section, frozen=True):
    """The collector that receives reports."""

    enabled: bool = True
    """Whether to send reports. `/metrics` is served in either case."""
    url: Annotated[str, Meta(pattern="^https?://")] = f"http://{COLLECTOR_DEFAULT}"
    """URL of the collector."""
    token_file: str = ""
    """File with this node's token, created by `wattpack token add` on the collector's host. It is read at
    every request. Empty sends no token."""
    ca_file: str = ""
    """CA file for the collector's certificate, in PEM. Empty uses the system's CAs."""
    cert_file: str = ""
    """Client certificate file, in PEM, with this node's name. It replaces the token. Empty sends no
    certificate."""
    key_file: str = ""
    """Key file of `cert_file`, in PEM, without a password. Empty if `cert_file` contains the key."""


class StorageConfig(Section, frozen=True):
    """Files of the agent: reports that wait for the collector, energy counters, the power model."""

    directory: str = "/var/lib/wattpack-agent"
    """Directory of the files `spool.db`, `energy.json` and `model.json`; created if it is missing. If it is
    empty or not writable, reports are kept in memory, and energy counters start at 0 after each restart."""
    spool_max_bytes: Annotated[int, Meta(ge=1 << 16, le=1 << 40)] = 64 << 20
    """Maximum size of the reports on disk. Beyond it, the oldest are deleted."""

    @property
    def spool(self) -> Path | None:
        """The file with the reports; None if they are kept in memory."""
        return self._file("spool.db")

    @property
    def energy(self) -> Path | None:
        return self._file("energy.json")

    @property
    def model(self) -> Path | None:
        """The file with the power model of this host, calibrated or learned from a meter."""
        return self._file("model.json")

    def _file(self, name: str) -> Path | None:
        return Path(self.directory, name) if self.directory else None


class AgentConfig(Settings, frozen=True):
    """The core of the agent's file, `agent.toml`; `agent.features.settings_class` is the whole."""

    node: Annotated[str, Meta(max_length=253)] = ""
    """Name of this node. Empty is the host name."""
    sampling: SamplingConfig = SamplingConfig()
    host: HostConfig = HostConfig()
    reporting: ReportingConfig = ReportingConfig()
    bottleneck: BottleneckConfig = BottleneckConfig()
    power: PowerConfig = PowerConfig()
    docker: DockerConfig = DockerConfig()
    http: HttpConfig = HttpConfig()
    collector: DeliveryConfig = DeliveryConfig()
    storage: StorageConfig = StorageConfig()

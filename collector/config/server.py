"""The address of the collector, TLS, tokens, and limits of requests and reports."""

from typing import Annotated, ClassVar

from msgspec import Meta

from wire.address import COLLECTOR_DEFAULT, parse_address
from wire.errors import UserError
from wire.resources import Quantities
from wire.settings import Section


class HttpConfig(Section, frozen=True):
    """The API, the page and `/metrics`."""

    listen: str = COLLECTOR_DEFAULT
    """Address to listen on, host:port. An address that other machines can reach requires tokens and TLS."""
    names: str = ""
    """Host names of the collector, separated by commas. Requests with any other host name are refused. IP
    addresses need not be listed."""
    insecure_plaintext: bool = False
    """Allow an address that other machines can reach without TLS. Anyone on the network path can then read
    the tokens."""
    max_body_bytes: Annotated[int, Meta(ge=1024, le=1 << 30)] = 8 << 20
    """Maximum size of a request body after decompression. Larger bodies get status 413."""

    body_timeout_seconds: ClassVar[float] = 20.0
    """Maximum time to receive a body. Slower requests get status 408."""
    max_streams: ClassVar[int] = 100
    """Maximum number of clients of `/v1/stream`, of which at most a quarter may use the same token.
    Further clients get status 429."""

    def __post_init__(self) -> None:
        parse_address(self.listen, "http.listen")

    @property
    def other_names(self) -> frozenset[str]:
        """`names` as a set, in lower case."""
        return frozenset(name for each in self.names.split(",") if (name := each.strip().lower()))


class TlsConfig(Section, frozen=True):
    """TLS of the server. A renewed file is used from the next connection on."""

    certificate: str = ""
    """Certificate file in PEM, with intermediate certificates. Empty disables TLS."""
    key: str = ""
    """Private key file in PEM, without a password."""
    client_ca: str = ""
    """CA file for client certificates of nodes, in PEM. A node whose certificate carries its name needs no
    token. Empty accepts no client certificates."""

    def __post_init__(self) -> None:
        if bool(self.certificate) != bool(self.key):
            raise UserError("tls.certificate and tls.key belong together: set both, or none")
        if self.client_ca and not self.certificate:
            raise UserError("tls.client_ca requires TLS: set tls.certificate and tls.key")


class AccessConfig(Section, frozen=True):
    """Access to the collector."""

    tokens: str = "/var/lib/wattpack/tokens.jsonl"
    """Token file, managed by `wattpack token`. If it exists, every path except `/healthz` and `/readyz`
    requires a token. Empty never requires one."""
    max_joins: Annotated[int, Meta(ge=1, le=1_000_000)] = 100
    """Maximum number of nodes that join with the same join token. Each node has its own share of the
    collector's memory and history."""
    schedulers: str = ""
    """Names in client certificates of schedulers, separated by commas, such as system:kube-scheduler. Such a
    certificate replaces a token of kind `place`; every other certificate is that of a node."""

    @property
    def scheduler_names(self) -> frozenset[str]:
        return frozenset(name for each in self.schedulers.split(",") if (name := each.strip()))


class LimitsConfig(Section, frozen=True):
    """Limits per node. Reported data beyond them is refused, counted and shown as an alert."""

    max_containers: Annotated[int, Meta(ge=1, le=1_000_000)] = 2500
    """Maximum number of running containers of a node, which take up to 6.7 kB of memory each, labels
    included, and as much again for their usage. The default is the highest number of pods per node that a
    Kubernetes distribution supports."""
    max_new_containers_per_hour: ClassVar[int] = 20_000
    """Maximum number of containers of a node that are new, or change their name, image, labels or limits,
    in an hour. The default is more than five a second, as on a busy CI host."""
    max_labels: ClassVar[int] = 256
    """Maximum number of labels of a container. Labels `wattpack.*` are kept first."""
    max_waiting_reports: ClassVar[int] = 5000
    """Maximum number of reports of all nodes that wait to be stored. Beyond it, and beyond the next four
    limits, the status is 429, and agents retry."""
    max_waiting_reports_per_node: ClassVar[int] = 300
    """Maximum number of waiting reports of one node."""
    max_waiting_bytes: ClassVar[int] = 64 << 20
    """Maximum total size of bodies that are being received or wait, after decompression."""
    max_reports_per_second: ClassVar[float] = 20.0
    """Maximum rate of reports of one node, as a mean over a minute: four times what an agent sends with the
    shortest `sampling.interval_seconds`."""
    max_bytes_per_second: ClassVar[int] = 128 << 10
    """Maximum rate of bodies of one node after decompression, as a mean over a minute: an agent sends 2500
    containers with 3 kB of labels each every minute, and a full spool of the default size in about nine
    minutes."""
    bytes_per_container: ClassVar[int] = 6700
    """Memory of the collector for one container of a node: 3 kB, and 3 kB of labels."""
    max_node_watts: Annotated[float, Meta(gt=0, le=1e9)] = 50_000.0
    """Maximum power of a node, and of its containers together. Energy counters that advance faster count at
    this rate. The default is more than any single machine draws; set it a little above the largest machine of
    the cluster."""
    max_node_cpu_cores: Annotated[float, Meta(gt=0, le=1e6)] = 8192.0
    """Maximum number of CPU cores of a node: more count as this many. The default is the most that a Linux
    kernel supports; set it to that of the largest machine of the cluster."""
    max_node_memory_bytes: Annotated[int, Meta(gt=0, le=2**62)] = 64 << 40
    """Maximum memory of a node. The default is more than any single machine has; set it to that of the
    largest machine of the cluster."""
    max_node_bytes_per_second: ClassVar[float] = 1e12
    """Maximum throughput of the disks of a node, and of its network."""

    @property
    def max_node_capacity(self) -> Quantities:
        """Maximum capacity of a node."""
        most = self.max_node_bytes_per_second
        return Quantities(self.max_node_cpu_cores, self.max_node_memory_bytes, most, most)

    @property
    def max_bytes(self) -> int:
        """Maximum memory for the containers of a node; their usage may take as much again."""
        return self.max_containers * self.bytes_per_container

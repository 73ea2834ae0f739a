"""The protocol between agent and collector.

An agent sends batches of `Report` to `POST /v1/reports`, oldest first; the collector stores a batch and
answers with a `Receipt`. Messages are JSON. Decoding is strict: an unknown field, or a value out of range, is
an error that names the field.

Times are Unix times in seconds by the node's clock. Ratios are 0-1. A field with its default value is not
sent, and an absent value is unknown, never zero.
"""

from enum import StrEnum
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from wire.resources import Quantities, Resource
from wire.sketch import Sketch

# Every number is bounded: above what a host can have, and so low that sums and products stay exact enough.
Time = Annotated[float, Meta(ge=0, le=1e11)]
"""A Unix time: the clock of a kernel ends at 9.2e9."""
PastTime = Annotated[float, Meta(ge=-1e11, le=1e11)]
Seconds = Annotated[float, Meta(ge=0, le=1e11)]
Interval = Annotated[float, Meta(ge=0, le=86_400)]
"""Seconds between two samples or reports of an agent: a day, the longest interval of its settings."""
CpuSeconds = Annotated[float, Meta(ge=0, le=1e15)]
"""Enough for all cores of the largest host, for centuries."""
Joules = Annotated[float, Meta(ge=0, le=1e18)]
"""A megawatt for thousands of years."""
Watts = Annotated[float, Meta(ge=0, le=1e9)]
Ratio = Annotated[float, Meta(ge=0, le=1e12)]
Load = Annotated[float, Meta(ge=0, le=1e9)]
Hertz = Annotated[float, Meta(ge=0, le=1e12)]
ExitCode = Annotated[int, Meta(ge=-(2**31), le=2**32 - 1)]
PowerWeight = Annotated[float, Meta(ge=0.1, le=10)]
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
MAX_NAME_LENGTH = 253
MAX_TEXT_LENGTH = 1024
MAX_IMAGES = 256
"""Names of images in one report."""
MAX_PROBED_CONTAINERS = 100
"""Services whose response times are in one report."""
MAX_PROBE_SECONDS = 60.0
"""Longest timeout of a request that measures a response time."""
PROBE_LABEL = "wattpack.probe"
"""Label of a container that agents probe: its port, and a path."""
Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_LENGTH)]
Text = Annotated[str, Meta(max_length=MAX_TEXT_LENGTH)]


class PowerSource(StrEnum):
    """Source of a power value, from the most to the least direct: meters, a fitted model, a generic model."""

    RAPL = "rapl"
    HWMON = "hwmon"
    IPMI = "ipmi"
    MODEL = "model"
    PRIOR = "prior"


class PowerScope(StrEnum):
    """The part of a machine that a power value covers."""

    MACHINE = "machine"
    """The whole machine at the wall; in a virtual machine, its share of the host."""
    CPU_AND_MEMORY = "cpu-and-memory"
    CPU = "cpu"


MachineScope = Literal["machine"]
"""Watts and joules in reports are those of the whole machine, so that nodes can be compared and added."""


AVERAGE_WEIGHT = 1.0
"""The weight of a container whose own is not learned. Encoders leave out this object, and no equal one."""


class _Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """Base of all messages: strict and immutable.

    No message can contain itself, so the garbage collector does not have to track the many that are stored.
    """


class NodePower(_Message, frozen=True, omit_defaults=False):
    """Power of a node: `watts` is `idle_watts` plus `system_watts` plus the `watts` of all containers."""

    watts: Watts
    idle_watts: Watts
    system_watts: Watts
    """Power of processes outside containers."""
    source: PowerSource
    error_ratio: Ratio
    """Expected relative error of `watts`: 0.25 means plus or minus 25%."""
    joules_total: Joules
    """Energy counter of the node. It never decreases and continues after a restart of the agent."""
    scope: MachineScope = "machine"
    """What the watts and joules of the node and its containers cover."""
    source_scope: PowerScope = PowerScope.MACHINE
    """What `source` covers. If that is less than the machine, the rest is estimated from its hardware."""


class ContainerPower(_Message, frozen=True):
    """Power that a container adds to the idle power of its node."""

    watts: Watts
    source: PowerSource
    error_ratio: Ratio
    joules_total: Joules
    idle_watts: Watts = 0.0
    """Share of the node's idle power, by the agent's `power.idle_policy`. Not included in `watts`."""
    power_weight: PowerWeight = AVERAGE_WEIGHT
    """Power of its CPU time relative to the average of the node: 2 means twice as much per core.

    1 unless the agent has learned it from a meter.
    """


class Pressure(_Message, frozen=True):
    """Share of time in which at least one task waited for the resource (PSI "some")."""

    cpu_ratio: Ratio | None = None
    memory_ratio: Ratio | None = None
    disk_ratio: Ratio | None = None

    @property
    def values(self) -> tuple[float | None, float | None, float | None]:
        """The ratios in the order of `RESOURCES`, of which the network has none."""
        return self.cpu_ratio, self.memory_ratio, self.disk_ratio


class Gap(_Message, frozen=True):
    """Something that the agent cannot measure on this node: what is missing, and why."""

    what: Text
    """What is missing."""
    why: Text


class ContainerState(_Message, frozen=True):
    """One running container. Rates and levels are means over a window."""

    id: Name
    """ID of the container in its runtime."""
    name: Name
    """Name of the container in its runtime, or the first 12 characters of its ID if the name is unknown."""
    runtime: Name
    """`docker`, `podman`, `containerd`, `cri-o` or `buildkit`."""
    cpu_seconds_total: CpuSeconds
    used: Quantities
    window_seconds: Seconds = 0.0
    """Length of the window over which `used`, `pressure` and `power.watts` are averaged."""
    limit: Quantities = Quantities()
    pressure: Pressure = Pressure()
    power: ContainerPower | None = None
    cpu_throttled_seconds_total: CpuSeconds | None = None
    oom_kills_total: Count | None = None
    restarts: Count | None = None
    image: Text | None = None
    service: Text | None = None
    """Swarm service, Compose `project/service`, or Kubernetes `namespace/workload` of the container."""
    labels: dict[Text, Text] = {}
    started_at: PastTime | None = None


class NodeState(_Message, frozen=True):
    """One host. Rates and levels are means over a window."""

    used: Quantities
    capacity: Quantities
    window_seconds: Seconds = 0.0
    learned_capacities: Annotated[tuple[Resource, ...], Meta(max_length=4)] = ()
    """Resources whose capacity is unknown. Their value in `capacity` is the highest usage observed so far."""
    pressure: Pressure = Pressure()
    power: NodePower | None = None
    load_1m: Load | None = None
    frequency_hertz: Hertz | None = None
    iowait_ratio: Ratio | None = None
    steal_ratio: Ratio | None = None
    swap_used_bytes: Count | None = None
    disk_busy_ratio: Ratio | None = None
    """Share of time in which the busiest disk was active."""
    oom_kills_total: Count | None = None
    gaps: Annotated[tuple[Gap, ...], Meta(max_length=256)] = ()


class EventKind(StrEnum):
    """Type of an event."""

    JOINED = "joined"
    """The agent of the node started."""
    STARTED = "started"
    STOPPED = "stopped"
    """The container exited with status 0, or its exit status is unknown."""
    DIED = "died"
    """The container exited with another status, or by a signal."""
    OUT_OF_MEMORY = "out-of-memory"
    """The kernel killed a process of the container because memory ran out."""


class Event(_Message, frozen=True):
    """A start, an exit or an out-of-memory kill. It is reported at the next sample."""

    kind: EventKind
    """What happened."""
    at: Time
    container: Name | None = None
    name: Name | None = None
    """Name of the container."""
    lifetime_seconds: Seconds | None = None
    """Of a container that ended: time since its start."""
    startup_seconds: Seconds | None = None
    """Of a container that started: time since the runtime created it."""
    exit_code: ExitCode | None = None
    cpu_seconds_total: CpuSeconds | None = None
    """Of a container that ended: CPU time used up to the last sample."""
    joules_total: Joules | None = None
    """Of a container that ended: energy used up to the last sample."""


class Alert(_Message, frozen=True):
    """A resource of the node is, or was, a bottleneck. `(node, resource, opened_at)` identifies the alert.

    The report that opens or changes an alert also has the state of the node and of the named container in the
    last sample.
    """

    resource: Resource
    opened_at: Time
    evidence: Text
    """Measurements as text: "CPU at 97% of 4 cores for 12 s; tasks waited for a CPU 61% of the time"."""
    ratio: Ratio | None = None
    """Usage as a share of capacity in the last sample."""
    pressure_ratio: Ratio | None = None
    excess_ratio: Annotated[float, Meta(ge=0, le=1)] | None = None
    """Share of the indicator that must go before the alert closes, of the indicator that needs the most.

    An indicator at 96% that must fall below 80% has an excess of a sixth. If tasks wait for memory, it is a
    share of the usage.
    """
    by_time: bool = False
    """Whether that indicator is a share of time (the resource was busy, or waited for), not of capacity."""
    closed_at: Time | None = None
    container: Name | None = None
    """ID of the container with the highest usage of the resource."""
    name: Name | None = None
    """Name of that container."""


class ContainerUsage(_Message, frozen=True):
    """Histograms of all samples of one container since the last heartbeat, in the units of `Quantities`."""

    id: Name
    """ID of the container in its runtime."""
    cpu: Sketch | None = None
    """CPU usage, in cores; absent if unknown."""
    memory: Sketch | None = None
    """Memory usage, in bytes; absent if unknown."""
    disk: Sketch | None = None
    """Disk throughput, in bytes per second; absent if unknown."""
    network: Sketch | None = None
    """Network traffic, in bytes per second; absent if unknown."""

    @property
    def samples(self) -> int:
        """How many samples there are: of the resource that was measured most often."""
        sketches = (self.cpu, self.memory, self.disk, self.network)
        return max([sketch.count for sketch in sketches if sketch is not None], default=0)


class PowerCurve(_Message, frozen=True):
    """Power model of a node as points of a curve, to estimate its power at another load."""

    source: PowerSource
    error_ratio: Ratio
    idle_watts: Watts
    cpu_ratios: Annotated[tuple[Ratio, ...], Meta(min_length=2, max_length=100)]
    """CPU usage at each point, as a share of the capacity, ascending."""
    cpu_watts: Annotated[tuple[Watts, ...], Meta(min_length=2, max_length=100)]
    """Power added to `idle_watts` at each of `cpu_ratios`."""
    memory_watts: Watts = 0.0
    """Power added at full usage of memory."""
    disk_watts: Watts = 0.0
    """Power added at full throughput of the disks."""
    network_watts: Watts = 0.0
    """Power added at full throughput of the network."""
    scope: MachineScope = "machine"
    source_scope: PowerScope = PowerScope.MACHINE
    """What `source` covers, as in `NodePower`."""


class Heartbeat(_Message, frozen=True):
    """Marks a full report, which replaces everything that earlier reports contained. The first is one."""

    agent_version: Name
    sample_seconds: Interval
    beacon_seconds: Interval
    """Maximum time between two reports of this node."""
    usage: tuple[ContainerUsage, ...] = ()
    """Histograms of the samples of each container since the last heartbeat."""
    top: dict[Resource, Annotated[tuple[Name, ...], Meta(max_length=100)]] = {}
    """IDs of the containers with the highest usage since the last heartbeat, per resource, highest first."""
    power_curve: PowerCurve | None = None
    machine: Name | None = None
    """Hash of the machine's id, which tells two machines of the same name apart."""


class ContainerProbe(_Message, frozen=True):
    """Response times of a container on this node, since the last report with them."""

    container: Name
    """Its id."""
    seconds: Sketch
    """Histogram of the response times; a failed request counts with the agent's timeout."""
    failed: Count = 0
    """Requests that failed: no answer in time, or a server error."""


class Report(_Message, frozen=True):
    """One report of a node. Each part is present only if it changed since the last report.

    `(node, boot, sequence)` is the key: `boot` identifies one run of the agent, `sequence` numbers its
    reports from 1. A report that arrives twice is stored once. A report without any part is a beacon: it
    shows that the node is up.
    """

    node: Name
    boot: Name
    """Id of one run of the agent."""
    sequence: Annotated[int, Meta(ge=1, le=2**63 - 1)]
    """Number of the report in this run, from 1."""
    at: Time
    """Time of the sample."""
    state: NodeState | None = None
    """The node itself."""
    containers: tuple[ContainerState, ...] = ()
    """Containers that are new or changed; with `heartbeat`, all running containers."""
    gone: tuple[Name, ...] = ()
    """IDs of containers that no longer run."""
    events: tuple[Event, ...] = ()
    alerts: tuple[Alert, ...] = ()
    """Alerts that opened, changed or closed; with `heartbeat`, also all open alerts."""
    heartbeat: Heartbeat | None = None
    """Present if this is a full report."""
    images: Annotated[tuple[Name, ...], Meta(max_length=MAX_IMAGES)] | None = None
    """Names of the images that the engine of the node has, with tag or digest: the newest, if there are more.
    Sent when they changed, and every hour."""
    probes: Annotated[tuple[ContainerProbe, ...], Meta(max_length=MAX_PROBED_CONTAINERS)] = ()
    """Response times of services with the label `wattpack.probe`."""


class Receipt(_Message, frozen=True):
    """The collector's response to a batch, after it is stored. The three counts add up to its size."""

    accepted: int
    """Number of reports that are new."""
    duplicates: int
    """Number of reports that were stored before."""
    rejected: int
    """Number of reports that the collector failed to store, which is a bug.

    A batch with an invalid report is rejected as a whole, with an error.
    """
    server_time: float
    """Unix time by the collector's clock."""


MAX_BATCH = 100

Batch = Annotated[tuple[Report, ...], Meta(min_length=1, max_length=MAX_BATCH)]

_encoder = msgspec.json.Encoder()
_batch_decoder = msgspec.json.Decoder(Batch)


def encode(message: object) -> bytes:
    """Encode a message as JSON."""
    return _encoder.encode(message)


def parse_batch(body: bytes) -> tuple[Report, ...]:
    """Parse the JSON body of a request; raises `msgspec.ValidationError`, which names the invalid field."""
    return _batch_decoder.decode(body)


def parse_receipt(body: bytes) -> Receipt:
    """Parse the collector's response."""
    return msgspec.json.decode(body, type=Receipt)

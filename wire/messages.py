"""What an agent tells a collector, and how it is written down.

A message is encoded once when it leaves and decoded once at the collector's door; between the two
it is JSON. Decoding is strict: an unknown or impossible
field is an error that names it.
"""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from wire.resources import MAX_VALUE, Quantities, Resource
from wire.sketch import Sketch

NonNegative = Annotated[float, Meta(ge=0, le=MAX_VALUE)]
Ratio = Annotated[float, Meta(ge=0, le=MAX_VALUE)]
Time = Annotated[float, Meta(ge=-MAX_VALUE, le=MAX_VALUE)]
Watts = Annotated[float, Meta(ge=0, le=1e9)]
"""A gigawatt is no host; without a bound, a stranger's sums could overflow."""
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
MAX_NAME_LENGTH = 253
MAX_TEXT_LENGTH = 1024
Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_LENGTH)]
Text = Annotated[str, Meta(max_length=MAX_TEXT_LENGTH)]


class PowerSource(StrEnum):
    """Where a number of watts comes from, from the most to the least direct."""

    RAPL = "rapl"
    HWMON = "hwmon"
    IPMI = "ipmi"
    MODEL = "model"
    PRIOR = "prior"


class _Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """Strict and immutable: the shape of everything that crosses the wire.

    No message can hold itself, so the garbage collector need not look at the many that a collector keeps.
    """


class NodePower(_Message, frozen=True):
    """What a node draws, split so that idle + system + its containers is the whole."""

    watts: Watts
    idle_watts: Watts
    system_watts: Watts
    source: PowerSource
    error_ratio: Ratio
    """Expected relative error of `watts`: 0.25 means a quarter more or less."""
    joules_total: NonNegative
    """Energy since the agent began to count; never goes back, over restarts of the agent too."""


class ContainerPower(_Message, frozen=True):
    """What a container adds to its node's draw, idle power apart."""

    watts: Watts
    source: PowerSource
    error_ratio: Ratio
    joules_total: NonNegative
    idle_watts: Watts = 0.0
    """What the chosen policy puts on it of the node's idle power; not in `watts`, so nothing counts twice."""


class Pressure(_Message, frozen=True):
    """The share of time in which someone waited for a resource (PSI "some"), 0-1."""

    cpu_ratio: Ratio | None = None
    memory_ratio: Ratio | None = None
    disk_ratio: Ratio | None = None


class Gap(_Message, frozen=True):
    """Something the agent cannot see on this node, and why: never a silent zero."""

    what: Text
    why: Text


class ContainerState(_Message, frozen=True):
    """One running container: the mean of its samples over a window."""

    id: Name
    """The runtime's own id."""
    name: Name
    """The runtime's name for it; the id's first twelve characters where nobody could be asked."""
    runtime: Name
    """docker, podman, containerd, cri-o, buildkit; or unknown."""
    cpu_seconds_total: NonNegative
    used: Quantities
    window_seconds: NonNegative = 0.0
    """The time that `used`, `pressure` and `power.watts` are the mean of."""
    limit: Quantities = Quantities()
    pressure: Pressure = Pressure()
    power: ContainerPower | None = None
    cpu_throttled_seconds_total: NonNegative | None = None
    oom_kills_total: Count | None = None
    restarts: Count | None = None
    image: Text | None = None
    service: Text | None = None
    """The Swarm service, compose project and service, or Kubernetes workload it belongs to."""
    labels: dict[Text, Text] = {}
    started_at: Time | None = None


class NodeState(_Message, frozen=True):
    """One host: the mean of its samples over a window."""

    used: Quantities
    capacity: Quantities
    window_seconds: NonNegative = 0.0
    learned_capacities: tuple[Resource, ...] = ()
    """Resources whose capacity nobody told: the most that was ever seen stands in for it."""
    pressure: Pressure = Pressure()
    power: NodePower | None = None
    load_1m: NonNegative | None = None
    frequency_hertz: NonNegative | None = None
    iowait_ratio: Ratio | None = None
    steal_ratio: Ratio | None = None
    swap_used_bytes: Count | None = None
    disk_busy_ratio: Ratio | None = None
    """How busy the busiest disk was."""
    oom_kills_total: Count | None = None
    gaps: tuple[Gap, ...] = ()


class EventKind(StrEnum):
    """What can happen to a node or a container."""

    JOINED = "joined"
    """The node's agent started."""
    STARTED = "started"
    STOPPED = "stopped"
    """The container ended by itself with status 0, or nobody can say how."""
    DIED = "died"
    """The container ended with another status, or by a signal."""
    OUT_OF_MEMORY = "out-of-memory"
    """A process of the container was killed for want of memory."""


class Event(_Message, frozen=True):
    """Something that happened, said at once."""

    kind: EventKind
    at: NonNegative
    container: Name | None = None
    name: Name | None = None
    lifetime_seconds: NonNegative | None = None
    """From its start to its end."""
    startup_seconds: NonNegative | None = None
    """From the moment the runtime was told to make it to the moment it ran."""
    exit_code: int | None = None
    cpu_seconds_total: NonNegative | None = None
    """Of one that ended: all the CPU time it used, up to the last time it was read."""
    joules_total: NonNegative | None = None
    """Likewise, the energy it added while the agent watched."""


class Alert(_Message, frozen=True):
    """A node has a bottleneck, or has it no longer. `(node, resource, opened_at)` names it."""

    resource: Resource
    opened_at: NonNegative
    evidence: Text
    """What was seen, for a person: "CPU at 97 % of 4 cores for 12 s; something waited 61 % of the time"."""
    ratio: Ratio | None = None
    """Use by capacity when it was last looked at."""
    pressure_ratio: Ratio | None = None
    closed_at: NonNegative | None = None
    container: Name | None = None
    """The container that uses most of the resource."""
    name: Name | None = None


class ContainerUsage(_Message, frozen=True):
    """Every sample of one container since the last heartbeat, in the units of `Quantities`."""

    id: Name
    cpu: Sketch | None = None
    memory: Sketch | None = None
    disk: Sketch | None = None
    network: Sketch | None = None


class PowerCurve(_Message, frozen=True):
    """A node's power model, told as points: enough to ask what more load would draw there."""

    source: PowerSource
    error_ratio: Ratio
    idle_watts: Watts
    cpu_ratios: Annotated[tuple[Ratio, ...], Meta(min_length=2, max_length=100)]
    cpu_watts: Annotated[tuple[Watts, ...], Meta(min_length=2, max_length=100)]
    """What CPU load adds at each of `cpu_ratios`."""
    memory_watts: Watts = 0.0
    """What full use of the resource adds, as do the next two."""
    disk_watts: Watts = 0.0
    network_watts: Watts = 0.0


class Heartbeat(_Message, frozen=True):
    """The whole truth, now and then: what was missed is healed by it. Also the first word of every boot."""

    agent_version: Name
    sample_seconds: NonNegative
    beacon_seconds: NonNegative
    """A word from the node comes at least this often."""
    usage: tuple[ContainerUsage, ...] = ()
    top: dict[Resource, tuple[Name, ...]] = {}
    """The containers that used most of each resource since the last heartbeat, the greediest first."""
    power_curve: PowerCurve | None = None


class Report(_Message, frozen=True):
    """What a node says at one time; each part only when there is something to say.

    `(node, boot, sequence)` is the key: `boot` names one run of the agent, `sequence` counts its
    reports from 1. A report that comes twice is the same report. One without any part is a beacon:
    the node lives, and nothing moved.
    """

    node: Name
    boot: Name
    sequence: Annotated[int, Meta(ge=1, le=2**63 - 1)]
    at: NonNegative
    """Unix time, by the node's clock."""
    state: NodeState | None = None
    containers: tuple[ContainerState, ...] = ()
    """Containers that are new or have moved; all of them where `heartbeat` is there."""
    gone: tuple[Name, ...] = ()
    """Ids of containers that run no longer."""
    events: tuple[Event, ...] = ()
    alerts: tuple[Alert, ...] = ()
    """Alerts that opened, changed or ended; every open one where `heartbeat` is there."""
    heartbeat: Heartbeat | None = None


class Receipt(_Message, frozen=True):
    """The collector's answer to a batch of reports, of which every one is accounted for."""

    taken: int
    """How many were new, and are now on disk."""
    known: int
    """How many were there already."""
    refused: int
    """How many will never be taken: 0, as a batch with a report that is wrong is refused as a whole."""
    server_time: float


MAX_BATCH = 100

Batch = Annotated[tuple[Report, ...], Meta(min_length=1, max_length=MAX_BATCH)]

_encoder = msgspec.json.Encoder()
_batch_decoder = msgspec.json.Decoder(Batch)
_receipt_decoder = msgspec.json.Decoder(Receipt)


def encode(message: object) -> bytes:
    """A message as JSON."""
    return _encoder.encode(message)


def parse_batch(body: bytes) -> tuple[Report, ...]:
    """The reports in a request's body; raises `msgspec.ValidationError` naming what is wrong."""
    return _batch_decoder.decode(body)


def parse_receipt(body: bytes) -> Receipt:
    """The collector's answer."""
    return _receipt_decoder.decode(body)

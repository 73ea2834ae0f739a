"""What an agent tells a collector, and how it is written down.

A message is encoded once when it leaves and decoded once at the collector's door; between the two
it is bytes. Decoding is strict: an unknown or impossible field is an error that names it.
"""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from wire.resources import Quantities

NonNegative = Annotated[float, Meta(ge=0)]
Ratio = Annotated[float, Meta(ge=0)]
LONGEST_NAME = 253
LONGEST_TEXT = 1024
Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
Text = Annotated[str, Meta(max_length=LONGEST_TEXT)]


class PowerSource(StrEnum):
    """Where a number of watts comes from, from the most to the least direct."""

    RAPL = "rapl"
    HWMON = "hwmon"
    IPMI = "ipmi"
    MODEL = "model"
    PRIOR = "prior"


class _Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Strict and immutable: the shape of everything that crosses the wire."""


class NodePower(_Message, frozen=True):
    """What a node draws, split so that idle + system + its containers is the whole."""

    watts: NonNegative
    idle_watts: NonNegative
    system_watts: NonNegative
    source: PowerSource
    error_ratio: Ratio
    """Expected relative error of `watts`: 0.25 means a quarter more or less."""
    joules_total: NonNegative
    """Energy since the agent began to count; never goes back within one boot."""


class ContainerPower(_Message, frozen=True):
    """What a container adds to its node's draw, idle power apart."""

    watts: NonNegative
    source: PowerSource
    error_ratio: Ratio
    joules_total: NonNegative


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
    """One running container over one sampling interval."""

    id: Name
    """The runtime's own id."""
    name: Name
    """The runtime's name for it; the id's first twelve characters where nobody could be asked."""
    runtime: Name
    """docker, podman, containerd, cri-o; or unknown."""
    cpu_seconds_total: NonNegative
    used: Quantities
    limit: Quantities = Quantities()
    pressure: Pressure = Pressure()
    power: ContainerPower | None = None
    image: Text | None = None
    service: Text | None = None
    """The Swarm service, compose project and service, or Kubernetes workload it belongs to."""
    started_at: float | None = None


class NodeState(_Message, frozen=True):
    """One host over one sampling interval."""

    used: Quantities
    capacity: Quantities
    pressure: Pressure = Pressure()
    power: NodePower | None = None
    gaps: tuple[Gap, ...] = ()


class Report(_Message, frozen=True):
    """Everything one node says at one time.

    `(node, boot, sequence)` is the key: `boot` names one run of the agent, `sequence` counts its
    reports from 1. A report that comes twice is the same report.
    """

    node: Name
    boot: Name
    sequence: Annotated[int, Meta(ge=1, le=2**63 - 1)]
    at: NonNegative
    """Unix time of the sample, by the node's clock."""
    interval_seconds: NonNegative
    """The time over which rates were taken."""
    agent_version: Name
    state: NodeState
    containers: tuple[ContainerState, ...] = ()


class Receipt(_Message, frozen=True):
    """The collector's answer to a batch of reports."""

    taken: int
    known: int
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

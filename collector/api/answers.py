"""What the API answers: nodes, containers, alerts, events and watts as people and orchestrators see them.

A field that is always there may be null where it is not known; quantities that are not known are left out.
"""

from enum import StrEnum
from typing import Literal

import msgspec

from collector.history.interface import Mean
from powermodels.models.what_if import CurvePoint
from wire.messages import ContainerPower, EventKind, Gap, NodePower, PowerSource, Pressure
from wire.resources import Quantities, Resource


class State(StrEnum):
    """Whether a node is heard of."""

    UP = "up"
    SUSPECT = "suspect"
    """It has missed some of its beacons: what it last said may no longer hold."""
    DOWN = "down"
    """It has missed so many that nobody should count on it."""


class AlertState(StrEnum):
    """Whether a bottleneck lasts."""

    OPEN = "open"
    CLOSED = "closed"


class Ratios(msgspec.Struct, frozen=True, omit_defaults=True):
    """Used by capacity, 0-1; above 1 where a burst exceeds it."""

    cpu_ratio: float | None = None
    memory_ratio: float | None = None
    disk_ratio: float | None = None
    network_ratio: float | None = None


class NodePlacement(msgspec.Struct, frozen=True, kw_only=True):
    """What decisions go by about a node, beside what it uses."""

    region: Literal["LEE", "DEE", "EED"]
    """By the busier of CPU and memory: below 50 % (low energy efficiency), desired, above 85 % (degraded)."""
    task_class: int | None
    """The strictest among its containers, 1-4; null without any: it takes all."""
    allocated: Quantities
    """What its containers were promised."""
    overbooking_ratio: float
    """The most promised of CPU and memory, by what there is."""
    generation: Literal["any", "nursery", "young", "old"]
    accepts: bool
    """Whether it may be given containers: neither drained, nor paused, nor opted out."""
    on: bool
    """False once it was switched off to save energy."""
    failures: int
    """Containers that died on it of late; the longer ago, the less they count."""
    labels: dict[str, str]


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A host as it last described itself. It says only what moved: what is old here still holds."""

    name: str
    state: State
    boot: str
    """Names one run of its agent."""
    complete: bool
    """Whether all that this run said since its last heartbeat has come; if not, the next one mends it."""
    sampled_at: float | None
    """Unix time of the end of the window that `used` tells of, by the node's clock."""
    window_seconds: float | None
    """The time that `used`, `pressure` and `power.watts` are the mean of."""
    last_seen_seconds_ago: float
    """Time since it was last heard of, by the collector's clock."""
    agent_version: str | None
    sample_seconds: float | None
    beacon_seconds: float | None
    """It is heard of at least this often."""
    used: Quantities
    capacity: Quantities
    learned_capacities: tuple[Resource, ...]
    """Resources whose capacity nobody told: the most that was ever seen stands in for it."""
    used_ratio: Ratios
    pressure: Pressure
    power: NodePower | None
    load_1m: float | None
    frequency_hertz: float | None
    iowait_ratio: float | None
    steal_ratio: float | None
    swap_used_bytes: int | None
    disk_busy_ratio: float | None
    oom_kills_total: int | None
    gaps: tuple[Gap, ...]
    top: dict[Resource, tuple[str, ...]]
    """Ids of the containers that used most of each resource before the last heartbeat, greediest first."""
    containers: int
    """How many containers run on it."""
    placement: NodePlacement
    mean: Mean | None
    """Over the window asked for; null while the node is down."""


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """A container as its node last described it."""

    node: str
    node_state: State
    """Unless it is `up`, all the rest is as it last was."""
    id: str
    name: str
    runtime: str
    image: str | None
    service: str | None
    labels: dict[str, str]
    cpu_seconds_total: float
    cpu_throttled_seconds_total: float | None
    oom_kills_total: int | None
    restarts: int | None
    used: Quantities
    limit: Quantities
    pressure: Pressure
    power: ContainerPower | None
    started_at: float | None
    sampled_at: float
    """Unix time of the end of the window that `used` tells of, by the node's clock."""
    window_seconds: float
    """The time that `used`, `pressure` and `power.watts` are the mean of."""
    p90: Quantities
    """What it did not exceed in nine of ten samples of the last day, from a histogram of every sample."""
    p90_samples: int
    """How many samples that is; 0 until the first heartbeat that brings them."""
    envelope: Quantities
    """What it is reckoned to need, by the number that stands for each resource's need."""
    group: str | None
    """The class of containers with a like need, named by what they need most; null while it is not known."""
    mean: Mean | None
    """Over the window asked for; null while the node is down."""


class NodeAlert(msgspec.Struct, frozen=True, kw_only=True):
    """A bottleneck that a node found in itself."""

    id: str
    """The same for as long as it is told of."""
    node: str
    node_state: State
    state: AlertState
    resource: Resource
    opened_at: float
    closed_at: float | None
    """Null while it is open, and where the word of its end was lost."""
    evidence: str
    ratio: float | None
    pressure_ratio: float | None
    container: str | None
    """Id of the container that uses most of the resource."""
    name: str | None


class NodeEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened to a node or a container."""

    node: str
    kind: EventKind
    at: float
    container: str | None
    name: str | None
    lifetime_seconds: float | None
    startup_seconds: float | None
    exit_code: int | None
    cpu_seconds_total: float | None
    """Of a container that ended: all the CPU time it used, up to the last time it was read."""
    joules_total: float | None
    """Likewise, the energy it added while its agent watched."""


class NodePowerCurve(msgspec.Struct, frozen=True, kw_only=True):
    """What a node would draw from no CPU load to full, with all else as it last was."""

    node: str
    node_state: State
    """Unless it is `up`, all the rest is as it last was."""
    source: PowerSource
    error_ratio: float
    """Expected relative error of the watts: 0.25 means a quarter more or less."""
    sampled_at: float | None
    """When all else was as it is taken here, by the node's clock; null if the node has not said."""
    points: tuple[CurvePoint, ...]


class WhatIfAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What an envelope would add to a node's draw."""

    node: str
    before_watts: float
    after_watts: float
    added_watts: float
    error_watts: float
    """How far off `added_watts` may be."""
    exceeded: tuple[Resource, ...]
    """What the node would have too little of; the watts are then those of full use."""
    not_counted: tuple[Resource, ...]
    """What the envelope asks for, but the node does not know its use or capacity of."""
    source: PowerSource


class Unanswered(msgspec.Struct, frozen=True):
    """A node of which it cannot be told, and why."""

    node: str
    why: str


class WhatIfAnswers(msgspec.Struct, frozen=True):
    """What an envelope would add, the least first; and the nodes of which that is not known, by name."""

    answers: list[WhatIfAnswer]
    unknown: list[Unanswered]


class Health(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the collector is."""

    status: str
    version: str
    problems: tuple[str, ...] = ()
    """What it does without for now, though it can go on: a store or a Prometheus that does not answer."""

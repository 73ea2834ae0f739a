"""What the API answers: nodes and containers as people and orchestrators see them.

A field that is always there may be null where it is not known; quantities that are not known are left out.
"""

from enum import StrEnum

import msgspec

from collector.history.interface import Mean
from wire.messages import ContainerPower, Gap, NodePower, Pressure
from wire.resources import Quantities


class State(StrEnum):
    """Whether a node is heard of."""

    UP = "up"
    SILENT = "silent"


class Ratios(msgspec.Struct, frozen=True, omit_defaults=True):
    """Used by capacity, 0-1; above 1 where a burst exceeds it."""

    cpu_ratio: float | None = None
    memory_ratio: float | None = None
    disk_ratio: float | None = None
    network_ratio: float | None = None


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A host as last reported."""

    name: str
    state: State
    boot: str
    """Names one run of its agent."""
    sampled_at: float
    """Unix time of the sample, by the node's clock."""
    last_seen_seconds_ago: float
    """Time since it was last heard of, by the collector's clock."""
    agent_version: str
    interval_seconds: float
    used: Quantities
    capacity: Quantities
    used_ratio: Ratios
    pressure: Pressure
    power: NodePower | None
    gaps: tuple[Gap, ...]
    containers: int
    """How many containers run on it."""
    mean: Mean | None
    """Over the window asked for; null when no sample of it is stored."""


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """A container as last reported by its node."""

    node: str
    node_state: State
    """`silent` means that all the rest is as it last was."""
    id: str
    name: str
    runtime: str
    image: str | None
    service: str | None
    cpu_seconds_total: float
    used: Quantities
    limit: Quantities
    pressure: Pressure
    power: ContainerPower | None
    started_at: float | None
    sampled_at: float
    mean: Mean | None
    """Over the window asked for; null when no sample of it is stored."""


class Nodes(msgspec.Struct, frozen=True):
    """Every node, by name."""

    nodes: list[Node]


class Containers(msgspec.Struct, frozen=True):
    """Containers, by name, then by node and id."""

    containers: list[Container]


class Health(msgspec.Struct, frozen=True):
    """How the collector is."""

    status: str
    version: str

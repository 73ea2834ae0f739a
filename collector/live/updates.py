"""What goes into the live tables, and the record of one node that comes out of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from collector.reports.agent_run import NO_CHANGES, NodeChanges
from collector.snapshot.columns import Four
from collector.snapshot.tables import Generation, Region
from wire.messages import PowerCurve
from wire.resources import Quantities

Flags = tuple[bool, bool, bool, bool]
"""One flag per resource."""
Culprits = tuple[str, str, str, str]
"""One container id per resource; empty if there is none."""
NO_CULPRITS: Culprits = ("", "", "", "")


class NodeUpdate(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The changes that one report makes to its node, and how the node stands then. None means unchanged."""

    node: str
    last_report_at: float
    """By the collector's clock."""
    beacon_seconds: float
    changes: NodeChanges = NO_CHANGES
    curve: PowerCurve | None = None
    bottleneck: Flags | None = None
    culprits: Culprits = NO_CULPRITS
    """The containers that the open alerts name, if `bottleneck` is set."""
    failures: int = 0
    """Containers that died or ran out of memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    """The facts about one node that policies use, apart from its load."""

    region: Region
    task_class: int | None
    """The strictest SLA class among its tasks; None without tasks."""
    allocated: Quantities
    """The resources promised to its tasks; absent where none are."""
    overbooking: float
    """The higher of the promised CPU and memory, as a ratio of the capacity."""
    generation: Generation
    accepts: bool
    on: bool
    failures: int
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """The resources that an orchestrator promised a container; they override the limits from its node."""

    node: str
    container: str
    requested: Four
    """Promised at its start; NaN for a resource without a promise."""
    allocated: Four
    """Promised now, after cuts."""
    came_from: str | None = None
    """The node it was moved from."""
    first_started_at: float | None = None
    """When the first container started that it replaces; None if it replaces none."""
    stays: bool = False
    """Whether the orchestrator pins it to its node; otherwise its labels decide whether it may be moved."""
    everywhere: bool = False
    """Whether the orchestrator runs one instance on every node; otherwise its labels set its kind."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """The labels of its service, which override those of the container."""
    namespace: str = ""
    """The namespace of its service in Kubernetes; empty elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Succession:
    """A container that replaced another one in a move: its usage is that of its predecessor."""

    node: str
    container: str
    from_node: str
    predecessor: str

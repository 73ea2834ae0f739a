"""What goes into the live tables, and the record of one node that comes out of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from collector.snapshot.columns import Four
from collector.snapshot.tables import Generation, Region
from wire.messages import ContainerState, NodeState, PowerCurve
from wire.resources import Quantities

Flags = tuple[bool, bool, bool, bool]
"""One flag per resource."""
Culprits = tuple[str, str, str, str]
"""One container id per resource; empty if there is none."""
NO_CULPRITS: Culprits = ("", "", "", "")


class NodeUpdate(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The changes that one report makes to its node. None means unchanged."""

    node: str
    last_report_at: float
    """By the collector's clock."""
    beacon_seconds: float
    state: NodeState | None = None
    containers: Sequence[ContainerState] = ()
    """New and changed containers."""
    gone: Sequence[str] = ()
    """Ids of the containers that ended."""
    curve: PowerCurve | None = None
    bottleneck: Flags | None = None
    culprits: Culprits = NO_CULPRITS
    """The containers that the open alerts name, if `bottleneck` is set."""
    failures: int = 0
    """Containers that died or ran out of memory."""
    is_new_run: bool = False
    """Whether the agent restarted: the state of its earlier run is void."""


class ContainerChanges(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The changes that one report makes to the containers of its node."""

    new: Sequence[ContainerState] = ()
    changed: Sequence[ContainerState] = ()
    """Including the new ones."""
    gone: Sequence[str] = ()
    """Ids of the containers that ended."""
    is_new_run: bool = False
    """Whether the agent restarted."""
    images: Sequence[str] | None = None
    """Names of all images on the node, if they may have changed."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestratedTask:
    """A task that an orchestrator wants to run."""

    id: str
    """Id of the task or pod."""
    slot: str | None = None
    """Its place among the instances of its service, if the orchestrator numbers them."""
    container: str = ""
    """Empty while it has none."""
    node: str = ""
    created_at: float | None = None
    """Unix time; None if unknown."""
    running_since: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestratedService:
    """A service of an orchestrator, with its tasks."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    instances: int | None = None
    """Desired number of instances; None for as many as it has tasks."""
    tasks: tuple[OrchestratedTask, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """The status of a node, from an orchestrator or the control loop. None means unknown."""

    node: str
    on: bool | None = None
    accepts: bool | None = None
    labels: tuple[tuple[str, str], ...] | None = None

"""What the board is told, and what it tells those that learn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from collector.snapshot.assembly import Four
from collector.snapshot.tables import Generation, Region
from wire.messages import ContainerState, NodeState, PowerCurve
from wire.resources import Quantities

Flags = tuple[bool, bool, bool, bool]
"""One per resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a report changed in the picture of its node."""

    node: str
    heard_at: float
    """When the node was last heard of, by the collector's clock."""
    beacon_seconds: float
    state: NodeState | None = None
    """None means as before."""
    containers: Sequence[ContainerState] = ()
    """Those that are new or said something."""
    gone: Sequence[str] = ()
    """Ids of those that were there and are not any more."""
    curve: PowerCurve | None = None
    """None means as before."""
    bottleneck: Flags | None = None
    """None means as before."""
    failures: int = 0
    """Containers that died, or ran out of memory, as this report says."""
    is_new_run: bool = False
    """Nothing that an earlier run said of the node holds any more."""

    @property
    def tells_use(self) -> bool:
        """Whether it changes how much of the node is used, as far as that is known."""
        return self.state is not None or self.is_new_run


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRecord:
    """What decisions go by about one node, beside what it uses."""

    region: Region
    task_class: int | None
    """The strictest among its tasks; None without any."""
    allocated: Quantities
    """What its tasks were promised; absent where nothing was."""
    overbooking: float
    """The most promised of CPU and memory, by what there is."""
    generation: Generation
    accepts: bool
    on: bool
    failures: int
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """What an orchestrator promised a container: it counts more than the limits that the node sees."""

    node: str
    container: str
    requested: Four
    """What it was promised at first; NaN for a resource that nothing was said of."""
    allocated: Four
    """What it is promised now, after cuts."""
    came_from: str | None = None
    """The node it was moved away from."""
    stays: bool = False
    """Whether the orchestrator holds it where it is; else its labels say whether it may be moved."""
    everywhere: bool = False
    """Whether the orchestrator runs one on every node; else its labels say what it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What an orchestrator, or whoever switches nodes, knows of one; None means not told."""

    node: str
    on: bool | None = None
    accepts: bool | None = None
    labels: tuple[tuple[str, str], ...] | None = None

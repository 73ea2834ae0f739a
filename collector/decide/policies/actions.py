"""The actions of a plan: one type for each kind, for policies, journal, API and drivers alike."""

from typing import Annotated

import msgspec
from msgspec import Meta

from wire.resources import Quantities
from wire.settings import Section

_SHORT_ID = 12


class _BaseAction(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    reasons: tuple[str, ...]
    """Why the policy plans it."""

    @property
    def kind(self) -> str:
        return str(self.__struct_config__.tag)


class _ContainerAction(_BaseAction, frozen=True, kw_only=True):
    task: str
    """Id of the container."""
    name: str = ""
    """Name of the container."""

    @property
    def title(self) -> str:
        """The name, or else the short id."""
        return self.name or short_id(self.task)


class SizeBounds(Section, frozen=True, kw_only=True):
    """The bounds of the size of a service."""

    replicas_min: Annotated[int, Meta(ge=1, le=10_000)] = 1
    """Fewest replicas that it may have."""
    replicas_max: Annotated[int, Meta(ge=1, le=10_000)] = 10
    """Most replicas that it may have."""
    cpu_min_cores: Annotated[float, Meta(gt=0, le=1e4)] = 0.1
    """Smallest CPU limit of a replica."""
    cpu_max_cores: Annotated[float, Meta(gt=0, le=1e4)] = 1.0
    """Largest CPU limit of a replica."""
    cool_down_seconds: Annotated[float, Meta(ge=0, le=86_400)] = 60.0
    """Minimum time from the start of one change to the start of the next."""


class Move(_ContainerAction, frozen=True, kw_only=True, tag="move"):
    """Move a container to another node."""

    node: str
    """The node that it runs on."""
    target: str
    """The node that it moves to."""
    gain_watts: float = 0.0
    """Power that it saves."""
    cost_joules: float = 0.0
    """Energy that the move itself takes."""


class Cut(_ContainerAction, frozen=True, kw_only=True, tag="cut"):
    """Change the limits of a running container: less, or again what it requested."""

    node: str
    """The node that it runs on."""
    allocated: Quantities
    """Its new limits."""


class Kill(_ContainerAction, frozen=True, kw_only=True, tag="kill"):
    """Stop a container, and start it again with the limits that it requested."""

    node: str
    """The node that it runs on."""
    target: str | None
    """The node that it starts on; null if it waits for room."""
    sheds: bool = False
    """Whether it is optional, and stops while resources are short: the limits of moves do not apply."""


class Start(_ContainerAction, frozen=True, kw_only=True, tag="start"):
    """Start a waiting container."""

    target: str
    """The node that it starts on."""
    sheds: bool = False
    """Whether it is optional, and was stopped while resources were short."""


class PowerOn(_BaseAction, frozen=True, kw_only=True, tag="power-on"):
    """Switch a node on."""

    node: str


class PowerOff(_BaseAction, frozen=True, kw_only=True, tag="power-off"):
    """Switch a node off."""

    node: str
    gain_watts: float = 0.0
    """Power that it saves."""
    cost_joules: float = 0.0
    """Energy that it takes to switch it off, and on again."""


class _ServiceAction(_BaseAction, frozen=True, kw_only=True):
    service: str
    """Name of the service, as the orchestrator knows it."""

    @property
    def title(self) -> str:
        return self.service


class Scale(_ServiceAction, frozen=True, kw_only=True, tag="scale"):
    """Change the number of replicas of a service."""

    replicas: int
    """Replicas that it has afterwards."""
    replicas_before: int
    """Replicas that it has when the action is planned."""
    nodes: tuple[str, ...] = ()
    """Nodes that the new replicas should start on, one for each; empty if the orchestrator chooses."""
    sheds: bool = False
    """Whether an optional service stops while resources are short, or starts again afterwards: the bounds
    and the cool-down of elasticity do not apply."""


class Resize(_ServiceAction, frozen=True, kw_only=True, tag="resize"):
    """Change the CPU limit of every replica of a service."""

    cpu_limit_cores: float
    """CPU limit of each replica afterwards."""
    cpu_limit_cores_before: float | None
    """Null without a limit."""


Relocation = Move | Kill | Start
"""Actions that change where a container runs."""
ServiceAction = Scale | Resize
"""Actions that change a whole service. They state the goal, so that a repeated one changes nothing."""
Action = Relocation | Cut | PowerOn | PowerOff | ServiceAction


def affected_nodes(action: Action) -> frozenset[str]:
    """Return the nodes that an action changes."""
    match action:
        case Move(node=node, target=target) | Kill(node=node, target=str(target)):
            return frozenset((node, target))
        case Start(target=node) | Kill(node=node) | Cut(node=node) | PowerOn(node=node) | PowerOff(node=node):
            return frozenset((node,))
        case Scale(nodes=nodes):
            return frozenset(nodes)
        case Resize():
            return frozenset()


def describe(action: Action) -> str:
    """Describe an action as an instruction."""
    match action:
        case Move():
            return f"move {action.title} from {action.node} to {action.target}"
        case Cut():
            return f"limit {action.title} on {action.node} to {describe_amounts(action.allocated)}"
        case Kill(target=None):
            until = "nothing is short" if action.sheds else "there is room"
            return f"stop {action.title} on {action.node} until {until}"
        case Kill():
            return f"stop {action.title} on {action.node} and start it on {action.target}"
        case Start():
            return f"start {action.title} on {action.target}"
        case PowerOn():
            return f"switch {action.node} on"
        case PowerOff():
            return f"switch {action.node} off"
        case Scale():
            count = "1 replica" if action.replicas == 1 else f"{action.replicas} replicas"
            where = f", the new ones on {', '.join(sorted(set(action.nodes)))}" if action.nodes else ""
            return f"scale {action.service} from {action.replicas_before} to {count}{where}"
        case Resize():
            return f"limit each replica of {action.service} to {describe_cores(action.cpu_limit_cores)}"


def describe_amounts(quantities: Quantities) -> str:
    """Format CPU and memory, as far as they are set."""
    parts = []
    if quantities.cpu_cores is not None:
        parts.append(describe_cores(quantities.cpu_cores))
    if quantities.memory_bytes is not None:
        parts.append(megabytes(quantities.memory_bytes))
    return " and ".join(parts) or "no limit"


def describe_cores(cores: float) -> str:
    """Format a number of CPU cores."""
    return f"{cores:g} {'core' if cores == 1 else 'cores'}"


def megabytes(amount_bytes: float) -> str:
    """Format an amount of memory."""
    return f"{amount_bytes / 1e6:.0f} MB"


def short_id(container: str) -> str:
    """Return the first characters of a container's id."""
    return container[:_SHORT_ID]

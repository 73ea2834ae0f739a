"""The actions of a plan: one type for each kind, for policies, journal, API and drivers alike."""

import msgspec

from wire.resources import Quantities

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


class Start(_ContainerAction, frozen=True, kw_only=True, tag="start"):
    """Start a waiting container."""

    target: str
    """The node that it starts on."""


class PowerOn(_BaseAction, frozen=True, kw_only=True, tag="power-on"):
    """Switch a node on."""

    node: str


class PowerOff(_BaseAction, frozen=True, kw_only=True, tag="power-off"):
    """Switch a node off."""

    node: str
    gain_watts: float = 0.0
    """Power that it saves."""


Relocation = Move | Kill | Start
"""Actions that change where a container runs."""
Action = Relocation | Cut | PowerOn | PowerOff


def affected_nodes(action: Action) -> frozenset[str]:
    """Return the nodes that an action changes."""
    match action:
        case Move(node=node, target=target) | Kill(node=node, target=str(target)):
            return frozenset((node, target))
        case Start(target=node) | Kill(node=node) | Cut(node=node) | PowerOn(node=node) | PowerOff(node=node):
            return frozenset((node,))


def describe(action: Action) -> str:
    """Describe an action as an instruction."""
    match action:
        case Move():
            return f"move {action.title} from {action.node} to {action.target}"
        case Cut():
            return f"limit {action.title} on {action.node} to {describe_amounts(action.allocated)}"
        case Kill(target=None):
            return f"stop {action.title} on {action.node} until there is room"
        case Kill():
            return f"stop {action.title} on {action.node} and start it on {action.target}"
        case Start():
            return f"start {action.title} on {action.target}"
        case PowerOn():
            return f"switch {action.node} on"
        case PowerOff():
            return f"switch {action.node} off"


def describe_amounts(quantities: Quantities) -> str:
    """Format CPU and memory, as far as they are set."""
    parts = []
    if quantities.cpu_cores is not None:
        parts.append(f"{quantities.cpu_cores:g} {'core' if quantities.cpu_cores == 1 else 'cores'}")
    if quantities.memory_bytes is not None:
        parts.append(megabytes(quantities.memory_bytes))
    return " and ".join(parts) or "no limit"


def megabytes(amount_bytes: float) -> str:
    """Format an amount of memory."""
    return f"{amount_bytes / 1e6:.0f} MB"


def short_id(container: str) -> str:
    """Return the first characters of a container's id."""
    return container[:_SHORT_ID]

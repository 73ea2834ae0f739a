"""Actions in the words of a person."""

from collector.policies.interface import Action, Cut, Kill, Move, Power, Start
from wire.resources import Quantities

_SHORT_ID = 12


def short(container: str) -> str:
    """An id as people see it in lists."""
    return container[:_SHORT_ID]


def described(action: Action) -> str:
    """What an action asks for, as an order."""
    match action:
        case Move():
            return f"move {short(action.task)} from {action.source} to {action.target}"
        case Cut():
            return f"hold {short(action.task)} on {action.node} to {amounts(action.allocated)}"
        case Kill(target=None):
            return f"stop {short(action.task)} on {action.node} until there is room for it"
        case Kill():
            return f"stop {short(action.task)} on {action.node} and start it anew on {action.target}"
        case Start():
            return f"start {short(action.task)} on {action.target}"
        case Power():
            return f"switch {action.node} {'on' if action.on else 'off'}"


def amounts(quantities: Quantities) -> str:
    """CPU and memory, as far as they are told."""
    parts = []
    if quantities.cpu_cores is not None:
        parts.append(f"{quantities.cpu_cores:g} cores")
    if quantities.memory_bytes is not None:
        parts.append(megabytes(quantities.memory_bytes))
    return " and ".join(parts) or "what it has"


def megabytes(amount_bytes: float) -> str:
    """An amount of memory."""
    return f"{amount_bytes / 1e6:.0f} MB"

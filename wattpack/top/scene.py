"""What there is to be seen at one moment: the same, whether looked at here or told by a collector."""

import msgspec

from wire.messages import ContainerPower, Gap, NodePower, Pressure
from wire.resources import Quantities, Resource

UP, SUSPECT, DOWN = "up", "suspect", "down"


class _Seen(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Fields that this version does not know are passed over: the collector may be newer."""


class Node(_Seen, frozen=True):
    """A host."""

    name: str
    state: str = UP
    used: Quantities = Quantities()
    capacity: Quantities = Quantities()
    learned_capacities: tuple[Resource, ...] = ()
    pressure: Pressure = Pressure()
    disk_busy_ratio: float | None = None
    power: NodePower | None = None
    gaps: tuple[Gap, ...] = ()


class Container(_Seen, frozen=True):
    """A running container."""

    node: str
    id: str
    name: str
    service: str | None = None
    used: Quantities = Quantities()
    limit: Quantities = Quantities()
    pressure: Pressure = Pressure()
    power: ContainerPower | None = None


class Shortage(_Seen, frozen=True):
    """An open alert of a node."""

    node: str
    resource: Resource
    evidence: str
    opened_at: float
    container: str | None = None
    name: str | None = None


class Scene(_Seen, frozen=True):
    """Everything at once."""

    at: float
    nodes: tuple[Node, ...] = ()
    containers: tuple[Container, ...] = ()
    alerts: tuple[Shortage, ...] = ()
    trouble: str | None = None
    """Why this is not how things are now, but how they last were."""

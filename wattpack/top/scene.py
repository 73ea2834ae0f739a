"""The nodes and containers at one moment, from this host or from a collector."""

from collections.abc import Iterable

import msgspec

from wire.messages import Alert, ContainerPower, Gap, NodePower, Pressure, Report
from wire.resources import Quantities, Resource

UP, SUSPECT, DOWN = "up", "suspect", "down"


class _Lenient(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Ignores unknown fields: the collector may be newer."""


class Node(_Lenient, frozen=True):
    """A node."""

    name: str
    state: str = UP
    used: Quantities = Quantities()
    capacity: Quantities = Quantities()
    learned_capacities: tuple[Resource, ...] = ()
    pressure: Pressure = Pressure()
    disk_busy_ratio: float | None = None
    power: NodePower | None = None
    gaps: tuple[Gap, ...] = ()

    @property
    def node(self) -> str:
        """Its name, as of a container."""
        return self.name

    @property
    def service(self) -> None:
        """None, in place of that of a container."""


class Container(_Lenient, frozen=True):
    """A running container."""

    node: str
    id: str
    name: str
    service: str | None = None
    used: Quantities = Quantities()
    limit: Quantities = Quantities()
    pressure: Pressure = Pressure()
    power: ContainerPower | None = None


class OpenAlert(_Lenient, frozen=True):
    """An open alert of a node."""

    node: str
    resource: Resource
    evidence: str
    opened_at: float
    container: str | None = None
    name: str | None = None


class Scene(_Lenient, frozen=True):
    """All nodes, containers and alerts."""

    at: float
    nodes: tuple[Node, ...] = ()
    containers: tuple[Container, ...] = ()
    alerts: tuple[OpenAlert, ...] = ()
    problem: str | None = None
    """Why this scene is out of date; null if it is current."""


def scene_of(report: Report, alerts: Iterable[Alert] = ()) -> Scene:
    """The scene of one node, from its full report."""
    node = report.node
    parts: dict[str, Iterable[msgspec.Struct]] = {"containers": report.containers, "alerts": alerts}
    found = {
        name: [{**msgspec.to_builtins(each), "node": node} for each in every] for name, every in parts.items()
    }
    state = {} if report.state is None else msgspec.to_builtins(report.state)
    return msgspec.convert({"at": report.at, "nodes": [{**state, "name": node}], **found}, Scene)

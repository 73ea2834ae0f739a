"""The settings of the mesh, and of applications that span nodes."""

from math import inf
from typing import Annotated

from msgspec import Meta

from wire.settings import NamedTables, Section


class MeshConfig(Section, frozen=True):
    """Round-trip times between nodes, measured by their agents."""

    enabled: bool = False
    """Whether agents with `mesh.enabled` measure the round-trip times between them. The collector chooses the
    pairs of nodes, and distributes keys."""


class ApplicationRule(Section, frozen=True):
    """An application whose services may have any owner, and run on any node."""

    delay_max_seconds: Annotated[float, Meta(gt=0)] = inf
    """Overrides the labels of its services."""
    services: tuple[str, ...] = ("*",)
    """Patterns of the names of services that may belong to it, of any owner."""


TABLES = {
    "mesh": MeshConfig,
    "applications": NamedTables(
        kind=ApplicationRule,
        description="`[applications.shop]`: a table per application with `delay_max_seconds` (maximum"
        " round-trip time between its nodes; overrides the label `wattpack.delay-max`) and `services`"
        " (patterns of the names of services that may belong to it, by default all). Needed for an"
        " application of several stacks, projects or namespaces; without Swarm and Kubernetes also for one"
        " whose services run on several nodes. Labels affect no services of others unless the application is"
        " named here.",
    ),
}

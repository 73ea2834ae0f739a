"""What labels and settings say about nodes, containers and services; `collector.common.labels` lists them.

Labels of a service come from nodes, and no node changes the application of a service that another one runs:
the first node that runs a service decides, unless an orchestrator lists the service.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple

from collector.common.applications import ApplicationTraits
from collector.common.labels import (
    ACCEPT_LABEL,
    CLASS_LABEL,
    GENERATION_LABEL,
    KIND_LABEL,
    MOVE_LABEL,
    NEVER,
    POWER_LABEL,
)
from collector.snapshot.claims import ServiceClaim
from collector.snapshot.tables import Generation, TaskKind

_CLASSES = {"1": 1, "2": 2, "3": 3, "4": 4}
_KINDS = {kind.name.lower(): kind for kind in TaskKind}
_GENERATIONS = {generation.name.lower(): generation for generation in Generation}


class TaskTraits(NamedTuple):
    """The traits of a container that its labels set."""

    task_class: int
    kind: TaskKind
    movable: bool


def kind_of(labels: Mapping[str, str]) -> TaskKind:
    """How long a container is expected to run; an invalid value counts as unset."""
    return _KINDS.get(labels.get(KIND_LABEL, ""), TaskKind.SERVICE)


def task_traits(labels: Mapping[str, str], default_class: int) -> TaskTraits:
    """The traits of a container; an invalid value counts as unset."""
    return TaskTraits(
        _CLASSES.get(labels.get(CLASS_LABEL, ""), default_class),
        kind_of(labels),
        labels.get(MOVE_LABEL) != NEVER,
    )


@dataclass(frozen=True, slots=True)
class NodeTraits:
    """The traits of a node that its labels and the settings set."""

    labels: Mapping[str, str]
    generation: Generation
    accepts: bool


def node_traits(
    name: str,
    rules: Mapping[str, Mapping[str, str]],
    own_labels: Mapping[str, str],
    *,
    runs_collector: bool = False,
) -> NodeTraits:
    """The traits of a node. Rules whose pattern matches override its own labels; the last rule wins.

    The node that runs the collector is never switched off.
    """
    labels = dict(own_labels)
    for pattern, more in rules.items():
        if fnmatchcase(name, pattern):
            labels |= more
    if runs_collector:
        labels[POWER_LABEL] = NEVER
    generation = _GENERATIONS.get(labels.get(GENERATION_LABEL, ""), Generation.ANY)
    accepts = labels.get(ACCEPT_LABEL) != NEVER
    return NodeTraits(labels, generation, accepts)


class ServiceClaims:
    """Whose labels name the application of each service that runs. Not thread-safe."""

    def __init__(self) -> None:
        self._claims: dict[str, ServiceClaim] = {}
        self.version = 0
        """Incremented when a service gets another application."""

    def put(self, service: str, traits: ApplicationTraits, node: str | None) -> None:
        """Set the application of a service, by the labels of a node, or of an orchestrator if that is None.

        The labels of another node are ignored, even while the first one runs no container of the service.
        """
        known = self._claims.get(service)
        if known is not None and node is not None and known.node != node:
            return
        claim = ServiceClaim(traits, node)
        if claim != known:
            self._claims[service] = claim
            if traits.name or (known is not None and known.traits.name):
                self.version += 1

    def drop(self, service: str) -> None:
        """Forget a service that no node runs."""
        claim = self._claims.pop(service, None)
        if claim is not None and claim.traits.name:
            self.version += 1

    def drop_node(self, node: str) -> set[str]:
        """Forget the claims of a node that is removed; returns the services that other nodes may claim."""
        services = {name for name, claim in self._claims.items() if claim.node == node}
        for service in services:
            self.drop(service)
        return services

    def copy(self) -> dict[str, ServiceClaim]:
        """The services that belong to an application, in the order in which they were claimed."""
        return {service: claim for service, claim in self._claims.items() if claim.traits.name}

"""What labels and settings allow for nodes and containers; the labels are in `collector.common.labels`."""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple

from collector.common.labels import (
    ACCEPT_LABEL,
    CLASS_LABEL,
    GENERATION_LABEL,
    KIND_LABEL,
    MOVE_LABEL,
    NEVER,
    POWER_LABEL,
)
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
